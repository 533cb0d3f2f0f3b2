"""What the study decides from made-up records, and that a small run measures every part."""

import dataclasses
import math

import pytest

from experiments import inverse_soft_rl
from experiments.inverse_soft_rl import (
    CLAIMS,
    ENTROPY,
    GRPO,
    IPS,
    IPS_PLAIN,
    KINDS,
    LOW,
    NUMBERS,
    PRESETS,
    RATES,
    SLOW,
    TABULAR,
)  # fmt: skip
from experiments.inverse_soft_rl.revealed_rewards import CANDIDATES, OUTCOMES
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("part", "kind", "discount", "share", "world")
OF_CHAIN = {
    "slope of reward error": -0.5, "slope of divergence": -1.0, "n KL / limit": 1.0, "n error^2 / limit": 1.0,
    "reward error": 0.3,
}  # fmt: skip
REGRETS = {"expert's": 0.0, "least squares": 0.01, "uniform weights": 0.02, "log-policy": 0.03}
KEEPS = {"gap of equals": 0.1, "told apart": 1.0, "without the favourite": 0.9, "gap of halves": math.log(2)}
LOSES = KEEPS | {"gap of equals": 5.0, "told apart": 0.6, "without the favourite": 0.5}


def decided(chains=(), regrets=(), policies=(), limits=(12.0, 12.5), spread=0.001):
    """Of parts that are all as claimed, but for what is given: chains and policies by kind, regrets by candidate."""
    found = []

    def add(labels, values, seeds=range(8)):
        for seed in seeds:
            measured = {name: value + spread * (-1) ** seed for name, value in values.items()}
            found.append(labels | measured | {"seed": seed, "step": 1})

    for kind in KINDS:
        add({"part": "errors", "kind": kind}, OF_CHAIN | dict(chains).get(kind, {}))
    for discount, limit in zip((0.0, 0.9), limits, strict=True):
        found.append({"part": "discounts", "discount": discount, "limit": limit, "step": 1})
    for kind in CANDIDATES:
        # In one process all kinds have the same luck.
        add({"part": "moves", "kind": kind, "share": 1.0}, {"regret": (REGRETS | dict(regrets))[kind]})
    for world in OUTCOMES:
        for kind in RATES:
            of_kind = LOSES if kind == GRPO else KEEPS | ({"gap of halves": 2.5} if kind == ENTROPY else {})
            add({"part": "trained", "world": world, "kind": kind}, of_kind | dict(policies).get(kind, {}))
    return claims.decided(CLAIMS, Records(found, LABELS))


def test_each_claim_may_hold():
    assert all(decided().values())


def test_each_claim_may_fail():
    wrong = dict.fromkeys(OF_CHAIN, 2.0)
    chains = dict.fromkeys(KINDS, wrong) | {LOW: wrong | {"reward error": 0.0}}
    opposite = {"least squares": -0.01, "uniform weights": -0.02, "log-policy": -0.03}
    nothing = {"gap of equals": 3.0, "told apart": 0.8, "without the favourite": 0.4, "gap of halves": 0.0}
    policies = dict.fromkeys(RATES, nothing) | {GRPO: KEEPS | {"told apart": 0.95}}
    assert not any(decided(chains, opposite, policies, limits=(12.0, 20.0)).values())
    assert all(held is False for held in decided(chains, opposite, policies, limits=(12.0, 20.0)).values())


def test_seeds_that_disagree_decide_only_what_is_exact_or_paired():
    found = decided(spread=50.0)
    assert {sentence for sentence, held in found.items() if held is not None} == {
        sentence
        for sentence in CLAIMS
        if "all discounts" in sentence or "there " in sentence or "favourite" in sentence
    }


def test_every_arm_has_its_numbers():
    assert "slope of reward error, tabular" in NUMBERS
    assert "n KL / limit, slow chain" in NUMBERS
    assert "gap of halves, ips_reinforce" in NUMBERS
    assert "regret where all moves are other ones, expert's" not in NUMBERS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 1.0}, r"--discount is 1\.0, it must lie between 0\.0 and 0\.999"),
        ({"discounts": (0.5, 1.0)}, r"--discounts is 1\.0, it must lie between 0\.0 and 0\.999"),
        ({"lengths": (100,)}, "it must have two numbers or more: a slope needs two"),
        ({"lengths": (100, 100)}, "--lengths is .* it must be increasing numbers from 2"),
        ({"chains": (0,)}, "at least 2 different numbers"),
        ({"objectives": ("ppo",)}, "--objectives is 'ppo', it must be one of grpo"),
        ({"draws": 0}, "--draws is 0, it must be at least 1"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_reveals_what_the_study_says(smoke):
    settings, found = smoke(inverse_soft_rl)
    for kind in (TABULAR, SLOW):
        assert found.mean("slope of reward error", part="errors", kind=kind) == pytest.approx(-0.5, abs=0.1)
    assert found.mean("gap of equals", part="trained", kind=GRPO, world="graded") > 2
    assert found.mean("gap of halves", part="trained", kind=IPS_PLAIN, world="graded") == pytest.approx(0.69, abs=0.1)
    assert IPS not in found.distinct("kind")
    assert "uniform weights" in inverse_soft_rl.TABLE(found, settings)
    assert inverse_soft_rl.FIGURE(found, settings).rows
