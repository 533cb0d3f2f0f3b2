"""The command `python -m experiments.inverse_soft_rl`."""

from ipsrl import study

study.main(__package__)
