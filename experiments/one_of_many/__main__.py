"""The command `python -m experiments.one_of_many`."""

from ipsrl import study

study.main(__package__)
