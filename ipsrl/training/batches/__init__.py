"""How the groups of a step are chosen, sampled, verified and filtered."""
