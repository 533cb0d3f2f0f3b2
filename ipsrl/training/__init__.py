"""The step, the loop, and what they leave on disk."""
