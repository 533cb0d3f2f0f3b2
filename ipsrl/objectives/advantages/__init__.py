"""Advantages: a baseline and a scale for the shaped rewards, `[P, G]` -> `[P, G]`."""
