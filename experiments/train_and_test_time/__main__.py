"""The command `python -m experiments.train_and_test_time`."""

from ipsrl import study

study.main(__package__)
