"""The command `python -m experiments.recovery_time`."""

from ipsrl import study

study.main(__package__)
