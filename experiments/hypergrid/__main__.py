"""The command `python -m experiments.hypergrid`."""

from ipsrl import study

study.main(__package__)
