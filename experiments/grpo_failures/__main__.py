"""The command `python -m experiments.grpo_failures`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
