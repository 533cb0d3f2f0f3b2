"""The command `python -m experiments.evolution`."""

from ipsrl import study

study.main(__package__)
