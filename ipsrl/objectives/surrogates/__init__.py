"""Surrogates: what is maximised in place of the return, `[P, G, T]`."""
