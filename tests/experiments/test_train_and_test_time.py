"""Two failures and their fixes: what the study measures and decides."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from experiments import train_and_test_time
from experiments.train_and_test_time import BUDGETS, GRPO, IPS, PRESETS, SLOW, TEXT_TOY
from ipsrl.measures.test_time import answer_measures, by_budget, inflated
from ipsrl.policies.state_table import log_probs_table
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from ipsrl.study.worlds.test_time import START, TOYS, toys

LONG = {START: (0.3, 0.5, 0.2), GRPO: (0.6, 0.8, 0.5), IPS: (0.6, 0.8, 0.5), SLOW: (0.5, 0.5, 0.5)}


def records(long=None, effective=None, vote=0.9, voted_effective=1.2, line=True):
    """Two seeds, 0.002 apart, of which the claims of the two papers and of the note hold, unless changed."""
    long, effective = LONG | (long or {}), {START: 3.0, GRPO: 1.2, IPS: 2.0, SLOW: 1.5} | (effective or {})
    rows = []
    for toy in (*TOYS, TEXT_TOY):
        for seed in (0, 1):
            for arm, accuracies in long.items():
                for budget, accuracy in zip((1, 2, 4), accuracies, strict=True):
                    values = {
                        "long": accuracy,
                        "vote": vote,
                        "one": accuracies[0],
                        "lost_long": max(accuracies) - accuracy,
                    }
                    values |= {"effective_one": effective[arm], "effective_vote": voted_effective}
                    values = {name: value + 0.002 * seed for name, value in values.items()}
                    rows.append({"toy": toy, "objective": arm, "part": "test", "seed": seed, "step": budget, **values})
            for step, exp_entropy in enumerate((5.0, 3.0, 1.5)):
                accuracy = 1 - 0.1 * exp_entropy if line else (step == 1) * 1.0
                values = {"exp_entropy": exp_entropy + 0.002 * seed, "accuracy": accuracy}
                rows.append({"toy": toy, "objective": GRPO, "part": "training", "seed": seed, "step": step, **values})
    return Records(rows, ("toy", "objective", "part"))


def decided(**changed):
    return list(claims.decided(train_and_test_time.CLAIMS, records(**changed)).values())


def test_what_the_note_says_holds():
    assert decided() == [True] * 9


@pytest.mark.parametrize(
    ("changed", "refuted"),
    [
        ({"line": False}, [1]),
        ({"long": {GRPO: (0.8, 0.6, 0.5), IPS: (0.8, 0.6, 0.5)}}, [2, 3]),
        ({"effective": {IPS: 1.1}}, [4]),
        ({"vote": 0.4}, [5, 6]),
        ({"vote": 0.55}, [6]),
        ({"long": {IPS: (0.6, 0.8, 0.3)}}, [7]),
        ({"voted_effective": 1.0}, [8]),
    ],
)
def test_each_claim_can_fail(changed, refuted):
    assert decided(**changed) == [number not in refuted for number in range(9)]


def test_the_transformer_alone_may_rise_and_fall():
    at_once = {GRPO: (0.8, 0.6, 0.5), IPS: (0.8, 0.6, 0.5)}
    toys_fall = [row for row in records(long=at_once).rows if row["toy"] != TEXT_TOY]
    rows = [*toys_fall, *records().where(toy=TEXT_TOY).rows]
    found = claims.decided(train_and_test_time.CLAIMS, Records(rows, ("toy", "objective", "part")))
    assert list(found.values())[2:4] == [False, True]


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
