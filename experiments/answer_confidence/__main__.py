"""The command `python -m experiments.answer_confidence`."""

from ipsrl import study

study.main(__package__)
