"""The command `python -m experiments.warm_start`."""

from ipsrl import study

study.main(__package__)
