"""Groups for tests: random rollouts, a bandit whose groups can all be enumerated, and every walk of a tree."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.dynamics.expected_update import expected_update
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.objectives import make
from ipsrl.structures import PolicyScores, Rollouts, Sizes
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes


def sizes(prompts):
    """The sizes of an environment that `random_rollouts` could come from."""
    return synthetic_sizes(prompts)


def random_rollouts(seed=0, prompts=3, group=4, length=5, binary=True):
    """Rollouts with every optional field, and scores of a policy that has moved a little since."""
    return synthetic_rollouts(seed, prompts, group, length, binary)


def all_groups(outcomes, group):
    """`[outcomes ** group, group]`, every ordered group of outcomes."""
    return np.array(list(itertools.product(range(outcomes), repeat=group)))


SHARES = np.array([[0.5, 1.5], [1.6, 0.4], [1.0, 1.0], [0.7, 1.3]])
"""`[4, 2]`, two rewards of each outcome of a bandit as shares of their mean; rows repeat from the fifth outcome on."""


ARM_FEATURES = np.array([[1.0, 0.2, 0.0], [0.1, 0.3, 0.9], [0.4, 1.0, 0.3], [0.0, -0.5, 0.6]])
"""`[4, 3]`, the reference policy's last layer after each outcome of a bandit; rows repeat from the fifth outcome on."""


def parts_of(rewards):
    """`[P, G, 2]`, two rewards of each answer that grow with its reward, and have it as their mean."""
    return jnp.asarray(rewards, jnp.float32)[..., None] * SHARES[0].astype(np.float32)


def greedy_of(rewards):
    """`[P]`, that the greedy answer to each prompt is the first of its group."""
    return jnp.asarray(rewards, jnp.float32)[:, 0]


def bandit_rollouts(groups, rewards, log_distribution):
    """One-token rollouts of a bandit, one prompt for each row of `groups`."""
    ids = jnp.asarray(groups, jnp.int32)
    shape, outcomes = ids.shape, len(rewards)
    likeliest = jnp.argsort(-log_distribution)
    entropy = -(jnp.exp(log_distribution) * log_distribution).sum()
    return Rollouts(
        prompt_index=jnp.arange(shape[0]),
        observations=jnp.zeros((*shape, 1), jnp.int32),
        tokens=ids[..., None],
        token_mask=jnp.ones((*shape, 1), bool),
        behaviour_log_probs=log_distribution[ids][..., None],
        behaviour_entropy=jnp.full((*shape, 1), entropy),
        rewards=jnp.asarray(rewards, jnp.float32)[ids],
        outcome_id=ids,
        truncated=jnp.zeros(shape, bool),
        top_tokens=jnp.broadcast_to(likeliest, (*shape, 1, outcomes)),
        top_log_probs=jnp.broadcast_to(log_distribution[likeliest], (*shape, 1, outcomes)),
        log_backward=jnp.zeros(shape),
        step_log_backward=jnp.zeros((*shape, 1)),
        next_states=1 + ids[..., None],
        planning_mask=jnp.ones((*shape, 1), bool),
        step_rewards=jnp.asarray(rewards, jnp.float32)[ids][..., None],
        reward_parts=(jnp.float32(rewards)[:, None] * np.float32(np.resize(SHARES, (outcomes, 2))))[ids],
        greedy_rewards=jnp.full(shape[0], jnp.float32(rewards)[likeliest[0]]),
        answer_features=jnp.float32(np.resize(ARM_FEATURES, (outcomes, 3)))[ids],
        off_policy=jnp.zeros(shape, bool),
        reference_log_probs=jnp.full((*shape, 1), -jnp.log(outcomes)),
        proximal_log_probs=log_distribution[ids][..., None],
        proximal_mean_log_probs=jnp.full((*shape, 1), log_distribution.mean()),
        prompt_log_probs=jnp.log(jnp.full((shape[0], 2), 0.35)),
        prompt_mask=jnp.ones((shape[0], 2), bool),
        question_mask=jnp.ones((shape[0], 2), bool),
        keys=jax.random.split(jax.random.key(0), shape[0]),
    )


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


def rollouts_of(behaviour, mask=None, **fields):
    """Rollouts with the given log-probabilities `[P, G, T]`; rewards are 1 and outcomes 0 unless given."""
    behaviour = jnp.asarray(behaviour, jnp.float32)
    group_shape = behaviour.shape[:2]
    fields = {
        "prompt_index": np.arange(group_shape[0], dtype=np.int32),
        "observations": np.zeros(behaviour.shape, np.int32),
        "tokens": np.zeros(behaviour.shape, np.int32),
        "token_mask": np.ones(behaviour.shape, bool) if mask is None else np.asarray(mask, bool),
        "behaviour_log_probs": behaviour,
        "behaviour_entropy": np.zeros(behaviour.shape, np.float32),
        "rewards": np.ones(group_shape, np.float32),
        "outcome_id": np.zeros(group_shape, np.int32),
        "truncated": np.zeros(group_shape, bool),
    } | fields
    # Made by NumPy: what JAX makes outside a program is compiled on its own.
    return Rollouts(**{name: jnp.asarray(values) for name, values in fields.items()})


def rewarded(rewards, **fields):
    """Rollouts of one-token answers with these rewards `[P, G]`."""
    rewards = np.asarray(rewards, np.float32)
    return rollouts_of(np.zeros((*rewards.shape, 1)), rewards=rewards, **fields)


def of_lengths(lengths, value=0.0, **fields):
    """One group of answers of so many tokens, with equal log-probabilities, or with those of each answer."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return rollouts_of(np.broadcast_to(value, mask.shape)[None], mask[None], **fields)


def scores_of(log_probs):
    """Scores with these log-probabilities, and no entropy."""
    return PolicyScores(log_probs, jnp.zeros_like(log_probs))


def shaped(part, rewards, **fields):
    """The new rewards of one group of answers, of one token each unless `behaviour` says more."""
    rewards = jnp.asarray([rewards], jnp.float32)
    fields = {name: np.asarray([values]) for name, values in fields.items()}
    behaviour = fields.pop("behaviour", np.zeros((*rewards.shape, 1)))
    return part(rewards, rollouts_of(behaviour, rewards=rewards, **fields))[0]


def by_log_probs(part, log_probs, rollouts, *advantages):
    """Values of a surrogate or a penalty, their gradient by the policy's log-probabilities, and metrics."""

    def total(log_probs):
        values, metrics = part(scores_of(log_probs), rollouts, *advantages)
        return values.sum(), (values, metrics)

    gradient, (values, metrics) = jax.grad(total, has_aux=True)(jnp.asarray(log_probs, jnp.float32))
    return values, gradient, metrics


@functools.partial(jax.jit, static_argnames="objective")
def first_advantages(objective, rollouts):
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(len(rollouts.rewards))))
    return weights.advantages


def token_advantages(text, rollouts):
    """`[P, G, T]`, the weights that an objective gives to tokens in its first batch."""
    return np.asarray(first_advantages(make(text), rollouts))


def weighed_in_turn(text, batches, **sizes):
    """Advantages `[P, G]` of the last of several batches of one-token answers, and the state and metrics after it."""
    objective = make(text)
    state = objective.init(Sizes(**sizes))
    for batch in batches:
        weights, state, metrics = objective.weigh(batch, state)
    return np.asarray(weights.advantages[..., 0]), state, metrics


def advantages_of(text, rollouts):
    """`[P, G]`, the weights of one-token answers, in float64."""
    return np.float64(token_advantages(text, rollouts)[..., 0])


mean_update = jax.jit(
    expected_update, static_argnames=("objective", "group_size", "environment", "off_policy", "steps")
)
"""Exact mean updates, each by one program: outside of one, what `expected_update` prepares is a hundred programs."""


def every_walk(tree, table=None):
    """Rollouts of one group that holds every walk of the tree once, under a policy `[S, V]` of log-probabilities.

    By default a random one.
    """
    if table is None:
        table = jax.random.normal(jax.random.key(0), (tree.num_observations, tree.vocabulary_size))
    trajectories = every_trajectory(tree, table)
    return Rollouts.of(trajectories, tree.verify(trajectories))
