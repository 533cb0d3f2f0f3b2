"""The sampled gradient of every objective, averaged over all groups of a bandit, against theory in NumPy's float64.

The logits' update of a group of a softmax bandit is, whatever the objective, phat_i A_i - p_i sum_k phat_k A_k with its
advantages A_i of the outcomes in the group, so `RULES` says of each objective only what its advantages are. A row of
the catalog that is missing there fails until it declares its rule.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from groups import all_groups, bandit_rollouts

from ipsrl.objectives import make, names
from ipsrl.structures import PolicyScores

LOGITS = {2: np.array([0.3, -0.5], np.float32), 3: np.array([0.2, -0.6, 0.7], np.float32)}
LAW = {outcomes: np.exp(z.astype(np.float64)) / np.exp(z.astype(np.float64)).sum() for outcomes, z in LOGITS.items()}
REWARDS = {2: [(1.0, 0.13)], 3: [(1.0, 0.55, 0.13), (0.55, 1.0, 0.0)]}  # no ties r_i / n_i^alpha = r_j / n_j^alpha
SIZES = [(3, 2), (3, 3), (3, 5), (2, 8)]


def by_counts(counts, law, rewards, alpha=1.0, floor=0.0):
    return rewards / np.maximum(counts / counts.sum(), floor or 1e-9) ** alpha * (counts > 0)


def by_law(counts, law, rewards, alpha=1.0):
    weights = rewards / law**alpha
    mean = (counts * weights).sum() / counts.sum()
    return weights / mean if mean > 0 else 0 * weights


def centred(counts, values):
    return values - (counts * values).sum() / counts.sum()


def standardised(counts, values, unbiased=False):
    centre = centred(counts, values)
    std = math.sqrt((counts * centre**2).sum() / (counts.sum() - unbiased))
    return centre / std if std > 1e-9 else 0 * values


def shifted(counts, law, rewards, alpha=0.3):
    """ARM with prompt confidence 0.35; the confidence in a one-token answer is its probability."""
    shift = alpha * (0.35 - law) if (counts * rewards).any() else 0.0
    return standardised(counts, rewards) + shift


def shifted_to_correct(counts, law, rewards):
    correct = counts * (rewards > 0)
    level = (correct * law).sum() / max(correct.sum(), 1)
    shift = 0.3 * (level - law) if correct.any() else 0.0
    return standardised(counts, rewards) + shift


RULES = {
    "reinforce": lambda n, p, r: r,
    "dr_grpo": lambda n, p, r: centred(n, r),
    "grpo": lambda n, p, r: standardised(n, r),
    "grpo(unbiased_std=True)": lambda n, p, r: standardised(n, r, unbiased=True),
    "ips_reinforce": lambda n, p, r: by_counts(n, p, r),
    "ips_reinforce(alpha=0.5, floor=0.3)": lambda n, p, r: by_counts(n, p, r, 0.5, 0.3),
    "ips_reinforce(alpha=0.5, probability=exact)": lambda n, p, r: by_law(n, p, r, 0.5),
    "ips_dr_grpo": lambda n, p, r: centred(n, by_counts(n, p, r)),
    "ips_dr_grpo(alpha=2.0)": lambda n, p, r: centred(n, by_counts(n, p, r, 2.0)),
    "ips_dr_grpo(probability=exact)": lambda n, p, r: centred(n, by_law(n, p, r)),
    "ips_grpo": lambda n, p, r: standardised(n, by_counts(n, p, r)),
    "ips_grpo(floor=0.3)": lambda n, p, r: standardised(n, by_counts(n, p, r, 1.0, 0.3)),
    "ips_grpo(probability=exact)": lambda n, p, r: standardised(n, by_law(n, p, r)),
    "progrpo": shifted,
    "progrpo(reference=correct)": shifted_to_correct,
}


def expectation(rule, outcomes, rewards, group):
    """`[K]`, the rule's mean update over the multinomial law of the counts of a group."""
    law, mean = LAW[outcomes], np.zeros(outcomes)
    vectors = [n for n in np.ndindex(*(group + 1,) * outcomes) if sum(n) == group]
    for counts in map(np.array, vectors):
        chance = math.factorial(group) * np.prod([p**n / math.factorial(n) for p, n in zip(law, counts, strict=True)])
        push = counts / group * rule(counts, law, np.array(rewards))
        mean += chance * (push - law * push.sum())
    return mean


@functools.partial(jax.jit, static_argnames="objective")
def updates(objective, logits, rewards, groups):
    """`[groups, K]`, minus the gradient of the loss of each group on its own by the logits."""

    def update(ids):
        def loss(z):
            log_law = jax.nn.log_softmax(z)
            entropy = -(jnp.exp(log_law) * log_law).sum()
            scores = PolicyScores(log_law[ids][None, :, None], jnp.full((1, len(ids), 1), entropy))
            output = objective(scores, bandit_rollouts(ids[None], rewards, jax.nn.log_softmax(logits)))
            return output.loss_sum / output.count

        return -jax.grad(loss)(logits)

    return jax.vmap(update)(groups)


def mean_update(text, outcomes, rewards, group):
    """`[K]`, the average of `updates` over all K^G groups with their probabilities."""
    groups = all_groups(outcomes, group)
    sampled = updates(make(text), LOGITS[outcomes], np.array(rewards, np.float32), groups)
    return LAW[outcomes][groups].prod(axis=-1) @ np.asarray(sampled, np.float64)


@pytest.mark.parametrize("name", names())
def test_every_row_of_the_catalog_declares_its_rule(name):
    assert name in RULES, f"add {name!r} to RULES: its advantages on a bandit, from counts, law and rewards"


@pytest.mark.parametrize(
    ("text", "outcomes", "group"),
    [(text, *size) for text in RULES for size in (SIZES if text in names() else [(3, 5)])],
)
def test_mean_update_is_the_enumerated_one(text, outcomes, group):
    for rewards in REWARDS[outcomes]:
        expected = expectation(RULES[text], outcomes, rewards, group)
        np.testing.assert_allclose(mean_update(text, outcomes, rewards, group), expected, atol=1e-5)
        assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize(("outcomes", "group"), SIZES)
def test_expected_return_follows_its_closed_form(outcomes, group):
    """No baseline: p_i (r_i - mean return). The group's mean as baseline costs a factor (G - 1) / G."""
    law, rewards = LAW[outcomes], np.array(REWARDS[outcomes][0])
    flow = law * (rewards - law @ rewards)
    np.testing.assert_allclose(mean_update("reinforce", outcomes, rewards, group), flow, atol=1e-5)
    np.testing.assert_allclose(mean_update("dr_grpo", outcomes, rewards, group), (group - 1) / group * flow, atol=1e-5)


@pytest.mark.parametrize(("alpha", "floor"), [(1.0, 0.0), (0.5, 0.3)])
@pytest.mark.parametrize(("outcomes", "group"), [(3, 5), (2, 8)])
def test_rule_without_baseline_follows_its_mean_weight(alpha, floor, outcomes, group):
    """p_i (r_i w_G(p_i) - S), w_G(p) = E[omega(1 + B)], B ~ Binomial(G - 1, p); (1 - (1 - p)^G) / p at alpha = 1."""
    law, rewards = LAW[outcomes], np.array(REWARDS[outcomes][0])
    if alpha == 1.0:
        weight = (1 - (1 - law) ** group) / law
    else:
        weight = sum(
            math.comb(group - 1, n) * law**n * (1 - law) ** (group - 1 - n) / max((1 + n) / group, floor) ** alpha
            for n in range(group)
        )
    push = law * rewards * weight
    text = "ips_reinforce" if alpha == 1.0 else f"ips_reinforce(alpha={alpha}, floor={floor})"
    np.testing.assert_allclose(mean_update(text, outcomes, rewards, group), push - law * push.sum(), atol=1e-5)


@pytest.mark.parametrize("group", [3, 5])
def test_the_baseline_costs_one_sample(group):
    """At alpha = 1 the mean field with a group mean is that without a baseline in a group that is smaller by one."""
    rewards = REWARDS[3][0]
    with_baseline = mean_update("ips_dr_grpo", 3, rewards, group)
    np.testing.assert_allclose(with_baseline, mean_update("ips_reinforce", 3, rewards, group - 1), atol=1e-5)


@pytest.mark.parametrize("text", ["grpo", "ips_grpo", "ips_grpo(alpha=0.5)", "ips_grpo(alpha=2.0)"])
def test_with_two_outcomes_a_standardised_step_knows_only_the_sign(text):
    """sqrt(phat_1 phat_2) sign(Rt_1 - Rt_2), and nothing at a tie: r = (4, 1) with counts 4 and 1, for example."""
    alpha = 0.0 if text == "grpo" else make(text).reward_shaping[0].alpha
    groups = all_groups(2, 5)
    first = (groups == 0).mean(axis=-1)
    for rewards in [(4.0, 1.0), (0.6, 0.9), (1.3, 1.3 * 4**alpha), (0.7, 0.7 * 1.5**alpha)]:
        with np.errstate(divide="ignore"):
            gap = rewards[0] / first**alpha - rewards[1] / (1 - first) ** alpha
        step = np.where(np.abs(gap) < 1e-9, 0.0, np.sqrt(first * (1 - first)) * np.sign(gap))
        sampled = updates(make(text), LOGITS[2], np.array(rewards, np.float32), groups)
        np.testing.assert_allclose(sampled, np.stack([step, -step], axis=-1), atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_exact_probabilities_give_the_ideal_flow_in_every_group_size(alpha):
    """r_i p_i^(1 - alpha) - p_i sum_k r_k p_k^(1 - alpha), over a running mean that stays at its limit, E[w]."""
    law, rewards = LAW[3], np.array(REWARDS[3][0])
    push = rewards * law ** (1 - alpha)
    mean_weight = push.sum()
    objective = make(f"ips_reinforce(alpha={alpha}, probability=exact)")
    settled = dataclasses.replace(objective.reward_shaping[0], decay=1 - 1e-6)
    for group in (2, 5):
        groups = all_groups(3, group)
        rollouts = bandit_rollouts(groups, rewards, jax.nn.log_softmax(LOGITS[3]))
        advantages, _ = jax.jit(settled.carry)(
            rollouts.rewards, rollouts, np.full(len(groups), np.log(mean_weight), np.float32)
        )
        scores = np.eye(3)[groups] - law
        update = np.einsum("n,ng,ngk->k", law[groups].prod(axis=-1), np.float64(advantages), scores) / group
        np.testing.assert_allclose(update, (push - law * push.sum()) / mean_weight, atol=1e-5)
