"""The command `python -m experiments.verifier_corrections`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
