"""Settings, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import perturbed_policies
from experiments.perturbed_policies import FEW, GRPO, IPS, MANY, PRESETS
from experiments.perturbed_policies.perturbed_paths import PATHS, VEHICLES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": (4,)}, "it must be two numbers, few draws and many"),
        ({"draws": (1, 4)}, "--draws is .* it must be increasing numbers from 2"),
        ({"smoothings": (0.1, 0.2)}, "it must begin with 0 and have two from"),
        ({"smoothings": (0.0, 0.2)}, "have two from 0.1 to 0.4"),
        ({"samples": (25,)}, "a slope over them takes two or more"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_measures_every_arm(smoke):
    settings, found = smoke(perturbed_policies)
    at = {"world": PATHS, "draws": MANY}
    assert found.mean("least_excess", **at, kind="of n", n=25) < 0.8 * found.mean(
        "excess", **at, kind="learned", n=25, smoothing=0.0
    )
    bias = {each: found.mean("bias", **at, kind="in the pool", smoothing=each) for each in (0.2, 0.4, 0.8)}
    assert 3 < bias[0.4] / bias[0.2] < 5
    assert found.mean("crossing", **at, kind="in the pool", smoothing=0.2) < 0.4
    assert found.mean("best_lambda", **at | {"draws": FEW}, kind="of n", n=25) < found.mean(
        "best_lambda", **at, kind="of n", n=25
    )
    assert found.mean("more_than_predicted", world=VEHICLES, draws=MANY, kind="of n", n=50) < 0
    assert (
        found.mean("effective", objective=GRPO, scale="free") < 2 < found.mean("effective", objective=IPS, scale="free")
    )
    table = perturbed_policies.TABLE(found, settings)
    assert table.count(VEHICLES) == 1 + 2 + 4
    assert perturbed_policies.FIGURE(found, settings).rows
