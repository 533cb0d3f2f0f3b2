"""The command `python -m experiments.reasoning_gym`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
