"""The command `python -m experiments.hybrid_addition`."""

from ipsrl import study

study.main(__package__)
