"""The command `python -m experiments.train_and_test_time`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
