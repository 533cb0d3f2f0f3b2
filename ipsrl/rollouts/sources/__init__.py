"""Sources of groups: where the groups of a training step come from."""
