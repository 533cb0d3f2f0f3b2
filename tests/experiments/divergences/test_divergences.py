"""What the study decides from made-up records, and that a small run measures every part."""

import dataclasses

import pytest

from experiments import divergences
from experiments.divergences import CLAIMS, PRESETS
from experiments.divergences.compared_divergences import (
    DIVERGENCES,
    FORWARD,
    JENSEN_SHANNON,
    MINIMISER,
    OPTIMUM,
    PAIRS,
    PENALTY,
    PREFERENCES,
    REVERSE,
    labels,
)
from experiments.divergences.preferred_actions import REFERENCES
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("part", "reference", "divergence", "beta")
# Reward falls and entropy rises in this order.
ORDER = (REVERSE, "alpha", JENSEN_SHANNON, FORWARD)
HOLDS = {"distance": 0.01, "behind reverse KL": 0.03, "error of preferences": 0.04, "over the bound": -0.1,
         "over the bound, in bins": -0.1, "loss left": 0.005}  # fmt: skip


def decided(reversed_order=False, error=1e-6, trained_behind=0.1, spread=0.0005, calibrated=0.0, **changed):
    """Of two weights at which all is as claimed, but for what is given."""
    found = []
    for divergence in DIVERGENCES:
        place = ORDER.index(divergence) * (-1 if reversed_order else 1)
        for beta, reference in ((beta, reference) for beta in (0.3, 1.0) for reference in REFERENCES):
            found.append(labels(PREFERENCES, divergence, reference) | {"beta": beta, "error": error, "step": 0})
            for part in (OPTIMUM, MINIMISER, PENALTY, PAIRS):
                values = HOLDS | {"true reward": 1 - 0.1 * place, "entropy": 1 + 0.1 * place, "behind the best": 0.05}
                values |= {name.replace("_", " "): value for name, value in changed.items()}
                if part == PAIRS:
                    values["behind the best"] += trained_behind
                if divergence != REVERSE:
                    values["error of preferences"] += calibrated
                for seed in range(4):
                    of_seed = {name: value + spread * (-1) ** seed for name, value in values.items()}
                    where = labels(part, divergence, reference) | {"beta": beta, "seed": seed, "step": 0}
                    found.append(where | of_seed)
    return claims.decided(CLAIMS, Records(found, LABELS))


def test_each_claim_may_hold():
    assert all(decided().values())


def test_each_claim_may_fail():
    bound = {"over_the_bound": 0.1, "over_the_bound,_in_bins": 0.1}
    found = decided(True, 1e-3, -0.1, calibrated=0.05, distance=0.2, loss_left=0.1, behind_reverse_KL=-0.05, **bound)
    assert all(held is False for held in found.values())


def test_seeds_that_disagree_decide_only_what_is_exact_or_paired():
    found = decided(spread=5.0, over_the_bound=-20.0)
    undecided = {sentence for sentence, held in found.items() if held is None}
    assert undecided == {
        sentence
        for sentence in CLAIMS
        if "total variation" in sentence or "2 %" in sentence or "0.02 ahead" in sentence or "0.02 behind" in sentence
    }


def test_order_is_decided_at_the_weights_of_both():
    assert decided()["at each equal beta forward KL earns less than reverse KL and has more entropy (exact, rewards)"]
    empty = claims.decided(CLAIMS, Records([], LABELS))
    assert all(held is None for held in empty.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"betas": (0.0, 0.3)}, r"--betas is .* it must be increasing numbers from 0\.01"),
        ({"trained_betas": (0.3, 0.3)}, "--trained_betas is .* it must be increasing numbers"),
        ({"pairs": 1}, "--pairs is 1, it must be at least 2"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"divergences": ("kl",)}, "--divergences is 'kl', it must be one of reverse_kl"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_measures_every_part(smoke):
    settings, found = smoke(divergences)
    assert found.mean("error", **labels(PREFERENCES, FORWARD), beta=0.3) < 1e-4
    assert found.mean("distance", **labels(PAIRS, REVERSE)) < 0.1
    assert found.mean("distance", **labels(PAIRS, FORWARD)) > 0.1
    assert 0 < found.mean("loss left", **labels(PAIRS, FORWARD)) < 0.1
    assert found.mean("behind reverse KL", **labels(MINIMISER, FORWARD)) > 0.05
    assert JENSEN_SHANNON not in found.distinct("divergence")
    assert "exact preferences" in divergences.TABLE(found, settings)
    assert divergences.FIGURE(found, settings).rows
