"""The command `python -m experiments.inverse_soft_rl`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
