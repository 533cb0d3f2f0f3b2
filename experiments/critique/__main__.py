"""The command `python -m experiments.critique`."""

from ipsrl import study

study.main(__package__)
