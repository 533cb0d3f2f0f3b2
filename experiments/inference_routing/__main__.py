"""The command `python -m experiments.inference_routing`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
