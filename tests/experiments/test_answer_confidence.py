import numpy as np
import pytest

from experiments import answer_confidence
from experiments.answer_confidence import ARMS, EXACT, PRESETS, TEXT
from experiments.crossed.nine_answers import RIGHT
from ipsrl import objectives
from ipsrl.policies.tabular import Tabular
from ipsrl.records.tidy import Records
from ipsrl.study import claims

VALUES = ("pass_at_1", "pass_at_32", "covered_at_32", "effective_outcomes")


def decided(ends, tasks=(*EXACT, TEXT)):
    """The claims, from arm -> pass@1, pass@32, covered by 32, effective; seeds differ by 0.001."""
    rows = [
        {"task": task, "objective": arm, "seed": seed, "step": 1}
        | {value: end + 0.001 * seed for value, end in zip(VALUES, ends.get(arm, ends["GRPO"]), strict=True)}
        for task in tasks
        for arm in ARMS
        for seed in range(5)
        if task == TEXT or arm != "other_prompt"
    ]
    found = claims.decided(answer_confidence.CLAIMS, Records(rows, ("task", "objective")))
    return list(found.values())


PLAIN, BETTER = (0.8, 0.8, 0.3, 1.0), (0.79, 0.9, 0.6, 3.0)


def test_the_field_is_right_where_only_the_true_confidences_cover_more():
    assert decided({"GRPO": PLAIN, "ARM": BETTER}) == [True] * 7


def test_it_is_wrong_where_arm_costs_reward_and_a_placebo_does_the_same():
    lost = (0.7, 0.8, 0.3, 0.9)
    assert decided({"GRPO": PLAIN, "ARM": lost, "permuted": lost}) == [False] * 7


def test_a_placebo_or_the_loss_alone_as_good_as_arm_refutes_only_the_mechanism():
    arms = dict.fromkeys(("ARM", "permuted", "other_prompt", "no_shift"), BETTER)
    assert decided({"GRPO": PLAIN} | arms) == [True, True, True, True, False, False, False]


def test_differences_at_the_margin_decide_nothing():
    def edge(pass_1, more):
        return pass_1, 0.8 + more, 0.3 + more, 1.0 + more * 5

    rows = [
        {"task": TEXT, "objective": arm, "seed": seed, "step": 1}
        | dict(zip(VALUES, edge(0.8 - swing, 0.02 + swing) if arm == "ARM" else edge(0.82, 0.0), strict=True))
        for arm in ARMS
        for seed, swing in enumerate((-0.01, 0.01))
    ]
    found = claims.decided(answer_confidence.CLAIMS, Records(rows, ("task", "objective")))
    assert list(found.values()) == [None] * 7


def test_a_task_whose_pass_rate_is_full_says_nothing_of_it():
    assert decided({"GRPO": (0.99, 0.99, 0.3, 1.0), "ARM": (0.99, 0.99, 0.6, 3.0)})[1] is None


def test_without_text_nothing_is_known_of_the_prompt():
    assert decided({"GRPO": PLAIN, "ARM": BETTER}, tasks=tuple(EXACT))[-1] is None


def test_placebos_sample_at_random_and_only_text_reads_the_prompt():
    for arm, text in ARMS.items():
        exact, read = (objectives.make(text.format(level)).needs for level in ("correct", "prompt"))
        assert ("prompt_log_probs" in read) == ("progrpo" in text)
        assert ("prompt_log_probs" in exact) == (arm == "other_prompt")
        assert ("keys" in exact) == ("keys" in read) == (arm in ("permuted", "other_prompt"))


def test_curves_have_the_names_of_the_arms():
    settings = PRESETS["smoke"].__class__(seeds=(0, 1), text_steps=1)
    labels = [curve.labels for curve in answer_confidence.curves(settings)]
    exact = [arm for arm in ARMS if arm != "other_prompt"]
    for task in EXACT:
        assert [one["objective"] for one in labels if one["task"] == task] == exact
    assert [one["objective"] for one in labels if one["task"] == TEXT][::2] == list(ARMS)


@pytest.mark.parametrize("task", EXACT)
def test_bandit_and_trees_start_from_the_same_probabilities(task):
    (curve,) = answer_confidence.curves(
        PRESETS["smoke"].__class__(("GRPO",), (task,), seeds=(0, 1), steps=1, record_every=1)
    )
    start = {name: values[:, 0] for name, values in curve.compute().values.items() if name != "learning_rate"}
    policy = Tabular(EXACT[task].num_observations, EXACT[task].vocabulary_size)
    assert policy.vocabulary_size == (RIGHT.shape[1] if task == "bandit" else 6)
    # Pass rates of prompts: log-odds -2.197 + (-6, ..., 6).
    rates = 1 / (1 + np.exp(2.1972 - np.linspace(-6, 6, 8)))
    np.testing.assert_allclose(start["pass_at_1"], rates.mean(), rtol=1e-4)
    np.testing.assert_allclose(start["pass_at_4"], (1 - (1 - rates) ** 4).mean(), rtol=1e-4)
    np.testing.assert_allclose(start["covered_at_1"], rates.mean() / 4, rtol=1e-4)
