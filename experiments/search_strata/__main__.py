"""The command `python -m experiments.search_strata`."""

from ipsrl import study

study.main(__package__)
