"""The command `python -m experiments.search_diversity`."""

from ipsrl import study

study.main(__package__)
