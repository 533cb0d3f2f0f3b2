"""The command `python -m experiments.phase_portraits`."""

from ipsrl import study

study.main(__package__)
