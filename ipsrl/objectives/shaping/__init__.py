"""Reward shaping: maps the rewards of a group to other rewards, `[P, G]` -> `[P, G]`."""
