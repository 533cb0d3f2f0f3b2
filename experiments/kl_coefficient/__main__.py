"""The command `python -m experiments.kl_coefficient`."""

from ipsrl import study

study.main(__package__)
