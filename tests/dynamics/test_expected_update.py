import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.dynamics import setting
from ipsrl.dynamics.expected_training import expected_training
from ipsrl.dynamics.expected_update import (
    LARGEST_GROUP_OF_THREE,
    MOST_GROUPS,
    Steps,
    estimated_update,
    expected_update,
)
from ipsrl.dynamics.softmax import flows
from ipsrl.dynamics.softmax.finite_groups import count_weights, mean_field
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from tests.dynamics.sampled_training import sampled_updates
from tests.objectives.groups import mean_update
from tests.tiers import slow_after

LOGITS, REWARDS = np.array([0.2, -0.6, 0.7]), np.array([1.0, 0.55, 0.13])


estimate_in_one_program = jax.jit(
    estimated_update, static_argnames=("objective", "group_size", "environment", "steps", "pairs")
)


def exact(text, logits=LOGITS, rewards=REWARDS, group_size=5, **options):
    """`expected_update` in float64."""
    with jax.enable_x64(True):
        arrays = jnp.asarray(logits, jnp.float64), jnp.asarray(rewards, jnp.float64)
        return np.asarray(mean_update(objectives.make(text), *arrays, group_size, **options))


@pytest.mark.parametrize(
    ("name", "rule", "group_size", "alpha", "floor"),
    slow_after(
        1,
        [
            ("ips_grpo", "group mean and std", 6, 0.5, 0.4),
            ("ips_dr_grpo", "group mean", 2, 1.0, 0.0),
            ("ips_reinforce", "no baseline", 5, 1.0, 0.0),
        ],
    ),
)
def test_closed_mean_fields(name, rule, group_size, alpha, floor):
    update = exact(f"{name}(alpha={alpha}, floor={floor})", group_size=group_size)
    weights = count_weights(group_size, alpha, floor)
    # The counts are float32 in the objective's code.
    np.testing.assert_allclose(update, mean_field(softmax(LOGITS), REWARDS, weights, rule), atol=1e-7)


def test_a_sequence_mask_acts_in_later_steps():
    steps = Steps(3, 1.0)
    corrected = exact("grpo(correction=sequence_mask(0.1))", steps=steps)
    assert np.abs(corrected - exact("grpo", steps=steps)).max() > 1e-3


def test_small_steps_are_as_many_updates():
    steps = Steps(3, 1e-6)
    for text in ("dapo", "ips_grpo(kl=0.1)", "reinforce"):
        np.testing.assert_allclose(exact(text, steps=steps), 3 * exact(text), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_clips_act_in_later_steps():
    """Derived by hand: with groups of two on two arms only the mixed group, with advantages 1 and -1, has an update."""
    logits, low, high, size = np.array([-0.3, 0.4]), 0.2, 0.28, 0.4
    now, start = logits.copy(), softmax(logits)
    for _ in range(5):
        ratio = softmax(now) / start
        # min(rho A, clip(rho) A) / 2 for each answer, so that a ratio beyond its limit has no gradient.
        counts = np.where([ratio[0] <= 1 + high, ratio[1] >= 1 - low], [1.0, -1.0], 0.0) * ratio / 2
        now = now + size * (counts - softmax(now) * counts.sum())
    assert ratio[0] > 1 + high
    mixed = 2 * start[0] * start[1]
    found = exact("dapo", logits, [1.0, 0.0], 2, steps=Steps(5, size))
    np.testing.assert_allclose(found, mixed * (now - logits) / size, rtol=1e-6)


@pytest.mark.slow
def test_all_dtypes_and_batches_agree():
    """float32, a batch of points in one call, and a group that takes more than one block."""
    points = np.stack([LOGITS, LOGITS[::-1], np.zeros(3)]).astype(np.float32)
    objective = objectives.make("ips_grpo")
    many = jax.vmap(lambda z: mean_update(objective, z, jnp.float32(REWARDS), 33))(jnp.asarray(points))
    for point, update in zip(points, many, strict=True):
        np.testing.assert_allclose(update, exact("ips_grpo", point, group_size=33), atol=2e-6)


@pytest.mark.parametrize("group_size", [2, 5])
def test_carried_state_is_used(group_size):
    """Over a running mean that stays where it belongs, exact probabilities give the ideal flow in every group."""
    alpha = 0.5
    flow = flows.flow_velocity(LOGITS, REWARDS, alpha)
    mean_weight = (REWARDS * softmax(LOGITS) ** (1 - alpha)).sum()
    objective = objectives.make(f"ips_reinforce(alpha={alpha}, probability=exact)")
    (shaping,) = objective.reward_shaping
    objective = dataclasses.replace(objective, reward_shaping=(dataclasses.replace(shaping, decay=1 - 1e-6),))
    with jax.enable_x64(True):
        state = tuple(
            jax.tree.map(
                lambda leaf: jnp.full(leaf.shape, np.log(mean_weight)), objective.init(Bandit((0.0,) * 3).sizes)
            )
        )
        arrays = jnp.asarray(LOGITS, jnp.float64), jnp.asarray(REWARDS, jnp.float64)
        update = mean_update(objective, *arrays, group_size, objective_state=state)
    # Rewards and their running mean are float32 in the objective's code.
    np.testing.assert_allclose(update, flow / mean_weight, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["grpo", "ips_grpo(probability=exact)"])
def test_an_outcome_that_never_occurs_changes_nothing(text):
    without = exact(text, np.array([0.3, 0.1]), np.array([1.0, 0.2]), group_size=3)
    for rare in (-100.0, -np.inf) if text == "grpo" else (-np.inf,):
        update = exact(text, np.array([rare, 0.3, 0.1]), np.array([5.0, 1.0, 0.2]), group_size=3)
        np.testing.assert_allclose(update[1:], without, atol=1e-7)
        assert abs(update[0]) < 1e-30


@pytest.mark.slow
def test_best_answer_among_all_but_impossible_ones():
    """Float32 chances of 1e-48 are 0, and the update is that without the outcome."""
    objective, off_policy = objectives.make("critique_grpo"), OffPolicyAnswers(8)

    def field(logits, rewards):
        return mean_update(objective, jnp.float32(logits), jnp.float32(rewards), 3, off_policy=off_policy)

    for rare in (-110.0, -np.inf):
        for rewards in ([1.0, 0.3, 0.0], [0.3, 0.0, 1.0]):
            update = field([0.0, 0.0, rare], rewards)
            np.testing.assert_allclose(update, [*field([0.0, 0.0], rewards[:2]), 0.0], atol=1e-6)
            assert np.abs(update).max() > 0.01


def trained(objective, environment, logits, group_size, samples, **options):
    updates = sampled_updates(objective, environment, logits, 0 * logits, group_size, samples, **options)
    return np.asarray(updates, np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "steps"), [("ips_grpo(probability=exact)", None), ("dapo", Steps(3, 1.5))])
def test_tree_against_training_and_estimate(text, steps):
    """Several trajectories share an outcome: counts are of outcomes, probabilities need the backward policy."""
    objective, tree = objectives.make(text), Tree()
    logits = jax.random.normal(jax.random.key(0), (tree.num_observations, tree.vocabulary_size))
    rewards = jnp.asarray(tree.reward_table()[0])
    options = {"environment": tree, "steps": steps}
    update = mean_update(objective, logits, rewards, 3, **options)
    assert np.abs(update).max() > 0.05
    sampled = trained(objective, tree, logits, 3, 4000, steps=steps)
    error = sampled.std(axis=0, ddof=1) / math.sqrt(4000)
    # Rounding of logits over the step size.
    assert np.all(np.abs(sampled.mean(axis=0) - update) <= 4 * error + 2e-5)
    estimate = estimate_in_one_program(objective, logits, rewards, 3, jax.random.key(0), pairs=1000, **options)
    # Illegal actions have updates and errors of 0.
    assert np.all(np.abs(estimate.update - update) <= 4 * estimate.standard_error + 1e-7)
    assert estimate.standard_error.max() < 0.05


@pytest.mark.slow
def test_antithetic_estimate_knows_its_error():
    objective, z, r = objectives.make("ips_reinforce"), jnp.float32(LOGITS), jnp.float32(REWARDS)
    estimate = estimate_in_one_program(objective, z, r, 5, jax.random.key(0), pairs=4000)
    assert estimate.groups == 8000
    error = np.abs(estimate.update - exact("ips_reinforce", group_size=5))
    assert np.all(error < 4 * estimate.standard_error)
    assert np.all(estimate.standard_error > 0)
    few = jax.vmap(lambda key: estimate_in_one_program(objective, z, r, 5, key, pairs=2).update)
    spread = few(jax.random.split(jax.random.key(1), 500)).std(axis=0)
    np.testing.assert_allclose(estimate.standard_error, spread * math.sqrt(2 / 4000), rtol=0.15)


@pytest.mark.slow
def test_pairs_gain_whatever_the_order_of_the_arms():
    """The error of grpo with rewards 0, 1/2 and 1 is less than two thirds of that of independent groups."""
    objective = objectives.make("grpo")
    single = trained(objective, Bandit((0.0, 0.5, 1.0)), jnp.zeros((1, 3)), 8, 4000)[:, 0]
    for rewards in [(0.5, 0.0, 1.0), (0.0, 1.0, 0.5)]:
        arrays = jnp.zeros(3), jnp.float32(rewards)
        estimate = estimate_in_one_program(objective, *arrays, 8, jax.random.key(0), pairs=2000)
        assert np.linalg.norm(estimate.standard_error) < 2 / 3 * np.linalg.norm(single.std(axis=0)) / math.sqrt(4000)


def test_too_many_groups_are_refused_before_trajectories_are_computed(monkeypatch):
    monkeypatch.setattr(setting, "every_trajectory", None)
    with pytest.raises(ValueError, match="3 trajectories in groups of"):
        exact("grpo", group_size=LARGEST_GROUP_OF_THREE + 1)


def test_the_largest_group_of_three_can_be_enumerated():
    assert math.comb(LARGEST_GROUP_OF_THREE + 2, 2) <= MOST_GROUPS


@pytest.mark.slow
def test_a_coefficient_follows_the_entropy_of_earlier_batches():
    # The entropy is always below 5 nats: the first batch has no bonus, the next ones 0.05 and 0.1.
    path = expected_training(
        objectives.make("skywork_entropy(target=5, step=0.05)"), (1.0, 1.0, 0.0), ((0.5, 0.3, 0.2),), 3, Steps(1), 3
    )
    with jax.enable_x64(True):
        for batch, coefficient in enumerate((0.0, 0.05, 0.1)):
            same = objectives.make(f"grpo(entropy={coefficient})")
            update = jax.jit(lambda z, same=same: expected_update(same, z, np.array([1.0, 1.0, 0.0]), 3))(
                path[batch, 0]
            )
            np.testing.assert_allclose(path[batch + 1, 0] - path[batch, 0], 0.5 * update, rtol=1e-5)
