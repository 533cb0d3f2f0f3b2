"""The command `python -m experiments.path_multiplicity`."""

from ipsrl import study

study.main(__package__)
