"""The training stack, by sampling, against the exact mean of its update, for rows with every kind of part.

What the mean of a row is, `test_enumeration.py` says for all of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampled_training import sampled_updates

from ipsrl import objectives
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.bandit import Bandit
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers

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
    options = {"group_size": GROUP_SIZE, "samples": SAMPLES, "off_policy": off_policy}
    sampled = np.stack([sampled_updates(objective, BANDIT, z[None], reference[None], **options)[:, 0] for z in points])
    deviation = sampled.mean(axis=1, dtype=np.float64) - np.asarray(exact, np.float64)
    error = sampled.std(axis=1, ddof=1, dtype=np.float64) / np.sqrt(SAMPLES)
    # Rounding of logits over the step size: about 1e-4 in each update, of either sign.
    assert np.all(np.abs(deviation) <= 4 * error + 2e-5)
    assert np.abs(exact).max() > 1e-4
