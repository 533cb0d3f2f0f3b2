"""Measures of the outcomes a policy still produces: diversity, distances, pass@k."""
