import dataclasses
import json

import numpy as np
import pytest

from experiments import compare
from experiments.compare import training
from ipsrl import study
from ipsrl.objectives import names
from ipsrl.records.tidy import NotRecorded
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.study.study import Study, run
from tests.compared_records import made_up

# Two best outcomes, one graded, one worthless; reward-proportional probabilities are 0.4, 0.4, 0.2, 0.
BANDIT = "bandit(rewards=(1.0, 1.0, 0.5, 0.0))"
SMALL = {"environment": BANDIT, "seeds": (0, 1, 5), "steps": 4, "group_size": 6, "evaluate_every": 2}
TEXT = {"environment": "hypospace_boolean(operators=basic, depth=2)"}


def settings_of(**changes):
    return dataclasses.replace(compare.PRESETS["smoke"], **changes).resolved()


def small(**changes):
    return settings_of(**SMALL | changes)


def on_text(preset="smoke", **changes):
    return settings_of(**TEXT | {"preset": preset} | changes)


def trained(objective, rate=0.05, **changes):
    (curve,) = training.exact_curves(objective, rate, small(**changes))
    return curve.compute().values


def reason(settings, objective):
    return compare.refused(dataclasses.replace(settings, objectives=(objective,))).get(objective)


def test_all_seeds_start_alike_and_go_their_own_ways():
    first = trained("grpo")
    assert first["reward"].shape == (3, 3)
    assert len(np.unique(first["reward"][:, 0])) == 1
    assert len(np.unique(first["reward"][:, -1])) == 3
    assert first["proportional_reward"] == pytest.approx(0.9)
    assert training.proportional_reward(np.array([[2.0, 2.0, 1.0, 0.0]])) == pytest.approx(0.9)
    assert (trained("grpo", epochs=2)["reward"][:, -1] != first["reward"][:, -1]).all()


def test_the_start_is_as_skewed_as_asked():
    start = np.exp(np.array(training.policy_of(small(skew=1.0)).initial_logits))
    np.testing.assert_allclose(np.sort(start / start.max()), [1 / 4, 1 / 3, 1 / 2, 1])
    assert training.policy_of(small(skew=0.0)).initial_logits == (0.0, 0.0, 0.0, 0.0)


def test_what_cannot_be_computed_is_told_with_the_reason():
    assert reason(small(), "grpo") is None
    assert "needs prompt_log_probs" in reason(small(), "progrpo")
    assert "group_size is 1" in reason(small(group_size=1), "grpo")
    assert "refinements is 0" in reason(small(group_size=1), "critique_grpo")
    assert "group_size is 1" in reason(on_text(group_size=1), "grpo")
    assert reason(on_text(group_size=1), "reinforce") is None
    for rewards in ([[1.0, -1.0]], [[1.0, 0.5], [0.0, 0.0]]):
        with pytest.raises(ValueError, match="need non-negative rewards, and a positive one"):
            trained("grpo", environment=f"bandit(rewards={tuple(map(tuple, rewards))})")


@pytest.mark.slow
def test_rows_that_are_the_same_rule_here_train_alike():
    runs = [trained(row, 0.01) for row in ("grpo", "dapo", "dapo(overlong=0)")]
    for other in runs[1:]:
        # With the usual epsilon of 1e-8 they are 3e-3 apart.
        np.testing.assert_allclose(other["effective_outcomes"], runs[0]["effective_outcomes"], atol=1e-4)


def test_steps_of_the_same_batch_share_the_learning_rate():
    assert training.step_size("grpo", 0.1) == 0.1
    assert training.step_size("ar_lopti", 0.1) == 0.05
    assert training.text_grid("ar_lopti", 0.1, on_text()).settings.learning_rate == 0.05


@pytest.mark.parametrize(("prompts", "micro_batches"), [(40, 5), (32, 4), (56, 1)])
def test_any_number_of_prompts_can_be_split(prompts, micro_batches, monkeypatch):
    # Five is what the preset has.
    monkeypatch.setattr(training.jax, "device_count", lambda: 8)
    monkeypatch.setattr(training.text_tasks, "training_grid", lambda environment, task: task)
    task = training.text_task(on_text(preset="demo", prompts_per_step=prompts))
    assert (task.prompts_per_step, task.micro_batches) == (prompts, micro_batches)


def test_rules_surround_all_objectives_on_text():
    with_rules = on_text(filters="dynamic_sampling(rounds=3)")
    assert training.text_grid("dapo", 0.1, with_rules).settings.wrappers == (DynamicSampling(3),)
    assert training.text_grid("dapo", 0.1, on_text()).settings.wrappers == ()


def test_replayed_modes_take_the_place_of_refinements():
    alone = training.text_grid("mode_replay", 0.1, on_text()).settings
    with_modes = training.text_grid("mode_replay", 0.1, on_text(filters="replayed_modes(outcomes=2)")).settings
    assert [type(wrapper) for wrapper in alone.wrappers] == [OffPolicyAnswers]
    assert alone.group_size < with_modes.group_size == on_text().group_size
    assert with_modes.wrappers == (ReplayedModes(2),)


def test_the_claim_is_on_the_best_rate_above_the_bar():
    ones = (1.0,) * 5
    rivals = {("grpo", 0.1): (ones, (1.0, 1.1, 1.2, 1.0, 1.1)), ("placebo", 0.1): (ones, (1.5,) * 5)}
    (claim,) = compare.CLAIMS.values()

    def decided(reward, outcomes):
        lazy = {("ips_grpo", 0.2): ((0.5,) * 5, (9.0,) * 5)}
        return claim(made_up(rivals | {("ips_grpo", 0.1): ((reward,) * 5, outcomes)} | lazy))

    assert decided(0.9, (4.0, 4.2, 4.1, 4.0, 4.2)) is True
    assert decided(0.9, (1.2, 1.3, 1.2, 1.3, 1.2)) is False
    assert decided(0.9, (1.0, 4.0, 1.0, 4.0, 1.0)) is None
    # Below the bar, 0.9 x 0.9.
    assert decided(0.7, (4.0, 4.2, 4.1, 4.0, 4.2)) is False
    with pytest.raises(NotRecorded, match="ips_grpo was not compared"):
        claim(made_up(rivals))


def test_objectives_and_rates_can_be_added(tmp_path, capsys):
    short = {"seeds": (0,), "steps": 2, "evaluate_every": 1}
    train(tmp_path, objectives=("grpo", "progrpo"), **short)
    printed, err = capsys.readouterr()
    assert printed.startswith(
        "bandit: --seeds=0 --steps=2 --prompts_per_step=1 --group_size=8 --learning_rates=0.05 --evaluate_every=1\n"
        "bandit: 1 objective, mean over 1 seed "
    )
    assert "\ngrpo  " in printed
    assert "\nleft out: progrpo: the objective needs prompt_log_probs" in printed
    assert "finished grpo" in err
    train(tmp_path, True, objectives=("grpo", "ips_grpo"), learning_rates=(0.05, 0.1), **short)
    printed, err = capsys.readouterr()
    new = (("grpo", 0.1), ("ips_grpo", 0.05), ("ips_grpo", 0.1))
    lines = [f"finished {name}, learning_rate = {rate}" for name, rate in new]
    assert [line for line in err.splitlines() if line.startswith("finished")] == lines
    assert "learning rate\n" in printed
    with pytest.raises(ValueError, match="another config"):
        train(tmp_path, True, objectives=("grpo",), skew=2.0, **short)


def test_logged_groups_are_an_environment(tmp_path, capsys):
    rows = [
        {"prompt": prompt, "outcome": outcome, "reward": float(outcome != "x")} for prompt in "pq" for outcome in "aabx"
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = {"environment": str(tmp_path / "log.jsonl"), "objectives": ("grpo", "ips_grpo"), "steps": 10}
    np.testing.assert_allclose(np.exp(training.policy_of(settings_of(**settings)).initial_logits), [[2, 1, 1]] * 2)
    train(tmp_path / "out", **settings)
    printed = capsys.readouterr().out.splitlines()
    above = printed.index("")
    assert printed[above + 1].startswith("above, 2 of 2 prompts with a choice")
    assert printed[above + 2].startswith("the log: 2 groups of 4 answers to 2 prompts; mean reward 0.75")
    assert printed[above + 4].endswith("collapses")
    assert printed[above + 5].endswith("reward-proportional")


def train(path, resume=False, **changes):
    run(Study.of(compare), settings_of(**changes), "demo", study.Output(path, resume))


def test_lists_of_objectives_may_hold_all():
    everything = names()
    assert compare.chosen_objectives(("all",)) == everything
    assert compare.chosen_objectives(("grpo", "all", "ips_grpo(floor=0.2)", "grpo")) == (
        "grpo",
        *(name for name in everything if name != "grpo"),
        "ips_grpo(floor=0.2)",
    )


def test_refinements_are_trained_on_text_and_what_cannot_be_is_left_out_with_a_reason(tmp_path, capsys):
    """The smoke run has objectives without them; `tests/training/test_devices.py` trains every objective."""
    settings = on_text(objectives=("critique_grpo", "gdpo"))
    run(Study.of(compare), settings, "smoke", study.Output(tmp_path, resume=False))
    (final,) = json.loads((tmp_path / "summary.json").read_text())["final"]
    assert final["objective"] == "critique_grpo"
    assert "\nleft out: gdpo: " in capsys.readouterr().out


def test_what_cannot_be_trained_on_text_is_told_of_the_whole_catalog():
    assert {"gdpo", "vector_po"} <= compare.refused(on_text(objectives=names())).keys() < set(names())
