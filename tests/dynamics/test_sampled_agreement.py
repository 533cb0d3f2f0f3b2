"""The training stack against the exact mean of its update, for rows with every kind of part.

Over all groups that can be sampled, each with its chance; by sampling, where an objective samples too, or answers come
from elsewhere. What the mean of a row is, `test_enumeration.py` says for all of them.
"""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.dynamics.expected_update import Steps, expected_update
from ipsrl.dynamics.verdict import is_idle
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from tests.dynamics.sampled_training import sampled_updates, updated
from tests.sampled_groups import sample_and_verify
from tests.tiers import slow_after

# An outcome is wrong, and one is right in part, so that every row has something to say.
BANDIT = Bandit((1.0, 0.55, 0.0))
POINTS, SAMPLES, GROUP_SIZE = 8, 4096, 4
SEVERAL = Steps(3, 1.5)
"""So large that clips act."""

# Answers from elsewhere, and draws.
SAMPLED = [
    ("critique_grpo", None),
    ("placebo", None),
    ("hicra(planned=random)", None),
    ("mode_replay", SEVERAL),
    ("placebo", SEVERAL),
    ("clip_cov", SEVERAL),
]

# Counts, a penalty, a state, parameters of their own, two steps, likely tokens, pairs, and a surrogate that looks at
# the whole batch.
ENUMERATED = [
    "ips_grpo(probability=exact)",
    "grpo(kl=0.1)",
    "ips_grpo",
    "trajectory_balance",
    "ar_lopti",
    "lp_reg",
    "dpo",
    "bapo",
]


def acting(text):
    """The parts that act after the first step; the others only make advantages, which stay those of the batch."""
    objective = objectives.make(text)
    return *map(type, (objective.surrogate, objective.aggregation, *objective.penalties)), objective.first is None


# One of each kind that has importance ratios, needs nothing that a bandit lacks, and is not sampled above.
OTHERS = {"prompt_log_probs", "reward_parts", "answer_features", "off_policy", "keys"}
RATIOS = {}
for name in objectives.names():
    if is_idle(objectives.make(name).surrogate) and OTHERS.isdisjoint(objectives.make(name).needs):
        RATIOS.setdefault(acting(name), name)


@pytest.mark.parametrize(("text", "steps"), slow_after(1, SAMPLED))
def test_mean_of_sampled_updates_is_the_expected_update(text, steps):
    objective, (points, reference) = objectives.make(text), points_and_reference()
    off_policy = OffPolicyAnswers(3) if "off_policy" in objective.needs else None
    exact = jax.jit(expected_updates(objective, steps, off_policy=off_policy))(points)
    options = {"group_size": GROUP_SIZE, "samples": SAMPLES, "off_policy": off_policy, "steps": steps}
    sampled = np.stack([sampled_updates(objective, BANDIT, z[None], reference[None], **options)[:, 0] for z in points])
    deviation = sampled.mean(axis=1, dtype=np.float64) - np.asarray(exact, np.float64)
    error = sampled.std(axis=1, ddof=1, dtype=np.float64) / np.sqrt(SAMPLES)
    # Rounding of logits over the step size: about 1e-4 in each update, of either sign.
    assert np.all(np.abs(deviation) <= 4 * error + 2e-5)
    assert np.abs(exact).max() > 1e-4


@pytest.mark.parametrize("text", slow_after(0, ENUMERATED))
def test_mean_over_all_groups_is_the_expected_update(text):
    # The last bit of logits below 2, over the step size.
    assert_agreement(text, None, atol=1.2e-4)


@pytest.mark.parametrize("text", slow_after(2, [*RATIOS.values()]))
def test_mean_after_several_steps_on_a_batch(text):
    # In groups of 4 two outcomes may have the highest covariance, and rounding decides between them.
    assert_agreement(text, SEVERAL, atol=1e-6, group_size=3 if text == "kl_cov" else GROUP_SIZE)


def assert_agreement(text, steps, atol, group_size=GROUP_SIZE):
    objective, (points, reference) = objectives.make(text), points_and_reference()
    orders = np.array(list(itertools.product(range(3), repeat=group_size)))

    @jax.jit
    def both(points, answers):
        def by_training(point_and_answers):
            logits, (trajectories, outcomes) = point_and_answers
            unprompted = dataclasses.replace(trajectories, prompts=None)

            def of_order(order):
                group, verified = jax.tree.map(lambda leaf: leaf[:, order], (unprompted, outcomes))
                group = dataclasses.replace(group, prompts=trajectories.prompts)
                key = jax.random.key(0)
                return updated(objective, BANDIT, logits[None], reference[None], (group, verified), key, steps)[0]

            return jax.lax.map(of_order, orders)

        return expected_updates(objective, steps, group_size)(points), jax.lax.map(by_training, (points, answers))

    expected, found = both(points, one_answer_of_each(points, objective.top_tokens))
    chances = softmax(np.float64(points), axis=1)[:, orders].prod(axis=-1)
    np.testing.assert_allclose(np.einsum("pn,pnk->pk", chances, np.float64(found)), expected, rtol=0, atol=atol)
    assert np.abs(expected).max() > 1e-4


def points_and_reference():
    rng = np.random.default_rng(0)
    return jnp.float32(rng.normal(size=(POINTS, 3))), jnp.float32(rng.normal(size=3))


def expected_updates(objective, steps, group_size=GROUP_SIZE, off_policy=None):
    """A function from points `[P, K]` to their expected updates."""
    _, reference = points_and_reference()

    def at_point(logits):
        return expected_update(
            objective,
            logits,
            jnp.float32(BANDIT.rewards),
            group_size,
            reference=reference,
            off_policy=off_policy,
            steps=steps,
            num_keys=512,
        )

    return functools.partial(jax.lax.map, at_point)


@functools.partial(jax.jit, static_argnames="top_tokens")
def one_answer_of_each(points, top_tokens):
    """An answer of each outcome in its order, at each point, as the policy samples and verifies it."""
    policy, prompts = Tabular(1, 3), BANDIT.prompts(jnp.zeros(1, jnp.int32))

    def at_point(logits):
        parameters, key = {"logits": logits[None]}, jax.random.key(0)
        trajectories, outcomes = sample_and_verify(BANDIT, policy, parameters, prompts, key, 512, 1.0, top_tokens)
        first = jnp.argmax(outcomes.outcome_id[0] == jnp.arange(3)[:, None], axis=1)
        unprompted = dataclasses.replace(trajectories, prompts=None)
        chosen, verified = jax.tree.map(lambda leaf: leaf[:, first], (unprompted, outcomes))
        return dataclasses.replace(chosen, prompts=prompts), verified

    return jax.lax.map(at_point, points)
