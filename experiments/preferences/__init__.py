"""Bandits with many prompts: what studies of preferences share."""
