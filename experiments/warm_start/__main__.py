"""The command `python -m experiments.warm_start`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
