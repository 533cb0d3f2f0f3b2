"""The command `python -m experiments.hybrid_modes`."""

from ipsrl import study

study.main(__package__)
