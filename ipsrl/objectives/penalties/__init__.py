"""Penalties: costs that are added to the loss, `[P, G, T]`."""
