"""The command `python -m experiments.verifier_corrections`."""

from ipsrl import study

study.main(__package__)
