"""The command `python -m experiments.one_of_many`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
