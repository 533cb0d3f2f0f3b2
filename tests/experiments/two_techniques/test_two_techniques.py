import itertools

from experiments import two_techniques
from experiments.two_techniques import BOTH, GRPO, KEEPING, PLAIN, RETURN, WITHOUT_BASELINE, Settings
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(score, kept):
    """The claims on trees, from (objective, pass rate) -> score and effective outcomes at the better of two rates."""
    settings, rows = Settings(learning_rates=(0.1, 0.3)), []
    for name, pass_rate, bias, rate, seed in itertools.product(
        settings.objectives, settings.pass_rates, settings.biases, settings.learning_rates, settings.seeds
    ):
        labels = {"task": "trees", "objective": name, "pass_rate": pass_rate, "bias": bias, "learning_rate": rate}
        lost = 0.5 * (rate == 0.3) - 0.001 * seed
        values = {"pass_at_1": score(name, pass_rate) - lost, "effective_outcomes": kept(name, pass_rate) - lost}
        rows.append(labels | {"seed": seed, "step": 1} | values)
    found = claims.decided(two_techniques.CLAIMS, Records(rows, tuple(labels)))
    assert list(found.values())[5:] == [None, None]
    return list(found.values())[:5]


def test_the_field_is_right_where_techniques_match_and_priors_decide():
    worse = {PLAIN: 0.1, BOTH: 0.01}
    found = decided(lambda name, rate: rate - worse.get(name, 0), lambda name, rate: 1 + 3 * (name in KEEPING))
    assert found == [True] * 5


def test_it_is_wrong_where_the_objective_decides_and_the_techniques_do_nothing():
    lower = {BOTH: 0.3, PLAIN: 0.1, WITHOUT_BASELINE: 0.3}
    found = decided(lambda name, rate: 0.9 - lower.get(name, 0), lambda name, rate: 4 * rate)
    assert found == [False] * 5


def test_twelve_objectives_and_three_priors_of_text():
    assert len({*RETURN, *KEEPING}) == 12
    small = Settings(objectives=(GRPO,), seeds=(0, 1), prior_steps=(1, 2, 3), learning_rates=(0.1,))
    labels = [curve.labels for curve in two_techniques.curves(small)]
    assert sum(one["task"] == "trees" for one in labels) == 6
    assert sum(one["task"] == "text" for one in labels) == 4 * 3 * 2
