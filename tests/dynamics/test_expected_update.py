import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.dynamics import flows
from ipsrl.dynamics.expected_update import differentiable, estimated_update, expected_update
from ipsrl.dynamics.finite_groups import count_weights, mean_field
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.tree import Tree
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.training.off_policy import OffPolicyAnswers

LOGITS, REWARDS = np.array([0.2, -0.6, 0.7]), np.array([1.0, 0.55, 0.13])
RULES = {"ips_reinforce": "no baseline", "ips_dr_grpo": "group mean", "ips_grpo": "group mean and std"}


def exact(text, logits=LOGITS, rewards=REWARDS, group_size=5, **options):
    """`expected_update` in float64."""
    with jax.enable_x64(True):
        arrays = jnp.asarray(logits, jnp.float64), jnp.asarray(rewards, jnp.float64)
        return np.asarray(expected_update(objectives.make(text), *arrays, group_size, **options))


@pytest.mark.parametrize("group_size", [2, 6])
@pytest.mark.parametrize(("alpha", "floor"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.4)])
def test_closed_mean_fields(group_size, alpha, floor):
    weights = count_weights(group_size, alpha, floor)
    for name, rule in RULES.items():
        update = exact(f"{name}(alpha={alpha}, floor={floor})", group_size=group_size)
        # The counts are float32 in the objective's code.
        np.testing.assert_allclose(update, mean_field(softmax(LOGITS), REWARDS, weights, rule), atol=1e-7)


def test_all_dtypes_and_batches_agree():
    """float32, a batch of points in one call, and a group that takes more than one block."""
    points = np.stack([LOGITS, LOGITS[::-1], np.zeros(3)]).astype(np.float32)
    objective = objectives.make("ips_grpo")
    many = jax.vmap(lambda z: expected_update(objective, z, jnp.float32(REWARDS), 33))(jnp.asarray(points))
    for point, update in zip(points, many, strict=True):
        np.testing.assert_allclose(update, exact("ips_grpo", point, group_size=33), atol=2e-6)


def test_an_outcome_that_never_occurs_changes_nothing():
    update = exact("grpo", np.array([0.3, 0.1, -100.0]), np.array([1.0, 0.0, 5.0]), group_size=4)
    np.testing.assert_allclose(update[:2], exact("grpo", np.array([0.3, 0.1]), np.array([1.0, 0.0]), group_size=4))
    assert abs(update[2]) < 1e-30


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_carried_state_is_used(alpha):
    """Over a running mean that stays where it belongs, exact probabilities give the ideal flow in every group."""
    flow = flows.flow_velocity(LOGITS, REWARDS, alpha)
    mean_weight = (REWARDS * softmax(LOGITS) ** (1 - alpha)).sum()
    objective = objectives.make(f"ips_reinforce(alpha={alpha}, probability=exact)")
    with jax.enable_x64(True):
        state = tuple(
            jax.tree.map(
                lambda leaf: jnp.full(leaf.shape, np.log(mean_weight)), objective.init(Bandit((0.0,) * 3).sizes)
            )
        )
        arrays = jnp.asarray(LOGITS, jnp.float64), jnp.asarray(REWARDS, jnp.float64)
        update = expected_update(objective, *arrays, 4, objective_state=state)
    # Each group moves the mean by a hundredth of its distance before it is used.
    np.testing.assert_allclose(update, flow / mean_weight, rtol=0.05)
    assert not np.allclose(update, exact(f"ips_reinforce(alpha={alpha}, probability=exact)", group_size=4), rtol=0.05)


def test_jacobian_sees_weights_that_follow_the_policy():
    """At rest the ideal flow has the derivative -R (diag p - p p^T): stopped gradients would give another."""
    law = REWARDS / REWARDS.sum()
    objective = objectives.make("ips_reinforce(probability=exact)")
    with jax.enable_x64(True):
        rewards = jnp.asarray(REWARDS, jnp.float64)

        def field(logits):
            return expected_update(objective, logits, rewards, 2)

        logits = jnp.log(law)
        jacobian = jax.jacfwd(differentiable(field))(logits)
        blind = jax.jacfwd(field)(logits)
        differences = np.stack([field(logits + e) - field(logits - e) for e in 1e-5 * np.eye(3)], axis=1) / 2e-5
    np.testing.assert_allclose(jacobian, differences, atol=1e-8)
    assert np.abs(jacobian - blind).max() > 0.1
    eigenvalues = np.sort(np.linalg.eigvals(jacobian).real)
    ideal = np.sort(np.linalg.eigvalsh(-(np.diag(law) - np.outer(law, law))))
    # Divided by the mean weight R; and a group's own mean as its baseline costs (G - 1) / G.
    np.testing.assert_allclose(eigenvalues, ideal / 2, atol=1e-6)


def test_tree_follows_the_gradient_of_the_return():
    tree = Tree()
    policy = Tabular(tree.num_observations, tree.vocabulary_size)
    logits = jax.random.normal(jax.random.key(0), (tree.num_observations, tree.vocabulary_size))
    rewards = jnp.asarray(tree.reward_table()[0])

    def mean_return(table):
        law = tree.terminal_distribution(log_probs_table(policy, {"logits": table}, tree))
        return law @ rewards

    gradient = jax.grad(mean_return)(logits)
    assert np.abs(gradient).max() > 0.01
    update = expected_update(objectives.make("reinforce"), logits, rewards, 2, environment=tree)
    np.testing.assert_allclose(update, gradient, atol=1e-6)


def test_antithetic_estimate_knows_its_error():
    objective, z, r = objectives.make("ips_reinforce"), jnp.float32(LOGITS), jnp.float32(REWARDS)
    estimate = estimated_update(objective, z, r, 8, jax.random.key(0), pairs=4000)
    assert estimate.groups == 8000
    error = np.abs(estimate.update - exact("ips_reinforce", group_size=8))
    assert np.all(error < 4 * estimate.standard_error)
    assert np.all(estimate.standard_error > 0)
    few = jax.vmap(lambda key: estimated_update(objective, z, r, 8, key, pairs=2).update)
    spread = few(jax.random.split(jax.random.key(1), 500)).std(axis=0)
    np.testing.assert_allclose(estimate.standard_error, spread * math.sqrt(2 / 4000), rtol=0.15)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("progrpo", {}, "needs prompt_log_probs"),
        ("critique_grpo", {}, "needs off-policy answers"),
        ("grpo", {"group_size": 1}, "it must be at least 2"),
        ("grpo", {"group_size": 700}, "246051 different groups, more than 200000: take estimated_update"),
        ("grpo", {"logits": np.zeros(2)}, r"logits has shape \(2,\), expected \(3,\)"),
        ("grpo", {"environment": Tree()}, r"rewards has shape \(3,\), expected \(4,\)"),
        ("critique_grpo", {"off_policy": OffPolicyAnswers(2, at_most=0.5)}, "leave at_most out"),
    ],
)
def test_refusals(text, options, message):
    with pytest.raises(ValueError, match=message):
        exact(text, **options)


def test_estimate_needs_two_pairs():
    with pytest.raises(ValueError, match="pairs is 1"):
        estimated_update(objectives.make("grpo"), jnp.zeros(2), jnp.arange(2.0), 4, jax.random.key(0), pairs=1)
