"""The command `python -m experiments.planning_and_execution`."""

from ipsrl import study

study.main(__package__)
