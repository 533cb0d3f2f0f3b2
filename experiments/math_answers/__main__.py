"""The command `python -m experiments.math_answers`."""

from ipsrl import study

study.main(__package__)
