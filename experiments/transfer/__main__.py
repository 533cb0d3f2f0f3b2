"""The command `python -m experiments.transfer`."""

from ipsrl import study

study.main(__package__)
