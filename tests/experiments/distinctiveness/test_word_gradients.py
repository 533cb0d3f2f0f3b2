import dataclasses

import jax
import numpy as np
import pytest

from experiments.distinctiveness.word_gradients import gradient_measures
from experiments.words.shared_words import SharedTable, Words
from ipsrl import objectives
from ipsrl.rollouts.sources.source import Actors, Request, Sampled

WORDS = Words(asked=4, letters=2, length=3, right=4)
POLICY = SharedTable(WORDS.num_observations, WORDS.vocabulary_size, width=8)


def test_many_answers_give_the_exact_gradient_and_all_have_advantages():
    start = POLICY.init(jax.random.key(0))
    groups = Sampled(WORDS, POLICY, prompts_per_step=4, group_size=1024)(None, Actors(start), Request(0, 0))[1]
    found = gradient_measures(WORDS, POLICY, objectives.make("dr_grpo"), start, groups)
    assert found["alignment"] > 0.97
    assert found["kept"] == 1
    assert found["norm"] > 0
    # Half of the words are right, so all groups have the same std: GRPO's gradient is that of Dr. GRPO.
    same = gradient_measures(WORDS, POLICY, objectives.make("grpo"), start, groups)
    assert same["alignment"] == pytest.approx(float(found["alignment"]), abs=1e-3)


def test_without_advantages_there_is_no_direction():
    start = POLICY.init(jax.random.key(0))
    answers, outcomes = Sampled(WORDS, POLICY, prompts_per_step=4, group_size=2)(None, Actors(start), Request(0, 0))[1]
    equal = dataclasses.replace(outcomes, rewards=np.zeros_like(outcomes.rewards))
    found = gradient_measures(WORDS, POLICY, objectives.make("grpo"), start, (answers, equal))
    assert found["kept"] == 0
    assert all(np.isnan(found[name]) for name in ("alignment", "clash", "near", "far"))
