"""The command `python -m experiments.collapse_time`."""

from ipsrl import study

study.main(__package__)
