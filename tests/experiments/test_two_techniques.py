import itertools

import numpy as np

from experiments import two_techniques
from experiments.two_techniques import BOTH, GRPO, KEEPING, PLAIN, PRESETS, RETURN, WHITENED
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(score, kept):
    """The claims on trees, from (objective, pass rate) -> score and effective outcomes; seeds differ by 0.001."""
    settings, rows = PRESETS["demo"], []
    for name, rate, bias, seed in itertools.product(
        settings.objectives, settings.pass_rates, settings.biases, settings.seeds
    ):
        labels = {"task": "trees", "objective": name, "pass_rate": rate, "bias": bias, "seed": seed, "step": 1}
        values = {"pass_at_1": score(name, rate) + 0.001 * seed, "effective_outcomes": kept(name, rate) + 0.001 * seed}
        rows.append(labels | values)
    found = claims.decided(two_techniques.CLAIMS, Records(rows, ("task", "objective", "pass_rate", "bias")))
    assert list(found.values())[5:] == [None, None]
    return list(found.values())[:5]


def test_the_field_is_right_where_techniques_match_and_priors_decide():
    worse = {PLAIN: 0.1, BOTH: 0.01}
    found = decided(lambda name, rate: rate - worse.get(name, 0), lambda name, rate: 1 + 3 * (name in KEEPING))
    assert found == [True] * 5


def test_it_is_wrong_where_the_objective_decides_and_the_techniques_do_nothing():
    lower = {BOTH: 0.3, PLAIN: 0.1, WHITENED: 0.3}
    found = decided(lambda name, rate: 0.9 - lower.get(name, 0), lambda name, rate: 4 * rate)
    assert found == [False] * 5


def test_equal_scores_do_not_come_from_the_techniques():
    found = decided(lambda name, rate: rate + (name in KEEPING), lambda name, rate: rate)
    assert found[:3] == [True, True, False]
    without = Records([{"task": "trees", "objective": GRPO, "pass_rate": 0.1, "bias": 1.0, "seed": 0, "step": 0}], ())
    assert set(claims.decided(two_techniques.CLAIMS, without).values()) == {None}


def test_noise_decides_little():
    rng = np.random.default_rng(0)
    found = decided(lambda name, rate: rng.normal(), lambda name, rate: rng.normal())
    assert (*found[:3], found[4]) == (None,) * 4


def test_twelve_objectives_and_three_priors_of_text():
    assert len({*RETURN, *KEEPING}) == 12
    small = PRESETS["demo"].__class__(objectives=(GRPO,), seeds=(0, 1), prior_steps=(1, 2, 3))
    labels = [curve.labels for curve in two_techniques.curves(small)]
    assert sum(one["task"] == "trees" for one in labels) == 6
    assert sum(one["task"] == "text" for one in labels) == 4 * 3 * 2
