"""The command `python -m experiments.group_size_or_sampling`."""

from ipsrl import study

study.main(__package__)
