"""Trials that scripts/reliability.py runs, a module for each."""
