"""Re-weighting: advantages of answers or tokens changed, `[P, G, T]` -> `[P, G, T]`."""
