"""The command `python -m experiments.group_size_and_floor`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
