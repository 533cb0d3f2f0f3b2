"""The command `python -m experiments.path_multiplicity`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
