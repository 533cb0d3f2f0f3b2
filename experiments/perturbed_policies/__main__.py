"""The command `python -m experiments.perturbed_policies`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
