"""The command `python -m experiments.phase_portraits`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
