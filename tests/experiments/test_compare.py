"""Comparisons on equal terms: what is measured, who is ranked, and that every objective of the catalog takes part."""

import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import compare
from experiments.arenas import Curves, ExactArena, group_and_rule, measure_laws
from experiments.launch import Output
from ipsrl.environments.bandit import Bandit
from ipsrl.objectives import names
from ipsrl.training.off_policy import OffPolicyAnswers

ROOT = Path(__file__).parents[2]
# Two best outcomes, one graded, one worthless; the reward-proportional law is 0.4, 0.4, 0.2, 0.
BANDIT = Bandit(rewards=(1.0, 1.0, 0.5, 0.0))


def arena(**changes):
    settings = {
        "environment": BANDIT, "seeds": (0, 1, 5), "steps": 4, "prompts_per_step": 1, "group_size": 6,
        "evaluate_every": 2, "epochs": 1, "skew": 1.0,
    }  # fmt: skip
    return ExactArena(**settings | changes)


def test_measures_of_laws_by_hand():
    laws = jnp.array([[[0.4, 0.4, 0.2, 0.0]], [[0.0, 0.5, 0.0, 0.5]], [[0.0, 0.0, 0.0, 1.0]]])
    expected = {
        "reward": [0.9, 0.5, 0.0],
        "effective_outcomes": [np.exp(-0.8 * np.log(0.4) - 0.2 * np.log(0.2)), 1.0, 0.0],
        "effective_best": [2.0, 1.0, 0.0],
        "survival": [1.0, 0.0, 0.0],
        "tv_to_proportional": [0.0, 0.6, 1.0],
        "tv_to_uniform_best": [0.2, 0.5, 1.0],
        "l1_to_proportional": [0.0, 1.2, 2.0],
        "modes": [2.0, 1.0, 0.0],
    }
    measures = measure_laws(BANDIT, laws)
    assert measures.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(measures[name], values, atol=1e-6, err_msg=name)


def test_measures_are_means_over_prompts():
    two = Bandit(rewards=((1.0, 0.0), (1.0, 0.5)))
    measures = measure_laws(two, jnp.array([[1.0, 0.0], [0.5, 0.5]]))
    np.testing.assert_allclose(measures["reward"], (1.0 + 0.75) / 2)
    np.testing.assert_allclose(measures["effective_outcomes"], (1.0 + 2.0) / 2)
    np.testing.assert_allclose(measures["survival"], (1.0 + 1.5) / 2)


def test_what_was_trained_is_read_again(tmp_path, capsys):
    first = arena().train("grpo", 0.05, Output(tmp_path, resume=False))
    assert "trained grpo, 3 seeds" in capsys.readouterr().err
    np.testing.assert_array_equal(first.updates, [0, 2, 4])
    assert first.measures["reward"].shape == (3, 3)
    # The same start for every seed, and different runs from there.
    assert len(np.unique(first.measures["reward"][:, 0])) == 1
    assert len(np.unique(first.measures["reward"][:, -1])) == 3
    assert first.final_reward == first.measures["reward"][:, -1].mean()

    again = arena().train("grpo", 0.05, Output(tmp_path, resume=True))
    assert capsys.readouterr().err == ""
    for name, values in first.measures.items():
        np.testing.assert_array_equal(again.measures[name], values)
    with pytest.raises(ValueError, match="belongs to a run with another config"):
        arena(skew=2.0).train("grpo", 0.05, Output(tmp_path, resume=True))
    twice = arena(epochs=2).train("grpo", 0.05, Output(tmp_path / "twice", resume=False))
    assert (twice.measures["reward"][:, -1] != first.measures["reward"][:, -1]).all()


def test_the_start_is_as_skewed_as_asked():
    start = np.exp(np.array(arena(skew=1.0).policy.initial_logits))
    np.testing.assert_allclose(np.sort(start / start.max()), [1 / 4, 1 / 3, 1 / 2, 1])
    assert arena(skew=0.0).policy.initial_logits == (0.0, 0.0, 0.0, 0.0)


def test_all_objectives_have_the_same_number_of_samples():
    assert group_and_rule("grpo", 16) == (16, None)
    assert group_and_rule("critique_grpo", 16) == (8, OffPolicyAnswers(answers=8))
    assert group_and_rule("critique_grpo", 5) == (3, OffPolicyAnswers(answers=2))


def test_what_cannot_be_computed_is_told_with_the_reason():
    assert arena().refusal("grpo") is None
    assert "needs prompt_log_probs" in arena().refusal("progrpo")
    assert "group_size is 1" in arena(group_size=1).refusal("grpo")
    with pytest.raises(ValueError, match="need no reward below 0"):
        arena(environment=Bandit(rewards=(1.0, -1.0)))


def curves(objective, learning_rate, rewards, effective):
    """Two seeds, measured at the start and at the end."""
    measures = {"reward": rewards, "effective_outcomes": effective}
    return Curves(
        objective, learning_rate, np.array([0, 4]), {n: np.array([[1.0, v] for v in vs]) for n, vs in measures.items()}
    )


def test_ranks_are_by_effective_outcomes_among_those_that_reach_the_bar():
    trained = {
        "lazy": [curves("lazy", 0.1, (0.2, 0.4), (4.0, 4.0))],
        "best": [curves("best", 0.1, (0.8, 1.0), (1.0, 1.4)), curves("best", 0.2, (0.9, 1.0), (1.0, 1.2))],
        "diverse": [curves("diverse", 0.1, (0.8, 0.7), (3.0, 3.0))],
        "idle": [curves("idle", 0.1, (0.1, 0.1), (5.0, 5.0))],
        "diverged": [],
    }
    entries, bar = compare.ranked(arena(), trained, reward_share=0.8)
    # The reward-proportional law earns 0.9 of the best possible reward, the best objective here 0.95.
    assert bar == pytest.approx(0.8 * 0.9 * 0.95)
    assert list(entries) == ["diverse", "best", "idle", "lazy"]
    assert [entry.reached for entry in entries.values()] == [True, True, False, False]
    assert entries["best"].curves.learning_rate == 0.2
    assert entries["best"].rewards == pytest.approx({0.1: 0.9, 0.2: 0.95})
    assert entries["best"].final("effective_outcomes").mean == pytest.approx(1.1)
    with pytest.raises(ValueError, match="every run left the real numbers"):
        compare.ranked(arena(), {"diverged": []}, 0.9)


def test_lists_of_objectives_may_hold_all():
    everything = names()
    assert compare.chosen_objectives("all") == everything
    assert compare.chosen_objectives("grpo, all, ips_grpo(floor=0.2), grpo") == (
        "grpo", *(name for name in everything if name != "grpo"), "ips_grpo(floor=0.2)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"environment": "maze"}, "unknown environment 'maze'"),
        ({"objectives": "all,gppp"}, "unknown objective 'gppp'"),
        ({"objectives": "progrpo"}, "progrpo: the objective needs prompt_log_probs"),
        ({"learning_rates": "0.1,0.1"}, "must be different positive numbers"),
        ({"learning_rates": "-0.1"}, "must be different positive numbers"),
        ({"steps": -3}, "--steps is -3, it must be positive"),
        ({"steps": 15}, "must be a multiple of --evaluate_every, 10"),
        ({"size": "huge"}, "unknown size 'huge'; known: smoke, demo, paper"),
        ({"reward_share": 0.0}, "--reward_share is 0.0, it must be positive"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_written(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        compare.run(compare.Settings(**{"size": "smoke"} | settings), Output(tmp_path / "out", resume=False))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["hypergrid", "hypospace_boolean(operators=basic, depth=2)"])
def test_every_objective_of_the_catalog_is_trained_or_left_out_with_a_reason(environment, tmp_path):
    # The bandit is the smoke command, see test_commands.py.
    command = [sys.executable, "-m", "experiments.compare", "--preset=smoke"]
    command += [f"--environment={environment}", f"--out={tmp_path}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert finished.returncode == 0, finished.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert sorted([*summary["objectives"], *summary["left_out"]]) == sorted(names())
    for objective, reason in summary["left_out"].items():
        assert f"left out: {objective}: {reason}" in finished.stdout
        assert "needs" in reason
    assert {"grpo", "ips_grpo", "placebo", "critique_grpo"} <= summary["objectives"].keys()
