"""The command `python -m experiments.entropy_law`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
