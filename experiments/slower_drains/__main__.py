"""The command `python -m experiments.slower_drains`."""

from ipsrl import study

study.main(__package__)
