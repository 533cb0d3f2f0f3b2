"""The sampled gradient of every objective, averaged over all groups of a bandit, against theory in NumPy's float64.

What each objective's advantages are, the modules `rows_*.py` declare.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make, names
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.declared import ROWS
from tests.objectives.groups import all_groups, bandit_rollouts
from tests.objectives.halves import smallest_group
from tests.tiers import slow_unless

LOGITS = {2: np.array([0.3, -0.5], np.float32), 3: np.array([0.2, -0.6, 0.7], np.float32)}
DISTRIBUTION = {
    outcomes: np.exp(z.astype(np.float64)) / np.exp(z.astype(np.float64)).sum() for outcomes, z in LOGITS.items()
}
# No ties r_i / n_i^alpha = r_j / n_j^alpha; the last rewards hold a wrong outcome, for rules that ask what is correct.
REWARDS = {2: [(1.0, 0.13), (1.0, 0.0)], 3: [(1.0, 0.55, 0.13), (0.55, 1.0, 0.0)]}
SIZES = [(3, 5), (3, 2), (2, 8)]
"""Outcomes and samples of a group; the first says most."""


def counts_of_groups(outcomes, group):
    """The counts `[K]` of every group, without regard to order."""
    return [np.array(n) for n in np.ndindex(*(group + 1,) * outcomes) if sum(n) == group]


def expectation(row, outcomes, rewards, group):
    """`[K]`, the rule's mean update over the multinomial distribution of the counts of a group."""
    probs, rewards = DISTRIBUTION[outcomes], np.array(rewards)
    mean = np.zeros(outcomes) if row.more is None else row.more(probs, rewards)
    for counts in counts_of_groups(outcomes, group):
        chance = math.factorial(group) * np.prod([p**n / math.factorial(n) for p, n in zip(probs, counts, strict=True)])
        push = counts / group * row.advantages(counts, probs, rewards)
        mean += chance * (push - probs * push.sum())
    return mean


@functools.cache
@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def rollouts_of_all_groups(outcomes, rewards, group):
    """Rollouts of every group, each a batch of its own."""

    def rollouts(ids):
        return bandit_rollouts(ids[None], np.array(rewards, np.float32), jax.nn.log_softmax(LOGITS[outcomes]))

    return jax.vmap(rollouts)(all_groups(outcomes, group))


@functools.partial(jax.jit, static_argnames="objective")
def updates(objective, logits, rollouts):
    """`[groups, K]`, minus the gradient of the loss of each group on its own by the logits."""
    outcomes = len(logits)

    def update(rollouts):
        def loss(z):
            log_distribution = jax.nn.log_softmax(z)
            entropy = -(jnp.exp(log_distribution) * log_distribution).sum()
            scores = PolicyScores(
                log_distribution[rollouts.tokens],
                jnp.full(rollouts.tokens.shape, entropy),
                log_distribution[rollouts.top_tokens],
                mean_log_probs=jnp.full(rollouts.tokens.shape, log_distribution.mean()),
            )
            output = objective(scores, rollouts, Sizes(1, outcomes, 1 + outcomes, outcomes))
            return output.loss_sum / output.count

        return -jax.grad(loss)(logits)

    return jax.vmap(update)(rollouts)


def mean_update(text, outcomes, rewards, group):
    """`[K]`, the average of `updates` over all K^G groups with their probabilities."""
    sampled = updates(make(text), LOGITS[outcomes], rollouts_of_all_groups(outcomes, rewards, group))
    return DISTRIBUTION[outcomes][all_groups(outcomes, group)].prod(axis=-1) @ np.asarray(sampled, np.float64)


WITH_RULE = [text for text, row in ROWS.items() if not isinstance(row.advantages, str)]


@pytest.mark.parametrize(
    ("text", "outcomes", "group"),
    [
        pytest.param(text, *size, marks=[] if text in names() and size == SIZES[0] else pytest.mark.slow)
        for text in WITH_RULE
        for size in (SIZES if text in names() else SIZES[:1])
        if size[1] >= smallest_group(text)
    ],
)
def test_mean_update_is_the_enumerated_one(text, outcomes, group):
    # Held to a tenth of the size and of the tolerance: a single best answer of eight is rare, and beta2 is 0.001.
    scale = 0.1 if text == "a2po" or (text, group) == ("top_one", 8) else 1.0
    for rewards in REWARDS[outcomes]:
        expected = expectation(ROWS[text], outcomes, rewards, group)
        update = mean_update(text, outcomes, rewards, group)
        differs = f"rewards {rewards}: the mean update is not that of the advantages declared in the Row"
        np.testing.assert_allclose(update, expected, atol=1e-5 * scale, err_msg=differs)
    assert np.abs(expected).max() > 1e-3 * scale


@pytest.mark.parametrize("text", slow_unless(names(), WITH_RULE))
@pytest.mark.parametrize("size", [1e-7, 3e9])
def test_small_and_large_rewards_are_not_rounded_away(text, size):
    """Up to a rounding of the largest advantage of all groups, in which a constant or a bonus has a part."""
    if "_correction" in text:
        pytest.skip("its rewards are 0 and 1: beside the rate at which a verifier errs, smaller ones are rounding")
    if text.startswith("lpo") and "standardise=False" in text:
        pytest.skip("its rewards are added to log-probabilities, beside which smaller ones are rounding")
    outcomes, group = SIZES[0]
    row, rewards = ROWS[text], tuple(size * reward for reward in (1.0, 0.55, 0.0))
    groups = [
        (row.advantages(n, DISTRIBUTION[outcomes], np.array(rewards)), n) for n in counts_of_groups(outcomes, group)
    ]
    largest = max(np.abs(advantages[counts > 0]).max() for advantages, counts in groups)
    if row.more is not None:
        largest = max(largest, np.abs(row.more(DISTRIBUTION[outcomes], np.array(rewards))).max())
    expected = expectation(row, outcomes, rewards, group)
    np.testing.assert_allclose(mean_update(text, outcomes, rewards, group), expected, atol=1e-5 * largest)
