"""Estimators shared by the parts: ranks, frequencies, ratios, divergences, discounted sums."""
