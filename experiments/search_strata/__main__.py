"""The command `python -m experiments.search_strata`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
