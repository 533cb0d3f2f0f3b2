"""What parts share: ranks, frequencies, ratios, divergences, discounted sums."""
