"""The command `python -m experiments.recovery_time`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
