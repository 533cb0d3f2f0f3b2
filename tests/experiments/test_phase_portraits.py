import json

import numpy as np
import pytest

from experiments.launch import Output
from experiments.phase_portraits import Settings, field_of, portrait_of, row_of, run, spread_starts, summary_of
from ipsrl.training import metric_log

REWARDS = (1.0, 0.6, 0.3)
SMALL = Settings(group_size=3, arrows=3, starts=2)


@pytest.fixture(scope="module")
def portrait():
    return lambda name, rewards: portrait_of(name, field_of(name, rewards, SMALL), SMALL)


def test_expected_return_flows_to_the_best_outcome(portrait):
    drawn = portrait("reinforce", REWARDS)
    laws = drawn.laws
    logits = laws * (REWARDS - (laws @ REWARDS)[:, None])
    # Rewards are float32 in the objective.
    np.testing.assert_allclose(drawn.velocity, laws * (logits - (laws * logits).sum(axis=1, keepdims=True)), atol=1e-7)
    summary = summary_of(drawn)
    assert summary["attracting_laws"] == [[1.0, 0.0, 0.0]]
    np.testing.assert_allclose(summary["ends_of_paths"], 2 * [[1, 0, 0]], atol=1e-3)
    assert summary["paths_given_up"] == 0
    assert "1.000 0.000 0.000" in row_of(drawn)


def test_expected_return_leaves_ties_where_they_are(portrait):
    partial = portrait("reinforce", (1.0, 1.0, 0.5))
    assert summary_of(partial)["attracting_laws"] == []
    assert summary_of(partial)["resting_edges"] == [[1, 2]]
    assert row_of(partial).endswith("  every law of 1 and 2 rests")
    full = portrait("reinforce", (1.0, 1.0, 1.0))
    assert row_of(full).endswith("  none: every law rests")
    np.testing.assert_allclose(summary_of(full)["ends_of_paths"], spread_starts(2, SMALL.seed), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ips_reinforce(probability=exact)", "trajectory_balance"])
def test_reward_proportional_rules_end_at_the_star(portrait, name):
    summary = summary_of(portrait(name, REWARDS))
    proportional = np.array(REWARDS) / sum(REWARDS)
    np.testing.assert_allclose(summary["attracting_laws"], [proportional], atol=1e-6)
    np.testing.assert_allclose(summary["ends_of_paths"], 2 * [proportional], atol=1e-5)
    assert min(summary["slowest_rates"]) > 0.1


@pytest.mark.slow
def test_paths_that_are_given_up_at_a_jump_are_counted(portrait):
    drawn = portrait("unlikeliness", (1.0, 1.0, 0.0))
    assert "paths given up where the field jumps" in row_of(drawn)
    assert summary_of(drawn)["paths_given_up"] == drawn.finished.count(False) > 0


def test_starts_cover_the_triangle():
    laws = spread_starts(400, seed=1)
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    assert laws.min() > 0
    # The mean of an even spread, and its share above one half of each outcome.
    np.testing.assert_allclose(laws.mean(axis=0), 1 / 3, atol=0.01)
    np.testing.assert_allclose((laws > 0.5).mean(axis=0), 1 / 4, atol=0.01)
    np.testing.assert_array_equal(laws, spread_starts(400, seed=1))
    assert not np.array_equal(laws, spread_starts(400, seed=2))


def test_run_logs_every_rest_point(tmp_path, capsys):
    settings = Settings(objectives="reinforce", rewards="1,0.6,0.3", group_size=3, arrows=3, starts=2)
    run(settings, Output(tmp_path, resume=False))
    records = metric_log.read(tmp_path / "metrics.jsonl")
    assert [record["kind"] for record in records] == ["attracts", "saddle", "repels"]
    assert records[0]["p_1"] == 1.0
    assert records[0]["invasion_of_2"] == pytest.approx(-0.8e-6, rel=1e-4)
    (summary,) = json.loads((tmp_path / "summary.json").read_text())["portraits"]
    assert summary["objective"] == "reinforce"
    assert (
        "reinforce                          1,0.6,0.3             8e-07  1.000 0.000 0.000" in capsys.readouterr().out
    )


def test_an_objective_that_needs_text_is_refused_before_anything_is_written(tmp_path):
    settings = Settings(objectives="grpo,progrpo", group_size=3)
    with pytest.raises(ValueError, match=r"progrpo has no portrait: .* needs prompt_log_probs"):
        run(settings, Output(tmp_path / "out", resume=False))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"rewards": "1,1"}, "write 3 numbers between commas"),
        ({"rewards": "1,1,-1"}, "must not be negative"),
        ({"rewards": "1,1,0.5;0,0,0"}, "nor all zero"),
        ({"reference": "0.5,0.5,0"}, "three positive probabilities"),
        ({"reference": "0.5,0.5,0.5"}, "whose sum is 1"),
        ({"arrows": 2}, "--arrows is 2, it must be at least 3"),
        ({"starts": 0}, "--starts is 0, it must be positive"),
    ],
)
def test_bad_settings(flags, message):
    with pytest.raises(ValueError, match=message):
        Settings(**flags)
