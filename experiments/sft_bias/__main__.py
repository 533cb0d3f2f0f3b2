"""The command `python -m experiments.sft_bias`."""

from ipsrl import study

study.main(__package__)
