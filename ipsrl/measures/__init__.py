"""What is left of the outcomes: diversity, distances, pass@k."""
