"""The command `python -m experiments.dapo_steps`."""

from ipsrl import study

study.main(__package__)
