"""What the study decides from made-up records, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import perturbed_policies
from experiments.perturbed_policies import (
    CLAIMS,
    FEW,
    GRPO,
    IPS,
    MANY,
    OBJECTIVES,
    OUTCOMES,
    PRESETS,
    RADII,
    SYSTEMS,
)
from experiments.perturbed_policies.perturbed_paths import PATHS, VEHICLES
from ipsrl.records.tidy import Records
from ipsrl.study import claims

SLOPES = {
    "crossing over lambda": 1.0, "bias over lambda": 1.0, "variance over lambda": -1.0, "best lambda over n": -0.25,
    "excess over n": -0.6,
}  # fmt: skip
OF_N = {"gain": 0.5, "gain_perturbed": 0.2, "more_than_predicted": -0.1}
ENDS = {"effective": 1.2, "length": 6.0}


def decided(slopes=(), of_n=(), ends=(), spread=0.001):
    """Of records in which every claim holds, but for changes of values; `ends` by objective."""
    found = []
    for seed in range(8):
        moved = spread * (-1) ** seed
        for world, draws in SYSTEMS:
            labels = {"world": world, "draws": draws, "seed": seed, "step": 0}
            values = SLOPES | dict(slopes)
            found.append(labels | {"kind": "exponents"} | {name: value + moved for name, value in values.items()})
            for n in (25, 400):
                values = OF_N | dict(of_n)
                values = {name: value + moved for name, value in values.items()}
                found.append(labels | {"kind": "of n", "n": n} | values)
        for objective in OBJECTIVES:
            values = ENDS | {"effective": 2.95 if objective == IPS else 1.2} | dict(ends).get(objective, {})
            for scale in RADII:
                labels = {"world": OUTCOMES, "objective": objective, "scale": scale, "seed": seed, "step": 9}
                found.append(labels | {name: value + moved for name, value in values.items()})
    return claims.decided(CLAIMS, Records(found, ("world", "draws", "kind", "n", "objective", "scale")))


def test_each_claim_may_hold():
    assert set(decided().values()) == {True}


def test_each_claim_may_fail():
    slopes = {
        "crossing over lambda": 0.5, "bias over lambda": 2.0, "variance over lambda": -2.0, "best lambda over n": 0.0,
        "excess over n": -0.25,
    }  # fmt: skip
    of_n = {"gain": 0.1, "gain_perturbed": -1.0, "more_than_predicted": 0.1}
    ends = {objective: {"effective": 2.5, "length": 2.0} for objective in OBJECTIVES}
    assert set(decided(slopes, of_n, ends).values()) == {False}


def test_seeds_that_disagree_decide_nothing():
    assert set(decided(spread=30.0).values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": (4,)}, "must be two numbers, few draws and many"),
        ({"draws": (1, 4)}, "--draws is .* it must be increasing numbers from 2"),
        ({"samples": (25,)}, "slopes over n need two or more"),
        ({"smoothings": (0.1, 0.2)}, "--smoothings is .* the first one 0"),
        ({"smoothings": (0.0, 0.2)}, "--smoothings is .* at least two of them from 0.1 to 0.4"),
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
