"""The command `python -m experiments.slower_drains`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
