"""Two failures and their fixes: what the study measures and decides."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from experiments import train_and_test_time
from experiments.train_and_test_time import BUDGETS, GRPO, IPS, PRESETS, SLOW, TEXT_TOY
from experiments.train_and_test_time.budgets import START, TOYS, first_wrong, toys
from experiments.train_and_test_time.test_time import answer_measures, by_budget, inflated
from ipsrl.policies.state_table import log_probs_table
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LONG = {START: (0.3, 0.5, 0.2), GRPO: (0.6, 0.8, 0.5), IPS: (0.6, 0.8, 0.5), SLOW: (0.5, 0.5, 0.5)}
KEPT = {START: 3.0, GRPO: 1.2, IPS: 2.0, SLOW: 1.5}


def records(long=None, kept=None, vote=0.9, cool=0.7, voted=1.2, line=True, wrong=(0.1, 0.3, 0.2), text=(), apart=None):
    """Two seeds, 0.1 apart in all runs alike, of which the claims hold, unless changed.

    Args:
      text: accuracies of the transformer's long thoughts after GRPO.
      apart: (a value, an arm, by how much it is higher in seed 1 at the end).
    """
    rows, kept, (moved, of_arm, by) = [], KEPT | (kept or {}), apart or ("", "", 0.0)
    for toy, seed in itertools.product((*TOYS, TEXT_TOY), (0, 1)):

        def add(arm, part, step, values, seed=seed, toy=toy):
            values = {name: value + 0.1 * seed for name, value in values.items()}
            if seed and step == 4 and arm == of_arm and moved in values:
                values[moved] += by
            rows.append({"toy": toy, "objective": arm, "part": part, "seed": seed, "step": step, **values})

        of_toy = LONG | (long or {}) | ({GRPO: text} if text and toy == TEXT_TOY else {})
        for arm, accuracies in of_toy.items():
            for place, accuracy in enumerate(accuracies):
                values = {"long": accuracy, "vote": vote, "cool": cool, "one": accuracies[0]}
                values |= {"lost_long": max(accuracies) - accuracy, "long_where_wrong": wrong[place]}
                add(arm, "test", 2**place, values | {"effective_one": kept[arm], "effective_vote": voted})
        for step, exp_entropy in zip((0, 2, 4), (5.0, 3.0, 1.5), strict=True):
            accuracy = 1 - 0.1 * exp_entropy if line else (step == 2) * 1.0
            add(GRPO, "training", step, {"exp_entropy": exp_entropy, "accuracy": accuracy})
    return Records(rows, ("toy", "objective", "part"))


def decided(**changed):
    return list(claims.decided(train_and_test_time.CLAIMS, records(**changed)).values())


def test_all_claims_can_hold():
    assert decided() == [True] * 13


@pytest.mark.parametrize(
    ("changed", "refuted"),
    [
        ({"line": False}, [1]),
        ({"wrong": (0.1, 0.2, 0.3)}, [2, 3]),
        ({"wrong": (0.3, 0.2, 0.1)}, [2, 3]),
        ({"text": (0.8, 0.6, 0.5)}, [4]),
        ({"long": {GRPO: (0.4, 0.45, 0.5), IPS: (0.4, 0.45, 0.5)}}, [4]),
        ({"kept": {IPS: 1.1}}, [6, 7]),
        # More than GRPO, but less than GRPO with smaller steps.
        ({"kept": {SLOW: 2.5}}, [7]),
        ({"long": {IPS: (0.6, 0.8, 0.3)}}, [8]),
        ({"vote": 0.4}, [9, 10]),
        ({"vote": 0.55}, [10]),
        ({"cool": 0.51}, [11]),
        ({"voted": 1.0}, [12]),
    ],
)
def test_each_claim_can_fail(changed, refuted):
    found = decided(**changed)
    assert [number for number in range(13) if found[number] is False] == refuted


@pytest.mark.parametrize(
    ("apart", "undecided"),
    [
        (("exp_entropy", GRPO, 3.0), [0]),
        (("accuracy", GRPO, 5.0), [1]),
        (("long_where_wrong", START, 0.5), [2, 3]),
        (("long", GRPO, 0.5), [4, 9, 11]),
        (("lost_long", GRPO, -0.5), [5, 8]),
        (("effective_one", IPS, -0.8), [6, 7]),
        (("lost_long", IPS, 0.5), [8]),
        (("vote", GRPO, -0.8), [9, 10]),
        (("cool", GRPO, -0.5), [11]),
        (("effective_vote", GRPO, 0.5), [12]),
    ],
)
def test_each_claim_can_be_undecided(apart, undecided):
    found = decided(apart=apart)
    assert [found[number] for number in undecided] == [None] * len(undecided)


def test_the_first_answer_is_wrong_where_more_variance_can_help():
    helped = {}
    for toy, (bandit, policy) in toys().items():
        log_probs = np.asarray(log_probs_table(policy, policy.init(jax.random.key(0)), bandit), np.float64)
        right = bandit.reward_table() > 0
        wrong = first_wrong(log_probs, right)
        assert 0 < wrong.sum() < len(wrong)
        helped[toy] = [(inflated(log_probs, budget) * right).sum(axis=-1)[wrong].mean() for budget in BUDGETS]
    # Of free logits there is an end: equal probabilities of 16 arms, four of them right.
    assert (np.diff(helped[TOYS[0]]) > 0).all()
    assert max(helped[TOYS[0]]) < 0.25
    assert helped[TOYS[1]] == pytest.approx([0.124, 0.157, 0.173, 0.167, 0.151], abs=1e-3)


def test_budgets_of_the_first_gaussian():
    """Its mean is `distance` places off and the five right ones lie around it: wider helps where it is far off."""
    bandit, policy = toys()["Gaussian"]
    log_probs = np.asarray(log_probs_table(policy, policy.init(jax.random.key(0)), bandit), np.float64)
    right = bandit.reward_table() > 0
    distance = np.abs(right @ np.arange(41) / 5 - 20)
    assert distance.tolist() == np.linspace(0, 11, 16).round().tolist()
    accuracy = np.array([(inflated(log_probs, times) * right).sum(axis=-1) for times in (1, 2)])
    helped = accuracy[1] > accuracy[0]
    assert not helped[distance < 3].any()
    assert helped[distance > 5].all()
    long = by_budget({"long": [(inflated(log_probs, budget), right) for budget in BUDGETS]})
    assert long["long"][0] == pytest.approx(answer_measures(np.exp(log_probs), right)["accuracy"])


def test_every_arm_is_measured_on_both_failures():
    settings = dataclasses.replace(PRESETS["smoke"], objectives=(GRPO, IPS))
    labels = [curve.labels for curve in train_and_test_time.curves(settings)]
    arms = functools.partial(sorted, key=str)
    for toy in TOYS:
        of_toy = [each for each in labels if each["toy"] == toy]
        assert arms(each["objective"] for each in of_toy if each["part"] == "training") == arms((GRPO, IPS, SLOW))
        assert arms(each["objective"] for each in of_toy if each["part"] == "test") == arms((GRPO, IPS, SLOW, START))
    text = {(each["objective"], each["part"]) for each in labels if each["toy"] == TEXT_TOY}
    assert text == {(arm, part) for arm in (START, GRPO) for part in ("training", "test")}
