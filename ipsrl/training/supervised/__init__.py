"""Supervised training: priors from demonstrations, and a warm start for text tasks."""
