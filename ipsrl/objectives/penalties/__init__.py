"""Penalties: costs added to the loss, `[P, G, T]`."""
