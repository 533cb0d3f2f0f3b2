import json

import numpy as np
import pytest
from matplotlib.image import imread

from experiments.launch import Output
from experiments.phase_portraits import (
    Settings,
    field_of,
    portrait_of,
    resting_edges,
    row_of,
    run,
    slowest_loss,
    spread_starts,
    summary_of,
)
from ipsrl.dynamics.rest_points import RestPoint
from ipsrl.figures.phase_portraits import lattice
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
    # Beside the best outcome the rewards are 1, 0.6 and 0.3: dp/dt = -(1 - 0.6) 2 p^2.
    assert summary["slowest_rates"] == [None]
    assert summary["slowest_losses"] == ["1 / (0.8 t)"]
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
        "reinforce                          1,0.6,0.3                1 / (0.8 t)       1.000 0.000 0.000"
        in capsys.readouterr().out
    )


def test_an_objective_that_needs_text_is_refused_before_anything_is_written(tmp_path):
    settings = Settings(objectives="grpo,progrpo", group_size=3)
    with pytest.raises(ValueError, match=r"progrpo has no portrait: .* needs prompt_log_probs"):
        run(settings, Output(tmp_path / "out", resume=False))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["placebo", "clip_cov"])
def test_an_objective_that_draws_has_no_exact_portrait(name):
    with pytest.raises(ValueError, match=f"{name} has no portrait: the objective draws at random"):
        field_of(name, REWARDS, SMALL)


@pytest.mark.parametrize(
    ("invasion", "text"),
    [
        ([-0.5, -2.0], "exp(-0.5 t)"),
        ([-3e-6, -0.5], "1 / (3 t)"),
        # d log p / dt = -4.5 p^2.
        ([-4.5e-12, -3e-6], "1 / (9 t)^0.5"),
    ],
    ids=["exponentially", "first order", "second order"],
)
def test_slowest_loss_is_of_the_order_of_its_decline(invasion, text):
    point = RestPoint(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.array(invasion), scale=0.25)
    assert str(slowest_loss(point)) == text


def test_resting_edges_are_those_on_which_nothing_moves():
    laws = lattice(6)
    for rewards, edges in (((1.0, 1.0, 0.5), [(0, 1)]), ((0.5, 1.0, 1.0), [(1, 2)]), ((1.0, 0.6, 0.3), [])):
        gains = np.array(rewards) - (laws @ rewards)[:, None]
        assert resting_edges(laws, np.abs(laws * gains).max(axis=1) > 1e-9) == edges


def test_the_document_has_few_colours_and_the_size_of_the_figure(tmp_path):
    document = tmp_path / "docs" / "figure.png"
    settings = Settings(
        objectives="reinforce", rewards="1,0.6,0.3", group_size=3, arrows=3, starts=2, document=str(document)
    )
    run(settings, Output(tmp_path / "out", resume=False))
    png = tmp_path / "out" / "phase_portraits.png"
    assert imread(document).shape[:2] == imread(png).shape[:2]
    assert document.stat().st_size < png.stat().st_size / 2
    np.testing.assert_allclose(imread(document)[..., :3], imread(png)[..., :3], atol=0.15)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"rewards": "1,1"}, "write 3 numbers between commas"),
        ({"rewards": "1,1,nan"}, "must be finite"),
        ({"rewards": "1,inf,1"}, "must be finite"),
        ({"reference": "0.5,0.5,nan"}, "three positive probabilities"),
        ({"document": "docs/figure.pdf"}, "must end in .png"),
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
