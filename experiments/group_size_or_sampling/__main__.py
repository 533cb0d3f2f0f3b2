"""The command `python -m experiments.group_size_or_sampling`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
