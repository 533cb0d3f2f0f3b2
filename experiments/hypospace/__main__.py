"""The command `python -m experiments.hypospace`."""

from ipsrl import study

study.main(__package__)
