"""The command `python -m experiments.compare`."""

from ipsrl import study

study.main(__package__)
