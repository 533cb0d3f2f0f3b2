"""The command `python -m experiments.verdicts`."""

from ipsrl import study

study.main(__package__)
