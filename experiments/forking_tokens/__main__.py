"""The command `python -m experiments.forking_tokens`."""

from ipsrl import study

study.main(__package__)
