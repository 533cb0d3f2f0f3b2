"""The command `python -m experiments.molecules_enumerated`."""

from ipsrl import study

study.main(__package__)
