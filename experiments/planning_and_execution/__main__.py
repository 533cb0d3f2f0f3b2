"""The command `python -m experiments.planning_and_execution`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
