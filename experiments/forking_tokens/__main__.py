"""The command `python -m experiments.forking_tokens`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
