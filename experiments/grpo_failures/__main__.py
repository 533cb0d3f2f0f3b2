"""The command `python -m experiments.grpo_failures`."""

from ipsrl import study

study.main(__package__)
