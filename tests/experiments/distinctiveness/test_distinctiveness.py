import dataclasses

import numpy as np

from experiments import distinctiveness
from ipsrl.records.tidy import Records

LABELS = ("arm", "errors", "age", "learning_rate")


def test_accuracies_are_those_of_the_own_best_rate_and_gradients_those_of_the_best_rate_of_grpo():
    rows = [
        dict(zip(LABELS, (arm, 0.0, 0, rate), strict=True))
        | {"seed": seed, "step": 10, "accuracy": accuracy, "clash": rate}
        for arm, of_rates in {"grpo": {0.01: 0.5, 0.1: 0.9}, "mask": {0.01: 0.8, 0.1: 0.6}}.items()
        for rate, accuracy in of_rates.items()
        for seed in (0, 1)
    ]
    ends = {value: distinctiveness.end(value, "mask", 0.0) for value in ("accuracy", "clash")}
    found = {value: end.of_seeds(Records(rows, LABELS)).values.tolist() for value, end in ends.items()}
    assert found == {"accuracy": [0.8, 0.8], "clash": [0.1, 0.1]}


def test_all_masks_weigh_the_batches_of_grpo():
    settings = dataclasses.replace(
        distinctiveness.PRESETS["smoke"],
        arms=("grpo", "mild_mask", "mild_random_mask", "anchors"),
        intervals=1,
        group_size=4,
    )
    of = {curve.labels["arm"]: curve.compute().values for curve in distinctiveness.curves(settings)}
    assert "clash" not in of["anchors"]
    # Of the same answers a placebo keeps as many as its mask.
    assert (of["mild_mask"]["kept"] <= of["grpo"]["kept"]).all()
    assert (of["mild_mask"]["kept"] < of["grpo"]["kept"]).any()
    assert np.array_equal(of["mild_mask"]["kept"], of["mild_random_mask"]["kept"])
    assert not np.array_equal(of["mild_mask"]["accuracy"], of["grpo"]["accuracy"])
