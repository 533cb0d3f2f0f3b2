"""The command `python -m experiments.mode_bench`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
