"""The command `python -m experiments.inside_trl`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
