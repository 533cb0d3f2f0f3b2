"""Re-weighting: changes the advantages of answers or tokens, `[P, G, T]` -> `[P, G, T]`."""
