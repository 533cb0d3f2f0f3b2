"""The command `python -m experiments.divergences`."""

from ipsrl import study

study.main(__package__)
