import dataclasses

import numpy as np

from experiments import distinctiveness
from tests.experiments.recorded import made_up


def test_accuracies_are_those_of_the_own_best_rate_and_gradients_those_of_the_best_rate_of_grpo():
    accuracies = {("grpo", 0.01): 0.5, ("grpo", 0.1): 0.9, ("mask", 0.01): 0.8, ("mask", 0.1): 0.6}
    arms = {(arm, 0.0, 0, rate): {"accuracy": [end] * 2, "clash": rate} for (arm, rate), end in accuracies.items()}
    records = made_up(("arm", "errors", "age", "learning_rate"), arms)
    for value, expected in {"accuracy": 0.8, "clash": 0.1}.items():
        assert distinctiveness.end(value, "mask", 0.0).of_seeds(records).values.tolist() == [expected] * 2


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
