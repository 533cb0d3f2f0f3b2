"""Reward shaping: rewards of a group in, other rewards out, `[P, G]` -> `[P, G]`."""
