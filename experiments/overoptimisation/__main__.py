"""The command `python -m experiments.overoptimisation`."""

from ipsrl import study

study.main(__package__)
