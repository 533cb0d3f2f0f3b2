"""The command `python -m experiments.inside_trl`."""

from ipsrl import study

study.main(__package__)
