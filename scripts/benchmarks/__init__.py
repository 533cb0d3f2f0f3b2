"""Benchmarks that scripts/benchmark.py runs, a module for each of its commands."""
