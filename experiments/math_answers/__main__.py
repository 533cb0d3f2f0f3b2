"""The command `python -m experiments.math_answers`."""

from ipsrl import study

if __name__ == "__main__":
    study.main(__package__)
