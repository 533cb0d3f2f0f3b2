"""The training stack, by sampling, against the exact mean of its update, for rows with every kind of part.

What the mean of a row is, `test_enumeration.py` says for all of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.expected_update import Steps, expected_update
from ipsrl.dynamics.verdict import is_idle
from ipsrl.environments.bandit import Bandit
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from tests.dynamics.sampled_training import sampled_updates
from tests.tiers import slow_after

# An outcome is wrong, and one is right in part, so that every row has something to say.
BANDIT = Bandit((1.0, 0.55, 0.0))
POINTS, SAMPLES, GROUP_SIZE = 8, 4096, 4

# The first row has answers from elsewhere. The others have counts, a penalty, a state, parameters of their own, two
# two steps, likely tokens, pairs, draws, and a surrogate that looks at the whole batch.
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


# All that have importance ratios and need nothing that a bandit lacks.
LACKING = {"prompt_log_probs", "reward_parts", "answer_features"}
RATIOS = [
    text
    for text in objectives.names()
    if is_idle(objectives.make(text).surrogate) and LACKING.isdisjoint(objectives.make(text).needs)
]
RATIOS += ["progrpo(reference=correct)", "rep_exp(features=outcome)"]


@pytest.mark.parametrize("text", TEXTS)
def test_mean_of_sampled_updates_is_the_expected_update(text):
    assert_agreement(text)


@pytest.mark.parametrize("text", slow_after(2, RATIOS))
def test_mean_after_several_steps_on_a_batch(text):
    """Steps so large that clips act."""
    # In groups of 4 two outcomes may have the highest covariance, and rounding decides between them.
    assert_agreement(text, Steps(3, 1.5), group_size=3 if text == "kl_cov" else GROUP_SIZE)


def assert_agreement(text, steps=None, group_size=GROUP_SIZE):
    objective = objectives.make(text)
    off_policy = OffPolicyAnswers(3) if "off_policy" in objective.needs else None
    rng = np.random.default_rng(0)
    points, reference = jnp.float32(rng.normal(size=(POINTS, 3))), jnp.float32(rng.normal(size=3))

    @jax.jit
    def exactly(logits):
        return expected_update(
            objective, logits, jnp.float32(BANDIT.rewards), group_size, reference=reference, off_policy=off_policy,
            steps=steps, num_keys=512,
        )  # fmt: skip

    exact = jax.lax.map(exactly, points)
    options = {"group_size": group_size, "samples": SAMPLES, "off_policy": off_policy, "steps": steps}
    sampled = np.stack([sampled_updates(objective, BANDIT, z[None], reference[None], **options)[:, 0] for z in points])
    deviation = sampled.mean(axis=1, dtype=np.float64) - np.asarray(exact, np.float64)
    error = sampled.std(axis=1, ddof=1, dtype=np.float64) / np.sqrt(SAMPLES)
    # Rounding of logits over the step size: about 1e-4 in each update, of either sign.
    assert np.all(np.abs(deviation) <= 4 * error + 2e-5)
    assert np.abs(exact).max() > 1e-4
