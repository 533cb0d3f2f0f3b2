"""The training stack, by sampling, against the exact mean of its update, for rows with every kind of part.

What the mean of a row is, `test_enumeration.py` says for all of them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.training.batches.groups import sample_and_verify
from ipsrl.training.batches.off_policy_answers import OffPolicyAnswers, with_best_answer
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import WHOLE_BATCH, TrainState, update

# An outcome is wrong, and one is right in part, so that every row has something to say.
BANDIT = Bandit((1.0, 0.55, 0.0))
POLICY = Tabular(BANDIT.num_observations, BANDIT.vocabulary_size)
POINTS, SAMPLES, GROUP_SIZE, STEP_SIZE = 8, 4096, 4, 1e-3
# Two optimiser steps of a batch must not see each other, and the difference of two float32 logits not its rounding.
OPTIMIZER = make_optimizer("sgd", STEP_SIZE, max_gradient_norm=None)

# The first row has answers from elsewhere. The others have counts, a penalty, a state, parameters of their own, two
# stages, likely tokens, pairs, draws, and a surrogate that looks at the whole batch.
TEXTS = [
    "critique_grpo",
    *(
        pytest.param(text, marks=pytest.mark.slow)
        for text in (
            "ips_grpo", "grpo(kl=0.1)", "ips_grpo(probability=exact)", "trajectory_balance", "ar_lopti", "lp_reg",
            "dpo", "placebo", "hicra(planned=random)", "bapo",
        )
    ),
]  # fmt: skip


@functools.partial(jax.jit, static_argnames=("objective", "off_policy"))
def sampled_updates(objective, off_policy, logits, reference):
    """`[SAMPLES, K]`, what steps of training did to the logits `[K]`, over the step size."""

    def one_step(key):
        of_groups, of_answers, of_objective = jax.random.split(key, 3)
        state = TrainState.create({"logits": logits[None]}, objective, OPTIMIZER, BANDIT)
        prompts = BANDIT.prompts(jnp.zeros(1, jnp.int32))

        def sample(key, size):
            return sample_and_verify(BANDIT, POLICY, state.parameters, prompts, key, size, 1.0, objective.top_tokens)

        groups = sample(of_groups, GROUP_SIZE)
        if off_policy is not None:
            further = sample(of_answers, off_policy.answers)
            groups = with_best_answer(POLICY, state.parameters, *groups, *further, 1.0)
        after, _ = update(
            state, *groups, {"logits": reference[None]}, of_objective, policy=POLICY, objective=objective,
            optimizer=OPTIMIZER, batching=WHOLE_BATCH, temperature=1.0,
        )  # fmt: skip
        return (after.parameters["logits"][0] - logits) / STEP_SIZE

    return jax.vmap(one_step)(jax.random.split(jax.random.key(0), SAMPLES))


@pytest.mark.parametrize("text", TEXTS)
def test_mean_of_sampled_updates_is_the_expected_update(text):
    objective = objectives.make(text)
    off_policy = OffPolicyAnswers(3) if "off_policy" in objective.needs else None
    rng = np.random.default_rng(0)
    points, reference = jnp.float32(rng.normal(size=(POINTS, 3))), jnp.float32(rng.normal(size=3))

    @jax.jit
    def exactly(logits):
        return expected_update(
            objective, logits, jnp.float32(BANDIT.rewards), GROUP_SIZE, reference=reference, off_policy=off_policy,
            num_keys=512,
        )  # fmt: skip

    exact = jax.lax.map(exactly, points)
    sampled = np.stack([sampled_updates(objective, off_policy, logits, reference) for logits in points])
    deviation = sampled.mean(axis=1, dtype=np.float64) - np.asarray(exact, np.float64)
    error = sampled.std(axis=1, ddof=1, dtype=np.float64) / np.sqrt(SAMPLES)
    # Rounding of logits over the step size: about 1e-4 in each update, of either sign.
    assert np.all(np.abs(deviation) <= 4 * error + 2e-5)
    assert np.abs(exact).max() > 1e-4
