"""The command `python -m experiments.mode_bench`."""

from ipsrl import study

study.main(__package__)
