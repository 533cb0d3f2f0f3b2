import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, rollouts_of, scores_of


def loss_and_gradient(text, rewards, log_ratios, reference=0.0, mask=None):
    """Loss, gradient by the log-probabilities, and metrics, for groups of answers `[P, G]` or `[P, G, T]`."""
    log_ratios = np.asarray(log_ratios, np.float32)
    log_ratios = log_ratios[..., None] if log_ratios.ndim == 2 else log_ratios
    rollouts = rollouts_of(
        np.zeros(log_ratios.shape), mask=mask, rewards=rewards, reference_log_probs=np.full(log_ratios.shape, reference)
    )
    objective = make(text)

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(log_probs):
        weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(len(rewards))))
        output = objective.loss(scores_of(log_probs), rollouts, weights)
        return output.loss_sum / output.count, output.metrics

    (value, metrics), gradient = jax.device_get(loss(jnp.asarray(log_ratios + reference)))
    return value, gradient, metrics


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


@pytest.mark.parametrize("text", ["dpo", "rpo"])
def test_answers_without_tokens_are_in_no_pair(text):
    """An empty loser, an empty winner beside a pair, a group of empty answers alone, and a whole group."""
    lengths = np.array([[2, 0, 1], [0, 1, 2], [0, 0, 0], [1, 2, 2]])
    mask = np.arange(2) < lengths[..., None]
    rewards = [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.5, 0.0]]
    log_ratios = np.random.default_rng(0).normal(size=(4, 3, 2)) + 100 * ~mask
    value, gradient, metrics = loss_and_gradient(text, rewards, log_ratios, -1.0, mask)

    beta, eta = {"dpo": (0.1, 0.0), "rpo": (0.5, 0.2)}[text]
    total = np.where(mask, log_ratios, 0.0).sum(axis=-1)
    mean = np.where(mask, log_ratios - 1.0, 0.0).sum(axis=-1) / np.maximum(lengths, 1)
    pairs = [[(0, 0, 2)], [(1, 1, 2)], [(3, 0, 1), (3, 0, 2), (3, 1, 2)]]
    margins = [np.array([beta * (total[p, w] - total[p, loser]) for p, w, loser in group]) for group in pairs]
    imitation = [np.mean([eta * mean[p, w] for p, w, _ in group]) for group in pairs]
    losses = [-np.log(sigmoid(margin)).mean() for margin in margins]
    assert_close(value, np.mean(losses) - np.mean(imitation))
    margins = np.concatenate(margins)
    assert_close(metrics["pair_accuracy"], ((margins > 0).sum(), 5))
    assert_close(metrics["pair_margin"], (margins.sum(), 5))
    assert not gradient[~mask].any()
    assert not gradient[2].any()
    assert gradient[3].all(where=mask[3])


def test_a_batch_without_pairs_is_silent():
    value, gradient, metrics = loss_and_gradient("rpo", [[1.0, 1.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]])
    assert value == 0.0
    assert not gradient.any()
    assert metrics["pair_accuracy"] == (0.0, 0.0)


@pytest.mark.parametrize(("text", "of_token"), [("ipo(beta=0.5)", 1.0), ("ipo(beta=0.5, per_token=False)", 0.5)])
def test_ipo_ends_at_a_margin(text, of_token):
    """1 / (2 beta) = 1, between means over two tokens or between sums."""
    value, gradient, _ = loss_and_gradient(text, [[1.0, 0.0]], [[[of_token, of_token], [0.0, 0.0]]])
    assert_close(value, 0.0)
    assert_close(gradient, 0.0)
    value, gradient, _ = loss_and_gradient(text, [[1.0, 0.0]], np.zeros((1, 2, 2)))
    assert_close(value, 1.0)
    assert_close(gradient[0, :, 0], [-1 / of_token, 1 / of_token])
