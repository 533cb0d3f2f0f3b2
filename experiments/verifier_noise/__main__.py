"""The command `python -m experiments.verifier_noise`."""

from ipsrl import study

study.main(__package__)
