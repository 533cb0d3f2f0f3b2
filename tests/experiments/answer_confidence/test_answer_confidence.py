import numpy as np
import pytest

from experiments import answer_confidence
from experiments.answer_confidence import ARMS, EXACT, TEXT, Settings
from experiments.crossed.nine_answers import RIGHT
from ipsrl import objectives
from ipsrl.policies.tabular import Tabular
from tests.experiments.recorded import made_up


def test_a_task_that_grpo_solves_in_32_tries_says_nothing_of_more():
    (claim,) = (claim for sentence, claim in answer_confidence.CLAIMS.items() if "pass@32" in sentence)

    def holds(of_text):
        ends = {("trees", "GRPO"): 0.8, ("trees", "ARM"): 0.9, (TEXT, "GRPO"): of_text, (TEXT, "ARM"): of_text}
        return claim(made_up(("task", "objective"), {arm: {"pass_at_32": [end] * 5} for arm, end in ends.items()}))

    assert holds(1.0) is True
    assert holds(0.9) is False


def test_placebos_sample_at_random_and_only_text_reads_the_prompt():
    for arm, text in ARMS.items():
        exact, read = (objectives.make(text.format(level=level)).needs for level in ("correct", "prompt"))
        assert ("prompt_log_probs" in read) == ("progrpo" in text)
        assert ("prompt_log_probs" in exact) == (arm == "other_prompt")
        assert ("keys" in exact) == ("keys" in read) == (arm in ("permuted", "other_prompt"))


@pytest.mark.parametrize("task", EXACT)
def test_bandit_and_trees_start_from_the_same_probabilities(task):
    (curve,) = answer_confidence.curves(Settings(arms=("GRPO",), tasks=(task,), seeds=(0, 1), steps=1, record_every=1))
    start = {name: values[:, 0] for name, values in curve.compute().values.items()}
    policy = Tabular(EXACT[task].num_observations, EXACT[task].vocabulary_size)
    assert policy.vocabulary_size == (RIGHT.shape[1] if task == "bandit" else 6)
    # Pass rates of prompts: log-odds -2.197 + (-6, ..., 6).
    rates = 1 / (1 + np.exp(2.1972 - np.linspace(-6, 6, 8)))
    np.testing.assert_allclose(start["pass_at_1"], rates.mean(), rtol=1e-4)
    np.testing.assert_allclose(start["pass_at_4"], (1 - (1 - rates) ** 4).mean(), rtol=1e-4)
    np.testing.assert_allclose(start["covered_at_1"], rates.mean() / 4, rtol=1e-4)
