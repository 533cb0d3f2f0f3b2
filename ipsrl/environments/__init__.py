"""Environments: prompts, legal actions, rewards and outcomes."""
