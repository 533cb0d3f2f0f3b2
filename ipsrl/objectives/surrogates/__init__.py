"""Surrogates: values that are maximised instead of the return, `[P, G, T]`."""
