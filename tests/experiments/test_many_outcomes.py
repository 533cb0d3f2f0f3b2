import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from experiments import many_outcomes
from experiments.launch import Output
from ipsrl import objectives

COUNTS, EXACT = many_outcomes.RATE_RULES
TWELVE = ",".join(f"ips_grpo(floor=0.{number})" for number in range(11, 23))
SMALL = dataclasses.replace(many_outcomes.PRESETS["smoke"], rate_batches=8)


def test_closed_form_is_the_chance_that_an_outcome_occurs_twice():
    sizes = np.array([16, 64, 4096])
    rates = many_outcomes.closed_form(sizes, COUNTS, group_size=16)
    np.testing.assert_allclose(rates, binom.sf(1, 15, 1 / sizes), rtol=1e-9)
    np.testing.assert_allclose(many_outcomes.closed_form(sizes, EXACT, group_size=16), 15 / 16)


@pytest.mark.slow
@pytest.mark.parametrize("name", [COUNTS, EXACT])
def test_measured_rates_are_those_of_the_exact_mean(name):
    rate = many_outcomes.measure_rate(16, name, SMALL)
    assert rate.agrees
    assert 0 < rate.standard_error < rate.exact / 5
    # The displacement of a quarter costs a few per cent of the rate.
    assert rate.exact == pytest.approx(rate.closed_form, rel=0.1)
    closer = many_outcomes.measure_rate(16, name, dataclasses.replace(SMALL, displacement=1e-3))
    assert closer.exact == pytest.approx(closer.closed_form, rel=1e-5)


@pytest.mark.slow
def test_a_tie_has_no_pull_under_grpo(monkeypatch):
    monkeypatch.setitem(many_outcomes.RATE_RULES, "dr_grpo", False)
    rate = many_outcomes.measure_rate(16, "dr_grpo", SMALL)
    assert (rate.measured.mean, rate.standard_error) == (0.0, 0.0)


@pytest.mark.slow
def test_counts_fall_behind_as_outcomes_multiply_and_exact_probabilities_do_not():
    settings = dataclasses.replace(SMALL, passes=16)
    kept = {
        name: {
            count: many_outcomes.train(count, objectives.make(name), settings)["diversity"][:, -1].mean()
            for count in (16, 512)
        }
        for name in ("grpo", "ips_grpo", "ips_grpo(probability=exact)")
    }
    start = many_outcomes.train(512, objectives.make("grpo"), dataclasses.replace(SMALL, passes=1))["diversity"][0, 0]
    assert kept["grpo"][512] < start
    assert min(kept["ips_grpo(probability=exact)"].values()) > 0.9
    lost = {count: kept["ips_grpo(probability=exact)"][count] - kept["ips_grpo"][count] for count in (16, 512)}
    assert lost[512] > lost[16] + 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_outcomes": "16,40"}, "must be even multiples of --group_size, 16"),
        ({"num_outcomes": "64,16"}, "must be different numbers in ascending order"),
        ({"group_size": 2}, "need 3 samples"),
        ({"rate_batches": 1}, "an interval needs at least 2"),
        ({"seeds": "0"}, "an interval needs at least 2"),
        ({"objectives": "grpo,progrpo"}, "progrpo cannot be trained here: .* prompt_log_probs"),
        ({"objectives": TWELVE}, "a figure can tell at most 12 lines apart, not 14"),
        ({"passes": 0}, "--passes is 0, it must be positive"),
        ({"objectives": "grppo"}, "unknown objective 'grppo'"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_written(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        many_outcomes.run(dataclasses.replace(SMALL, **settings), Output(tmp_path / "out", resume=False))
    assert not list(tmp_path.iterdir())
