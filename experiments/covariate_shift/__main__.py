"""The command `python -m experiments.covariate_shift`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
