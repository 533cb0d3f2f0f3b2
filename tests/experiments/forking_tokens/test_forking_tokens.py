import dataclasses

from experiments import forking_tokens
from experiments.forking_tokens import ARMS, LARGER, PRESETS


def test_arms_have_equal_budgets():
    """The same settings, but for the step of one placebo, and objectives that differ only in the tokens."""
    curves = [curve.labels for curve in forking_tokens.curves(dataclasses.replace(PRESETS["demo"], slips=(0.1,)))]
    exact = [labels["objective"] for labels in curves if labels["task"] == "slips 0.1"]
    text = {(labels["objective"], labels["seed"]) for labels in curves if "seed" in labels}
    assert exact == [*ARMS, LARGER]
    assert text == {(arm, seed) for arm in ARMS for seed in range(5)}
