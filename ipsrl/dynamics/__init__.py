"""Exact theory."""
