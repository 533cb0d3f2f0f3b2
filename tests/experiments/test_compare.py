"""Comparisons on equal terms: what is measured, who is ranked, and that every objective of the catalog takes part."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import compare
from experiments.arenas import Curves, ExactArena, group_and_rule, measure_laws, step_size
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


def test_rewards_are_shares_of_the_best_possible_one():
    twice = Bandit(rewards=(2.0, 2.0, 1.0, 0.0))
    laws = jnp.array([[[0.4, 0.4, 0.2, 0.0]]])
    np.testing.assert_allclose(measure_laws(twice, laws)["reward"], [0.9])
    assert arena(environment=twice).proportional_reward == pytest.approx(0.9)


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
    (tmp_path / "grpo" / "summary.json").write_text('{"complete": fal')
    arena().train("grpo", 0.05, Output(tmp_path, resume=True))
    assert "trained grpo, 3 seeds" in capsys.readouterr().err
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
    assert "further answers is 0" in arena(group_size=1).refusal("critique_grpo")
    with pytest.raises(ValueError, match="need no reward below 0"):
        arena(environment=Bandit(rewards=(1.0, -1.0)))


def test_rows_that_are_the_same_rule_here_train_alike(tmp_path):
    rows = ("grpo", "dapo", "dapo(overlong_weight=0)")
    runs = [arena().train(row, 0.01, Output(tmp_path, resume=False)).measures for row in rows]
    for other in runs[1:]:
        # With the usual epsilon of 1e-8 they are 3e-3 apart.
        np.testing.assert_allclose(other["effective_outcomes"], runs[0]["effective_outcomes"], atol=1e-4)


def test_steps_of_the_same_batch_share_the_learning_rate():
    assert step_size("grpo", 0.1) == 0.1
    assert step_size("ar_lopti", 0.1) == 0.05
    assert text_arena()._settings("ar_lopti", 0.1).learning_rate == 0.05


def text_arena(**changes):
    settings = {"environment": "hypospace_boolean(operators=basic, depth=2)"} | changes
    return compare.make_arena(dataclasses.replace(compare.PRESETS["smoke"], **settings))[2]


@pytest.mark.parametrize(("prompts", "micro_batches"), [(40, 5), (32, 4), (56, 1)])
def test_any_number_of_prompts_can_be_split(prompts, micro_batches):
    # Over eight devices; five is what the preset has.
    settings = text_arena(preset="demo", prompts_per_step=prompts).grid.settings
    assert (settings.prompts_per_step, settings.batching.micro_batches) == (prompts, micro_batches)


def test_rules_surround_all_objectives_on_text():
    settings = text_arena(rules="dynamic_sampling(rounds=3)")._settings("dapo", 0.1)
    assert settings.dynamic_sampling.rounds == 3
    assert text_arena()._settings("dapo", 0.1).dynamic_sampling is None


def test_one_sample_a_prompt_is_enough_for_those_that_need_no_group():
    assert text_arena(group_size=1).refusal("reinforce") is None
    assert "group_size is 1" in text_arena(group_size=1).refusal("grpo")


def curves(objective, learning_rate, rewards, effective):
    """Two seeds, measured at the start, whose reward is 0.5, and at the end."""
    measures = {"reward": rewards, "effective_outcomes": effective}
    return Curves(
        objective, learning_rate, np.array([0, 4]), {n: np.array([[0.5, v] for v in vs]) for n, vs in measures.items()}
    )


def test_ranks_are_by_effective_outcomes_among_those_that_reach_the_bar():
    trained = {
        "lazy": [curves("lazy", 0.1, (0.4, 0.5), (4.0, 4.0))],
        "best": [curves("best", 0.1, (0.8, 1.0), (1.0, 1.4)), curves("best", 0.2, (0.9, 1.0), (1.0, 1.2))],
        "diverse": [curves("diverse", 0.1, (0.8, 0.7), (3.0, 3.0))],
        "as diverse": [curves("as diverse", 0.1, (0.9, 0.7), (3.001, 3.001))],
        "idle": [curves("idle", 0.1, (0.1, 0.1), (5.0, 5.0)), curves("idle", 0.2, (0.2, 0.2), (4.5, 4.5))],
        "diverged": [],
    }
    entries, bar = compare.ranked(arena(), trained, reward_share=0.8)
    # The reward-proportional law earns 0.9 of the best possible reward, the best objective here 0.95.
    assert bar == pytest.approx(0.8 * 0.9 * 0.95)
    ranks = {text: entry.rank for text, entry in entries.items()}
    assert ranks == {"diverse": 1, "as diverse": 1, "best": 3, "idle": None, "lazy": None}
    assert list(ranks)[2:] == ["best", "idle", "lazy"]
    # Of rates at which the bar is reached, the one that leaves most; of others, the one that earns most.
    assert [entries[text].curves.learning_rate for text in ("best", "idle")] == [0.1, 0.2]
    assert entries["best"].rewards == pytest.approx({0.1: 0.9, 0.2: 0.95})
    assert entries["best"].final("effective_outcomes").mean == pytest.approx(1.2)
    with pytest.raises(ValueError, match="every run left the real numbers"):
        compare.ranked(arena(), {"diverged": []}, 0.9)


def test_no_policy_is_ranked_that_has_hardly_learned():
    trained = {
        "untrained": [curves("untrained", 0.1, (0.5, 0.5), (9.0, 9.0))],
        "lucky": [curves("lucky", 0.1, (0.54, 0.55), (8.0, 8.0))],
        "learned": [curves("learned", 0.1, (0.55, 0.57), (7.0, 7.0))],
    }
    entries, bar = compare.ranked(arena(), trained, reward_share=0.8)
    assert bar == pytest.approx(0.5 + 0.1 * 0.5)
    assert {text: entry.rank for text, entry in entries.items()} == {"learned": 1, "untrained": None, "lucky": None}


def test_objectives_can_be_added(tmp_path, capsys):
    settings = dataclasses.replace(compare.PRESETS["smoke"], objectives="grpo", seeds="0", steps=2, evaluate_every=1)
    compare.run(settings, Output(tmp_path, resume=False))
    printed = capsys.readouterr().out
    assert printed.startswith(
        "bandit: --seeds=0 --steps=2 --prompts_per_step=1 --group_size=8 --learning_rates=0.05 --evaluate_every=1\n"
    )
    assert "bandit: 1 objective, mean over 1 seed " in printed
    compare.run(
        dataclasses.replace(settings, objectives="grpo,ips_grpo", reward_share=0.5), Output(tmp_path, resume=True)
    )
    assert "trained ips_grpo" in capsys.readouterr().err
    assert json.loads((tmp_path / "summary.json").read_text())["objectives"].keys() == {"grpo", "ips_grpo"}


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
        ({"objectives": "grpo,grpo(clip_low=0.2)"}, "are the same objective: name each once"),
        ({"objectives": "all,grpo(clip_low=0.2)"}, "are the same objective: name each once"),
        ({"rules": "dynamic_sampling"}, "--rules=dynamic_sampling are for text tasks"),
        ({"environment": "hypospace_boolean", "rules": "off_policy"}, "--rules=off_policy is not for all"),
        ({"reward_share": 0.0}, "--reward_share is 0.0, it must be positive"),
        ({"environment": "math_answers"}, "math_answers has no small policy: take a bandit, a tree, a grid or a text"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_written(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        compare.run(dataclasses.replace(compare.PRESETS["smoke"], **settings), Output(tmp_path / "out", resume=False))
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
