"""The command `python -m experiments.covariate_shift`."""

from ipsrl import study

study.main(__package__)
