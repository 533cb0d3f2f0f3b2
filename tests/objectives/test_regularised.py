"""Entropies and divergences as rewards: gradients by central differences, optima in closed form; MARA; DPH-RL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bandit_means import advantages_of, logit_gradient, mean_push
from groups import all_groups, assert_close, random_rollouts, rollouts_of

from ipsrl.objectives import make
from ipsrl.objectives.diversity_rewards import ModeAnchor
from ipsrl.objectives.mastered_groups import MasteredDivergence, mastered_groups
from ipsrl.objectives.regularised_rewards import ReferenceDivergence, TsallisEntropy
from ipsrl.structures import PolicyScores, Sizes

LAW = np.array([0.2, 0.5, 0.3])
REFERENCE = np.array([0.6, 0.1, 0.3])
REWARDS = np.array([1.0, 0.2, 0.7])

# Tsallis entropies


def tsallis_entropy(law, q):
    return -(law * np.log(law)).sum() if q == 1 else (1 - (law**q).sum()) / (q - 1)


@pytest.mark.parametrize("q", [0.5, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("group", [2, 4])
def test_the_mean_update_is_the_gradient_of_return_and_entropy(q, group):
    push = mean_push(f"tsallis(q={q}, beta=0.4)", LAW, REWARDS, group)
    gradient = logit_gradient(lambda p: p @ REWARDS + 0.4 * tsallis_entropy(p, q), LAW)
    np.testing.assert_allclose(push * group / (group - 1), gradient, atol=2e-6)


def test_shannon_is_the_limit_of_tsallis():
    rollouts, _ = random_rollouts()
    for q in (0.999, 1.001):
        near = TsallisEntropy(0.5, q)(rollouts.rewards, rollouts)
        np.testing.assert_allclose(near, TsallisEntropy(0.5, 1.0)(rollouts.rewards, rollouts), rtol=0.02)


def test_bonuses_of_very_unlikely_answers_are_finite():
    rollouts = rollouts_of(np.full((1, 2, 400), -2.0))
    bonus = 0.5 / 0.5 * (np.exp(20.0) - 1)
    assert_close(TsallisEntropy(1.0, 0.5)(rollouts.rewards, rollouts), 1 + np.full((1, 2), bonus))
    assert_close(TsallisEntropy(1.0, 2.0)(rollouts.rewards, rollouts), np.full((1, 2), 3.0))
    assert_close(TsallisEntropy(1.0, 1.0)(rollouts.rewards, rollouts), np.full((1, 2), 801.0))


# f-divergences

GENERATORS = {
    "reverse_kl": lambda u: u * np.log(u),
    "forward_kl": lambda u: -np.log(u),
    "jensen_shannon": lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    "alpha": lambda u: (u**0.7 - 0.7 * u - 0.3) / (0.3 * -0.7),
}
ALPHA = dict.fromkeys(GENERATORS, "") | {"alpha": ", alpha=0.3"}
every_divergence = pytest.mark.parametrize("name", list(GENERATORS))


@every_divergence
def test_the_mean_update_is_the_gradient_of_return_and_divergence(name):
    push = mean_push(f"f_divergence(divergence={name}, beta=0.4{ALPHA[name]})", LAW, REWARDS, 3, REFERENCE)

    def value(p):
        return p @ REWARDS - 0.4 * REFERENCE @ GENERATORS[name](p / REFERENCE)

    np.testing.assert_allclose(push * 3 / 2, logit_gradient(value, LAW), atol=2e-6)


def test_a_divergence_looks_at_whole_answers():
    """log u = 0.5 + 0.25 of two tokens; what lies outside the mask is not even a number."""
    behaviour, reference = [[[-1.0, -1.0, np.nan]]], [[[-1.5, -1.25, 7.0]]]
    rollouts = rollouts_of(behaviour, [[[1, 1, 0]]], reference_log_probs=np.float32(reference))
    assert_close(ReferenceDivergence("reverse_kl", 2.0)(rollouts.rewards, rollouts), [[1 - 2 * 0.75]])
    assert_close(ReferenceDivergence("forward_kl", 2.0)(rollouts.rewards, rollouts), [[1 + 2 * np.exp(-0.75)]])


# MARA


@pytest.mark.parametrize(
    ("threshold", "rewards", "expected"),
    [
        (None, [1, 1, 0, 0.5], [1, 2, 0, 0.5]),
        (0.5, [1, 1, 0, 0.5], [0.75, 1.75, 0, 0.5]),
        (2.0, [1, 1, 0, 0.5], [1, 1, 0, 0.5]),
        (-1.0, [-0.5, -2, -1, -3], [-0.5, -2, 0, -3]),
        (None, [0, 0, 0, 0], [0, 0, 0, 0]),
        (None, [-1, -1, -2, -1], [-1, -1, -2, -1]),
    ],
)
def test_good_answers_are_anchored_at_the_one_the_reference_likes_best(threshold, rewards, expected):
    """beta = 1/2 and log pi_ref = -1, -3, -2, -1/2: sums over tokens, so that length counts."""
    reference = np.float32([[[-0.5, -0.5], [-2.5, -0.5], [-1.0, -1.0], [-0.5, 3.0]]])
    mask = [[[1, 1], [1, 1], [1, 1], [1, 0]]]
    rewards = np.float32([rewards])
    rollouts = rollouts_of(np.zeros((1, 4, 2)), mask, rewards=rewards, reference_log_probs=reference)
    assert_close(ModeAnchor(0.5, threshold)(jnp.asarray(rewards), rollouts), [expected])


def test_of_equally_liked_answers_the_best_is_the_anchor():
    rollouts = rollouts_of(np.zeros((1, 3, 1)), reference_log_probs=np.full((1, 3, 1), -2.0, np.float32))
    assert_close(ModeAnchor(0.5, 0.5)(jnp.array([[0.6, 0.9, 0.2]]), rollouts), [[0.9, 0.9, 0.2]])


def update_of_answers(text, log_law, parameters, log_reference, rewards, group):
    """Minus the mean gradient of the whole loss over all groups of K answers, `[K, T]` log-probabilities of tokens."""
    log_reference = jnp.float32(log_reference)
    groups = all_groups(len(log_reference), group)
    objective = make(text)

    def of_group(ids):
        def loss(parameters):
            log_probs = log_law(parameters)[ids][None]
            rollouts = rollouts_of(
                jax.lax.stop_gradient(log_probs),
                rewards=jnp.float32(rewards)[ids][None],
                outcome_id=ids[None],
                reference_log_probs=log_reference[ids][None],
            )
            output = objective(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts)
            return -output.loss_sum / output.count

        return jax.grad(loss)(parameters)

    law = np.exp(np.asarray(log_law(parameters), np.float64).sum(axis=-1))
    chances = law[groups].prod(axis=-1)
    gradients = jax.jit(jax.vmap(of_group))(jnp.asarray(groups))
    return [np.tensordot(chances, np.asarray(leaf, np.float64), 1) for leaf in jax.tree.leaves(gradients)]


def tree_law(logits):
    """Four answers of two tokens; the second move is drawn at the state that the first one led to."""
    first, second = (jax.nn.log_softmax(jnp.asarray(z)) for z in logits)
    return jnp.stack([jnp.repeat(first, 2), second.ravel()], axis=-1)


SKEWED_TREE = tree_law((np.log([0.7, 0.3]), np.log([[0.9, 0.1], [0.4, 0.6]])))


def test_mara_rests_at_the_uniform_law_over_good_answers_of_a_tree():
    """Answers of two tokens: the first token's gradient must know what the reference thinks of the second one."""
    text, rewards = "mara(beta=0.5, threshold=0.5)", [1.0, 0.7, 1.0, 0.6]
    for group in (2, 3):
        for leaf in update_of_answers(text, tree_law, (jnp.zeros(2), jnp.zeros((2, 2))), SKEWED_TREE, rewards, group):
            np.testing.assert_allclose(leaf, 0.0, atol=2e-6)
        skewed = (jnp.log(jnp.float32([0.7, 0.3])), jnp.log(jnp.float32([[0.9, 0.1], [0.4, 0.6]])))
        assert np.abs(update_of_answers(text, tree_law, skewed, SKEWED_TREE, rewards, group)[0]).max() > 1e-2


# DPH-RL


@pytest.mark.parametrize(
    ("divergence", "values", "gradient"),
    [
        # The policy has u = 2, 1/2 and 1 times the reference's probability; the samples weigh 1/2, 3 (of 4) and 1.
        ("forward_kl", [-0.5 * np.log(2), 3 * np.log(2), 0], [-0.5, -3, -1]),
        (
            "jensen_shannon",
            [0.5 * (2 * np.log(2) - 3 * np.log(1.5)), 3 * (-0.5 * np.log(2) - 1.5 * np.log(0.75)), 0],
            [np.log(4 / 3), 1.5 * np.log(2 / 3), 0],
        ),
    ],
)
def test_divergence_on_mastered_groups(divergence, values, gradient):
    reference = np.log(np.float32([[[0.2, 0.4, 0.1]]]))
    behaviour = np.log(np.float32([[[0.4, 0.1, 0.1]]]))
    policy = jnp.log(jnp.float32([[[0.4, 0.2, 0.1]]]))
    rollouts = rollouts_of(behaviour, reference_log_probs=reference)
    part = MasteredDivergence(0.1, divergence, ratio_limit=3.0)

    def total(log_probs):
        costs, metrics = part(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts)
        return costs.sum(), (costs, metrics)

    slope, (costs, metrics) = jax.grad(total, has_aux=True)(policy)
    assert_close(costs[0, 0], values)
    assert_close(slope[0, 0], gradient)
    assert_close(metrics["mastered_divergence"], (sum(values), 3))


def test_only_mastered_groups_are_held_and_they_learn_nothing():
    rewards = np.float32([[1, 0.5, 1, 2], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    rollouts = rollouts_of(np.full((4, 4, 1), -1.0), rewards=rewards, reference_log_probs=np.full((4, 4, 1), -1.0))
    for share, mastered in ((1.0, [1, 0, 0, 0]), (0.75, [1, 1, 0, 0]), (0.1, [1, 1, 1, 0])):
        objective = make(f"dph_rl(mastered_at={share}, eta=0.2)")
        weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(4)))
        assert_close(weights.coefficients[0][:, 0, 0], 0.2 * np.array(mastered))
        learned = advantages_of("grpo", rollouts) * (1 - np.array(mastered))[:, None]
        assert_close(weights.advantages[..., 0], learned)
        metrics = objective(PolicyScores(rollouts.behaviour_log_probs, jnp.zeros((4, 4, 1))), rollouts).metrics
        assert_close(metrics["mastered_groups"], (sum(mastered), 4))


@pytest.mark.parametrize(("share", "size", "needed"), [(0.55, 20, 11), (0.7, 10, 7), (0.3, 10, 3), (0.01, 4, 1)])
def test_a_share_is_reached_without_rounding_up(share, size, needed):
    rewards = jnp.float32(np.arange(size) < np.array([[needed - 1], [needed]]))
    assert mastered_groups(rewards, share).tolist() == [False, True]


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mara(beta=0.0)", "beta is 0.0, it must be positive and finite"),
        ("dph_rl(eta=-1.0)", "eta, the weight of the divergence, is -1.0, it must be finite and not negative"),
        (
            "dph_rl(mastered_at=0.0)",
            "mastered_at is 0.0, the share of correct answers must lie above 0 and ",
        ),
        ("dph_rl(ratio_limit=0.0)", "ratio_limit is 0.0, it must be positive and finite"),
        ("tsallis(q=0.0)", "q is 0.0, it must be positive and finite"),
        ("tsallis(beta=-0.1)", "beta is -0.1, it must be finite and not negative"),
        ("f_divergence(beta=-0.1)", "beta is -0.1, it must be finite and not negative"),
        (
            "f_divergence(divergence=alpha, alpha=1.0)",
            "alpha is 1.0, the alpha-divergence needs it strictly ",
        ),
        ("f_divergence(divergence=forward_kl, alpha=0.3)", "alpha=0.3 belongs to divergence=alpha: leave it out"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        make(text)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_threshold_that_is_no_finite_number_is_refused(number):
    with pytest.raises(ValueError, match=f"threshold is {number}, it must be finite$"):
        ModeAnchor(0.1, number)


@pytest.mark.parametrize("text", ["mara", "dph_rl", "f_divergence"])
def test_a_reference_is_needed(text):
    with pytest.raises(ValueError, match="needs reference_log_probs, which"):
        make(text).check(frozenset(), 4, Sizes(3))
