"""The command `python -m experiments.survival_map`."""

from ipsrl import study

study.main(__package__)
