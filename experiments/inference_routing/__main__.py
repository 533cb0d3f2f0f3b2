"""The command `python -m experiments.inference_routing`."""

from ipsrl import study

study.main(__package__)
