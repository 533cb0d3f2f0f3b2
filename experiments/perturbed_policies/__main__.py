"""The command `python -m experiments.perturbed_policies`."""

from ipsrl import study

study.main(__package__)
