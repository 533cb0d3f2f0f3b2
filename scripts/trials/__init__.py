"""What scripts/reliability.py runs, a module for each of its trials."""
