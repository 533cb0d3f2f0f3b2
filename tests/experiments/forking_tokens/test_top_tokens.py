import jax
import numpy as np
import pytest

from experiments.forking_tokens.top_tokens import entropy_at_the_top, exact_measures
from ipsrl.environments.graphs.forks import Forks
from ipsrl.policies.tabular import Tabular

MASK = np.array([[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]], bool)
ENTROPY = np.array([[[0.1, 0.8, 0.2, 0.3, 9.0], [1.2, 0.1, 0.1, 0.0, 0.2]]], np.float32)


def test_two_of_nine_tokens():
    """0.8 and 1.2 are at the top and carry 2 of 3 nats; of them only 1.2 was there before. Padding has no part."""
    before = np.where(np.isclose(ENTROPY, 0.8), 0.0, ENTROPY)
    found = entropy_at_the_top(ENTROPY, before, MASK)
    expected = {"entropy": 3 / 9, "share": 2 / 3, "overlap": 1 / 2}
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected)


def test_if_all_entropies_are_equal_all_tokens_are_at_the_top():
    found = entropy_at_the_top(np.full_like(ENTROPY, 0.4), ENTROPY, MASK)
    assert float(found["share"]) == pytest.approx(1)
    assert float(found["overlap"]) == pytest.approx(2 / 9)


def test_measures_before_training():
    """Four of nine plans are right if no step of eight slips; forks are a fifth of the tokens, of log 3 nats each."""
    forks = Forks()
    policy = Tabular(forks.num_observations, forks.vocabulary_size, forks.logits(0.1))
    first = policy.init(jax.random.key(0))
    measured = {name: float(value) for name, value in exact_measures(forks, policy, first, first).items()}
    of_fork, of_step = 1.0986, 0.3944  # -0.9 log 0.9 - 0.1 log 0.05
    entropy = 0.2 * of_fork + 0.8 * of_step
    assert measured == pytest.approx(
        {
            "score": 4 / 9 * 0.9**8,
            "effective": 4.0,
            "entropy": entropy,
            "share": 0.2 * of_fork / entropy,
            "overlap": 1.0,
        },
        rel=1e-3,
    )
