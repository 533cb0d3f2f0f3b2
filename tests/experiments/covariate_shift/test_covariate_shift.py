"""What the study decides from made-up records, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import covariate_shift
from experiments.covariate_shift import (
    ANY,
    ARMS,
    CHAIN,
    CLAIMS,
    DISAGREEMENT,
    FIRST,
    GAME_WIDTHS,
    LEAST,
    METHODS,
    NETWORKS,
    PRESETS,
    RATIOS,
    Regression,
    of,
)
from experiments.covariate_shift.shifted_inputs import CLASSES
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("world", "method", "multiple", "width", "ratio", "samples")
SAMPLES = (100, 1000, 10_000, 100_000)


def decided(error, regret, spread=0.01):
    """Of made-up records of eight seeds, (labels, C, n) -> error and regret."""
    arms = [
        of(world, method, arm.multiple, arm.width)
        for world in (*CLASSES, CHAIN)
        for method, several in ARMS.items()
        for arm in several
    ]
    arms += [of(NETWORKS, method, width=width) for method in METHODS for width in GAME_WIDTHS]
    rows = [
        arm
        | {"ratio": ratio, "samples": samples, "seed": seed, "step": 0}
        | {"error": error(arm, ratio, samples) * (1 + spread * (-1) ** seed), "regret": regret(arm, ratio)}
        for arm in arms
        for ratio in RATIOS
        for samples in SAMPLES
        for seed in range(8)
    ]
    return claims.decided(CLAIMS, Records(rows, LABELS))


def as_claimed(arm, ratio, samples):
    if arm["method"] == LEAST:
        return 0.64 * ratio
    if arm["method"] == ANY:
        return 5.0 if ratio == 10.0 else 1.0
    return 3.0


def test_each_claim_may_hold():
    found = decided(as_claimed, lambda arm, ratio: 0.1 * (arm["method"] == LEAST))
    assert [sentence for sentence, held in found.items() if not held] == []


def test_each_claim_may_fail():
    def error(arm, ratio, samples):
        if arm["method"] == LEAST:
            return 5.0
        return 0.2 * ratio + (arm["method"] == ANY) * (ratio - 500.0) / 100 + 0.1 * (ratio == 10.0) * 60

    found = decided(error, lambda arm, ratio: 0.1 * (arm["method"] == DISAGREEMENT))
    held = [sentence for sentence, held in found.items() if held is not False]
    # What lies at 200 eps^2 is within the bound of no threshold.
    assert held == []


def test_seeds_that_disagree_decide_nothing_about_bounds():
    found = decided(lambda arm, ratio, samples: 12.0, lambda arm, ratio: 0.0, spread=0.9)
    assert found["disagreement: error is below 16 eps^2 at C = 1000 (pair)"] is None
    assert found["game of width 1 tau, first start: error is below 16 eps^2 at C = 1000 (networks)"] is None


def test_the_labels_of_arms():
    assert of("pair", LEAST) == {"world": "pair", "method": LEAST, "width": 0.0, "multiple": 0.0}
    assert of(NETWORKS, FIRST, width=0.3) == {"world": NETWORKS, "method": FIRST, "width": 0.3}
    assert Regression() in ARMS[DISAGREEMENT]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratios": (0.5, 10.0)}, "--ratios is .*, it must be increasing numbers from 1 to"),
        ({"samples": (0, 10)}, "--samples is .*, it must be increasing numbers from 1 to"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"game_widths": (0.0,)}, "--game_widths is 0.0, it must be positive"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_measures_every_arm(smoke):
    settings, records = smoke(covariate_shift)
    arms = sum(map(len, ARMS.values()))
    assert len(records) == 2 * 2 * (2 * arms * len(CLASSES) + 3 + len(METHODS))
    # In one class for all C least squares loses the rare inputs, disagreement does not.
    errors = [
        records.mean("error", **of("ladder", name), ratio=1000.0, samples=100_000) for name in (LEAST, DISAGREEMENT)
    ]
    assert errors[1] < 16 < 100 < errors[0]
    assert "networks" in covariate_shift.TABLE(records, settings)
    assert covariate_shift.FIGURE(records, settings).rows
