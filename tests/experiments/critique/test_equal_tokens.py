import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.critique.equal_tokens import EqualTokens, Learner
from experiments.critique.wrong_digits import Repairers, sums
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.critics import Own

PLAIN, OWN = Learner("plain", "grpo", 4), Learner("own critiques", "critique_grpo", 2, "own")


@functools.cache
def small(budget=200, records=2):
    task = sums(8)
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1)
    repairers = Repairers(task, policy, asked=4, prior_steps=2)
    return EqualTokens(repairers, prompts_per_step=2, budget=budget, records=records)


def course(runs, name):
    return [then[name] for then in runs]


def test_an_arm_has_as_many_second_attempts_as_answers():
    assert small().trainer(PLAIN).settings.wrappers == ()
    (off_policy,) = small().trainer(OWN).settings.wrappers
    assert off_policy.answers == 2
    assert off_policy.refine.critic == Own()


def test_a_run_is_measured_at_the_start_and_at_each_part_of_the_budget():
    found = small().run(PLAIN, 1e-3, 0)
    success = small().repairers.success(small().repairers.prior(0))
    assert found[0]["score"] == pytest.approx(success.mean())
    # Eight answers of two to six tokens in each update.
    assert found[0]["updates"] == 0
    assert 100 / 48 <= found[1]["updates"] <= found[2]["updates"] <= 200 / 8 + 1
    # The prior is untaught, so that no prompt has initial success.
    assert np.isnan(course(found, "others")).all()
    assert course(found, "hard") == pytest.approx(course(found, "score"))


def test_all_that_the_policy_samples_is_counted():
    trainer = small().trainer(OWN)
    prior = small().repairers.prior(0)
    state = trainer.begin(jnp.int32(0), jnp.float32(1e-3), jax.tree.map(jnp.array, prior), None)
    _, metrics = trainer.step(state)
    spent, longest = float(metrics["tokens_sampled"]), small().repairers.task.max_tokens
    # Four answers, four second attempts and four critiques.
    assert 12 <= spent <= 12 * longest
    assert spent > 4 * longest / 2
    assert course(small(budget=int(spent), records=1).run(OWN, 1e-3, 0), "updates") == [0, 1]


def test_one_update_may_complete_several_parts():
    assert course(small(budget=10, records=5).run(PLAIN, 1e-3, 0), "updates") == [0, *[1] * 5]
    # Second attempts are learned from even where none is right: an entropy bonus moves the policy.
    moved = course(small(budget=10, records=5).run(OWN, 1e-2, 0), "score")
    assert len(set(moved[1:])) == 1
    assert moved[0] != moved[1]


def test_a_curve_is_of_one_rate():
    curve = small().curve("plain", PLAIN, 1e-2, (0, 1))
    assert curve.labels == {"arm": "plain", "learning_rate": 1e-2}
    points = curve.compute()
    assert points.steps.tolist() == [0, 100, 200]
    assert points.values["hard"].shape == (2, 3)
    assert points.values["score"][1] == pytest.approx(course(small().run(PLAIN, 1e-2, 1), "score"))


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match="off-policy"):
        small().curve("plain", Learner("plain", "critique_grpo", 4), 1e-3, (0, 1))
