import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.forks import Forks
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify


def slow_outcome(forks, tokens):
    """Branches at the first of every 1 + steps tokens; all other tokens must be 0."""
    parts = [tokens[i : i + 1 + forks.steps] for i in range(0, forks.max_tokens, 1 + forks.steps)]
    plans = list(itertools.product(range(forks.branches), repeat=forks.forks))
    return len(plans) if any(any(part[1:]) for part in parts) else plans.index(tuple(part[0] for part in parts))


@pytest.mark.parametrize(
    "forks",
    [Forks(), Forks(1, 2, 1, (1.0, 0.5)), Forks(2, 2, 1, (1.0, 0.0, 0.0, 2.0))],
    ids=["2x3x4", "1x2x1", "2x2x1"],
)
def test_outcomes_rewards_and_plans_of_sampled_answers(forks):
    policy = Tabular(forks.num_observations, forks.vocabulary_size, forks.logits(0.2))
    parameters = policy.init(jax.random.key(0))
    sampled = sample_groups(
        forks, policy, parameters, forks.prompts(jnp.zeros(1, jnp.int32)), jax.random.key(1), group_size=200
    )
    outcomes = verify(forks, sampled)
    expected = [slow_outcome(forks, answer) for answer in np.asarray(sampled.tokens[0]).tolist()]
    assert outcomes.outcome_id[0].tolist() == expected
    assert np.asarray(outcomes.rewards[0]).tolist() == forks.reward_table()[0][expected].tolist()
    place = np.arange(forks.max_tokens) % (1 + forks.steps)
    assert (np.asarray(outcomes.planning_mask) == (place == 0)).all()
    entropy = np.asarray(sampled.behaviour_entropy)[..., place == 0]
    assert entropy == pytest.approx(np.log(forks.branches))


@pytest.mark.parametrize("slip", [0.002, 0.1])
def test_plans_are_equally_likely_and_every_step_may_slip(slip):
    forks = Forks()
    policy = Tabular(forks.num_observations, forks.vocabulary_size, forks.logits(slip))
    probs = jax.jit(outcome_probs, static_argnums=(0, 1))(forks, policy, policy.init(jax.random.key(0)))
    carried_out = (1 - slip) ** 8
    assert np.asarray(probs) == pytest.approx([carried_out / 9] * 9 + [1 - carried_out], rel=1e-4)


def test_the_backward_policy_is_a_distribution_over_the_answers_with_an_outcome():
    """Two plans with one step each: one answer leads to each plan, and two lead to the slip."""
    forks = Forks(1, 2, 1, (1.0, 1.0))
    reached = forks.step(jnp.arange(3)[:, None], jnp.arange(2))
    assert reached.tolist() == [[1, 2], [3, 5], [4, 5]]
    assert forks.num_parents(jnp.arange(1, 6)).tolist() == [1, 1, 1, 1, 2]
