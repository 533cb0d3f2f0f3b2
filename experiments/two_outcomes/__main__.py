"""The command `python -m experiments.two_outcomes`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
