import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make, names
from ipsrl.objectives.corrections import Masked, SequenceMask, Truncated
from ipsrl.structures import Rollouts, Sizes
from tests.objectives.groups import all_groups, bandit_rollouts, random_rollouts, rollouts_of, scores_of, sizes

# pi_old / mu of the tokens of two answers; the second has one token. Geometric means: 0.7937, 3.
RATIOS = np.array([[[4.0, 0.5, 0.25], [3.0, 1.0, 1.0]]])
MASK = np.array([[[1, 1, 1], [1, 0, 0]]], bool)


def by_ratios(ratios=RATIOS, mask=MASK, behaviour=0.2):
    """Garbage lies behind the mask."""
    behaviour = np.where(mask, np.log(behaviour), np.nan)
    proximal = behaviour + np.log(ratios)
    return rollouts_of(behaviour, mask, proximal_log_probs=np.float32(proximal))


@pytest.mark.parametrize(
    ("correction", "weights", "changed"),
    [
        (Truncated(2.0), [2.0, 0.5, 0.25, 2.0], 2),
        (Truncated(3.5), [3.5, 0.5, 0.25, 3.0], 1),
        (Truncated(2.0, "sequence"), [0.5, 0.5, 0.5, 2.0], 1),
        (Masked(0.3, 3.5), [0.0, 0.5, 0.0, 3.0], 2),
        (Masked(0.6, 3.5, "sequence"), [0.0, 0.0, 0.0, 3.0], 3),
        (Masked(0.4, 2.0, "sequence"), [0.5, 0.5, 0.5, 0.0], 1),
        (Masked(0.7, 2.0, "geometric"), [4.0, 0.5, 0.25, 0.0], 1),
        (Masked(0.8, 5.0, "geometric"), [0.0, 0.0, 0.0, 3.0], 3),
    ],
)
def test_weights_by_hand(correction, weights, changed):
    found, metrics = correction(None, by_ratios(), None)
    np.testing.assert_allclose(found[MASK], weights, rtol=1e-6)
    assert metrics["correction_weight"] == (pytest.approx(sum(weights)), 4)
    assert metrics["correction_fraction"] == (changed, 4)


def test_the_sequence_mask_by_hand():
    """Means of log(mu / pi): 0.3, 0.2, 0.3; only the first is above 0.25 and has a negative advantage."""
    behind = np.array([[[0.6, 0.0], [0.2, 9.0], [0.0, 0.6]]], np.float32)
    mask = np.array([[[1, 1], [1, 0], [1, 1]]], bool)
    rollouts = rollouts_of(np.where(mask, -1.0, np.nan), mask)
    advantages = jnp.array([-1.0, -1.0, 0.5])[None, :, None] * jnp.ones((1, 3, 2))
    scores = scores_of(-1.0 - behind)
    weight, metrics = SequenceMask(0.25)(scores, rollouts, advantages)
    np.testing.assert_array_equal(weight[mask], [0, 0, 1, 1, 1])
    assert metrics["correction_fraction"] == (2, 5)
    assert (SequenceMask(0.35)(scores, rollouts, advantages)[0] == 1).all()


def test_ratios_far_away_are_clamped():
    weight, _ = Truncated(1e30)(None, by_ratios(np.full(RATIOS.shape, 1e30)), None)
    np.testing.assert_allclose(weight[MASK], np.exp(20.0), rtol=1e-5)


EACH = ("truncated", "masked(level=geometric)", "sequence_mask(delta=0.5)")


def with_correction(name, text):
    return dataclasses.replace(make(name), correction=make(f"grpo(correction={text})").correction)


def loss_and_slope(objective, rollouts, scores):
    weights, _, _ = objective.weigh(rollouts, objective.init(sizes(3)))

    def loss(log_probs):
        now = dataclasses.replace(scores, log_probs=log_probs)
        return objective.loss(now, rollouts, weights, objective.init_parameters(sizes(3))).loss_sum

    return jax.value_and_grad(loss)(scores.log_probs)


@pytest.mark.parametrize("text", EACH)
@pytest.mark.parametrize(
    "name", ["reinforce", "grpo", "gspo", "cispo", "bapo", "ips_grpo", "grpo(kl=corrected_k3(0.1))"]
)
def test_where_both_programs_agree_nothing_changes(name, text):
    rollouts, scores = random_rollouts()
    rollouts = dataclasses.replace(rollouts, proximal_log_probs=rollouts.behaviour_log_probs)
    if text.startswith("sequence_mask"):
        scores = dataclasses.replace(scores, log_probs=rollouts.behaviour_log_probs)
    jax.tree.map(
        np.testing.assert_array_equal,
        loss_and_slope(with_correction(name, text), rollouts, scores),
        loss_and_slope(make(name), rollouts, scores),
    )


@pytest.mark.parametrize(
    "name", ["grpo(clip=0.1)", "gspo(clip=0.1)", "dcpo(clip=0.02)", "grpo(kl=corrected_k3(0.1))", "kl_cov"]
)
def test_ratios_and_clips_are_those_to_the_trainer(name):
    """A sampler that is off by one factor for each answer multiplies the values, and moves no clip."""
    rollouts, scores = random_rollouts()
    factor = np.linspace(0.7, 1.4, 12).reshape(3, 4, 1)
    rollouts = dataclasses.replace(rollouts, proximal_log_probs=rollouts.behaviour_log_probs)
    if make(name).penalties:
        factor = np.full((1, 1, 1), 1.3)
    off = dataclasses.replace(rollouts, behaviour_log_probs=rollouts.behaviour_log_probs - jnp.log(factor))
    objective, plain = with_correction(name, "truncated(9.0)"), make(name)
    weights = dict.fromkeys((plain, objective), plain.weigh(rollouts, plain.init(sizes(3)))[0])

    def slope(objective, rollouts):
        def loss(log_probs):
            now = dataclasses.replace(scores, log_probs=log_probs)
            return objective.loss(now, rollouts, weights[objective]).loss_sum

        return jax.grad(loss)(scores.log_probs)

    of_penalties = 0.0
    if plain.penalties:
        only = dataclasses.replace(plain, surrogate=Nothing())
        weights[only] = weights[plain]
        of_penalties = slope(only, rollouts)
    expected = factor * (slope(plain, rollouts) - of_penalties) + of_penalties
    np.testing.assert_allclose(slope(objective, off), expected, atol=1e-6)
    assert np.abs(slope(plain, off) - expected).max() > 1e-3


def test_sums_over_a_mini_batch_are_of_ratios_to_the_trainer():
    rollouts, scores = random_rollouts()
    plain, corrected = make("bapo"), with_correction("bapo", "truncated")
    weights, _, _ = plain.weigh(rollouts, plain.init(sizes(3)))
    of_trainer = dataclasses.replace(rollouts, behaviour_log_probs=rollouts.proximal_log_probs)
    found, expected, otherwise = (
        jax.tree.leaves(objective.statistics(scores, batch, weights))
        for objective, batch in ((corrected, rollouts), (plain, of_trainer), (plain, rollouts))
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert not np.allclose(found[0], otherwise[0])


class Nothing(type(make("reinforce").surrogate)):
    def __call__(self, scores, rollouts, advantages):
        return 0.0 * advantages, {}


# All groups of a bandit: the mean gradient where one program samples and another is trained.

LOGITS = np.array([0.2, -0.6, 0.7], np.float32)
SAMPLER = np.array([-0.3, -0.6, 1.4], np.float32)
"""Logits of the program that samples: pi / mu is 2.3, 1.4 and 0.7, so that a clip at 0.2 acts."""
REWARDS = np.array([1.0, 1.0, 0.0], np.float32)


@functools.partial(jax.jit, static_argnames=("objective", "group"))
def gradient_over_groups(objective, logits, sampler, group):
    groups = all_groups(3, group)
    mu, pi = jax.nn.log_softmax(sampler), jax.nn.log_softmax(logits)
    rollouts = bandit_rollouts(groups, REWARDS, mu)
    rollouts = dataclasses.replace(rollouts, proximal_log_probs=pi[groups][..., None])
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(len(groups), 3, 4, 3)))
    chances = jnp.exp(mu[groups].sum(axis=-1))
    weights = dataclasses.replace(weights, advantages=weights.advantages * chances[:, None, None])

    def loss(logits):
        log_probs = jax.nn.log_softmax(logits)[groups][..., None]
        output = objective.loss(scores_of(log_probs), rollouts, weights)
        return output.loss_sum / group

    return -jax.grad(loss)(logits)


def mean_gradient(text, logits=LOGITS, sampler=SAMPLER, group=3):
    """`[K]`, the mean ascent direction over all groups of the sampler."""
    return np.asarray(gradient_over_groups(make(text), logits, sampler, group))


@pytest.mark.parametrize("text", ["reinforce", "dr_grpo(aggregation=sequence_sum)", "rloo"])
def test_without_a_cap_the_gradient_has_no_bias(text):
    """The mean over the sampler's groups is that over the trainer's own; without a correction it is another."""
    corrected = text.removesuffix(")") + (", " if ")" in text else "(") + "correction=truncated(1e9))"
    own = mean_gradient(text, sampler=LOGITS)
    np.testing.assert_allclose(mean_gradient(corrected), own, atol=1e-6)
    assert np.abs(mean_gradient(text) - own).max() > 0.01
    # A cap and a mask have one.
    for biased in ("truncated(1.2)", "masked(0.5, 2.0)"):
        assert np.abs(mean_gradient(corrected.replace("truncated(1e9)", biased)) - own).max() > 0.01


@functools.partial(jax.jit, static_argnames="objective")
def tree_gradients(objective):
    """`[2, 3]`, mean ascent directions of two-token answers, by the logits of the first and of the second token (one
    bit each; the second does not see the first); and the exact one.
    """
    answers = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    rewards = np.array([1.0, 0.0, 0.0, 0.5], np.float32)
    mu, pi = (jax.nn.log_softmax(jnp.asarray(one)) for one in ([[0.4, -0.3], [-0.2, 0.5]], [[-0.1, 0.2], [0.6, 0.1]]))

    def of_tokens(table):
        return jnp.stack([table[0, answers[:, 0]], table[1, answers[:, 1]]], axis=-1)[:, None]

    rollouts = rollouts_of(of_tokens(mu), rewards=rewards[:, None], proximal_log_probs=of_tokens(pi))
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(4)))
    chances = jnp.exp(of_tokens(mu).sum(axis=-1))
    weights = dataclasses.replace(weights, advantages=weights.advantages * chances[..., None])

    def loss(table):
        log_probs = of_tokens(jax.nn.log_softmax(table))
        return objective.loss(scores_of(log_probs), rollouts, weights).loss_sum

    def expected_return(table):
        return (rewards * jnp.exp(of_tokens(jax.nn.log_softmax(table)).sum(axis=(1, 2)))).sum()

    return -jax.grad(loss)(pi), jax.grad(expected_return)(pi)


def test_in_longer_answers_only_the_sequence_has_no_bias():
    found, exact = tree_gradients(make("reinforce(correction=truncated(1e9, level=sequence))"))
    np.testing.assert_allclose(found, exact, atol=1e-6)
    # Weights of tokens can even lead further away than none: here the first token's lacks that of the second.
    by_token, _ = tree_gradients(make("reinforce(correction=truncated(1e9))"))
    plain, _ = tree_gradients(make("reinforce"))
    assert np.abs(by_token - exact).max() > np.abs(plain - exact).max() > 0.01


REFUSING = """
    kimi_mirror_descent trajectory_balance vargrad detailed_balance subtrajectory_balance flowrl reinvent gvpo a2po
    rover dpo f_dpo rpo ipo lpo
"""
ALL_FIELDS = frozenset(field.name for field in dataclasses.fields(Rollouts))


@pytest.mark.parametrize("name", names())
def test_rows_whose_loss_is_not_proportional_to_advantages_refuse(name):
    objective = with_correction(name, "sequence_mask(0.1)")
    if name not in REFUSING.split():
        return objective.check(ALL_FIELDS, 8, sizes(3))
    with pytest.raises(
        ValueError, match=r"^the loss of the objective is not proportional .*: leave the correction out$"
    ):
        objective.check(ALL_FIELDS, 8, sizes(3))
