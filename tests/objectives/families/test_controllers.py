import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.entropy import AdaptiveEntropyBonus, EntropyBand, EntropyFloor, mean_entropy
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, random_rollouts, rollouts_of, weighed_in_turn


def batch_of(entropy, rewards=((0.0, 0.0),)):
    """Rollouts with one valid token and one of padding per answer, the valid ones with this mean entropy."""
    rewards = jnp.asarray(rewards, jnp.float32)
    entropies = np.full((*rewards.shape, 2), 7.0, np.float32)
    entropies[:, 0, 0], entropies[:, 1:, 0] = entropy * 0.5, entropy * 1.5
    mask = np.broadcast_to([True, False], entropies.shape)
    return rollouts_of(np.zeros(entropies.shape), mask, behaviour_entropy=entropies, rewards=rewards)


def states(part, entropies):
    state = part.init(Sizes(1))
    for entropy in entropies:
        rollouts = batch_of(entropy)
        coefficients, state = part.update_state(rollouts, jnp.zeros((1, 2, 2)), state)
        yield coefficients, state


ENTROPIES = [1, 0.6, 0.39, 0.2, 0.3, 0.45, 0.41]


@pytest.mark.parametrize(
    ("part", "alphas"),
    [
        (AdaptiveEntropyBonus(), [0, 0, 0.005, 0.010, 0.015, 0.010, 0.005]),
        (AdaptiveEntropyBonus(step="proportional", eta=0.02), [0, 0, 0.0002, 0.0042, 0.0062, 0.0052, 0.0050]),
        (AdaptiveEntropyBonus(alpha_max=0.007), [0, 0, 0.005, 0.007, 0.007, 0.002, 0]),
        (AdaptiveEntropyBonus(0.01, tau=0.25), [0.005, 0, 0, 0.005, 0, 0, 0]),
    ],
)
def test_alpha_follows_the_entropy(part, alphas):
    """The target is tau times the first entropy, 1; each batch gets the alpha that the one before has left."""
    found = list(states(part, ENTROPIES))
    assert_close([state["alpha"] for _, state in found], alphas)
    assert_close([state["first_entropy"] for _, state in found], np.ones(7))
    assert_close([coefficients[0, 0, 0] for coefficients, _ in found], [part.coefficient, *alphas[:-1]])


@pytest.mark.parametrize(
    ("weight", "rho", "expected"),
    [
        ("indicator", 0.5, [1, 1, 1, 0]),
        ("indicator", 0.25, [1, 1, 0, 0]),
        ("linear", 0.5, [1, 0.5, 0, 0]),
        ("complement", 0.5, [1, 0.75, 0.5, 0]),
    ],
)
def test_hard_prompts_get_the_bonus(weight, rho, expected):
    """Accuracies are 0, 1/4, 1/2 and 1; a small reward is a reward."""
    rewards = [[0, 0, 0, 0], [0, 0.1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]]
    part = AdaptiveEntropyBonus(0.01, weight=weight, rho=rho)
    coefficients, _ = part.update_state(batch_of(0.4, rewards), jnp.zeros((4, 4, 2)), part.init(Sizes(4)))
    assert_close(coefficients, 0.01 * np.reshape(expected, (4, 1, 1)))


def test_a_share_of_exactly_rho_is_hard_in_every_group_size():
    """3 of 15 as a float32 is above 0.2, 0.3 * 10 as a float64 is 3."""
    for correct, group, rho in ((3, 15, 0.2), (3, 10, 0.3), (6, 20, 0.3), (7, 10, 0.7), (9, 15, 0.6)):
        part = AdaptiveEntropyBonus(0.01, rho=rho)
        counts = jnp.array([correct, correct + 1])
        assert part.weight_of(counts, group).tolist() == [1.0, 0.0]
        rewards = jnp.asarray(np.arange(group) < np.array(counts)[:, None], jnp.float32)
        coefficients, _ = jax.jit(part.update_state)(
            batch_of(0.4, rewards), jnp.zeros((2, group, 2)), part.init(Sizes(2))
        )
        assert_close(coefficients.ravel(), [0.01, 0.0])


def test_correct_is_what_lies_above_the_threshold():
    """Where every reward is positive, one of 0 takes every prompt for solved."""
    rewards = [[0.1, 0.6, 0.1, 0.6], [0.1, 0.1, 0.1, 0.1], [2.6, 2.6, 0.6, 0.1]]
    for threshold, expected in ((0.0, [0, 0, 0]), (0.5, [0.01, 0.01, 0]), (0.6, [0.01, 0.01, 0.01])):
        part, batch = AdaptiveEntropyBonus(0.01), dataclasses.replace(batch_of(0.4, rewards), right_above=threshold)
        coefficients, _ = part.update_state(batch, jnp.zeros((3, 4, 2)), part.init(Sizes(3)))
        assert_close(coefficients.ravel(), expected)


def watched(text, rollouts, batches=2):
    """Metrics of the last of several equal batches."""
    _, _, metrics = weighed_in_turn(text, [rollouts] * batches, num_prompts=len(rollouts.rewards))
    return {name: float(total / count) for name, (total, count) in metrics.items()}


def test_controllers_can_be_watched():
    rollouts, _ = random_rollouts()
    entropy = float(mean_entropy(rollouts))
    metrics = watched("aer(tau=2.0, alpha=(0.01, 0.02))", rollouts)
    assert_close(metrics["entropy_alpha"], 0.02)
    assert_close(metrics["entropy_target"], 2.0 * entropy)
    assert_close(metrics["behaviour_entropy"], entropy)
    metrics = watched("entrocraft(steps=2)", rollouts)
    assert_close([metrics["entropy_band_low"], metrics["entropy_band_high"]], [0.35, 0.45])
    difference = np.where(rollouts.token_mask, rollouts.behaviour_log_probs - rollouts.reference_log_probs, 0.0)
    divergence = difference.sum() / rollouts.rewards.size
    metrics = watched("grpo(kl=k3(0.1, target=50.0, place=reward))", rollouts)
    assert_close(metrics["answer_kl"], divergence)
    assert_close(metrics["reference_kl_coefficient"], 0.1 * 0.98**2)
    assert not {"entropy_alpha", "answer_kl"} & watched("grpo", rollouts).keys()


def test_prompts_that_get_nothing_but_the_bonus_are_counted():
    rollouts, scores = random_rollouts()
    rollouts = dataclasses.replace(rollouts, rewards=jnp.array([[0.0] * 4, [1.0] * 4, [0, 1, 0, 0]]))
    metrics = make("aer")(scores, rollouts).metrics
    assert_close(metrics["bonus_only_prompts"], (1, 3))


def test_the_bonus_is_on_while_the_entropy_of_the_batch_before_is_low():
    """Skywork-OR1: the coefficient moves after a batch and is gated by the entropy of the batch before, as in TRL."""
    entropies = [0.1, 0.2, 0.15, 0.3, 0.3, 0.1, 0.1]
    found = list(states(EntropyFloor(), entropies))
    coefficients = [0.005, 0.010, 0.015, 0.010, 0.005, 0.010, 0.015]
    assert_close([state["coefficient"] for _, state in found], coefficients)
    assert_close([bonus[0, 0, 0] for bonus, _ in found], [0, 0.005, 0.010, 0.015, 0, 0, 0.010])


def test_the_coefficient_stays_between_0_and_1():
    found = [state["coefficient"] for _, state in states(EntropyFloor(step=0.6), [0.1, 0.1, 0.1, 0.9, 0.9, 0.9])]
    assert_close(found, [0.6, 1, 1, 0.4, 0, 0])


def test_the_band_sinks_in_a_straight_line():
    """At step 2 of 4 the band is (0.35, 0.45); from step 4 on it is (0.1, 0.2)."""
    part = EntropyBand(4)
    values = jnp.array([[[1.0], [-1.0]]])
    for step, low, high in ((0, 0.6, 0.7), (2, 0.35, 0.45), (4, 0.1, 0.2), (9, 0.1, 0.2)):
        for entropy, kept in (
            (high + 0.01, [1, 0]),
            (high - 0.01, [1, -1]),
            (low + 0.01, [1, -1]),
            (low - 0.01, [0, -1]),
        ):
            rollouts = rollouts_of(np.zeros((1, 2, 1)), behaviour_entropy=np.full((1, 2, 1), entropy, np.float32))
            new, state = part.update_state(values, rollouts, jnp.int32(step))
            assert_close(new.ravel(), kept)
            assert state == step + 1
