"""Entropy of the tokens of highest entropy."""

import numpy as np
import pytest

from experiments.forking_tokens.token_entropy import entropy_at_the_top

MASK = np.array([[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]], bool)
ENTROPY = np.array([[[0.1, 0.8, 0.2, 0.3, 9.0], [1.2, 0.1, 0.1, 0.0, 0.2]]], np.float32)


def test_two_of_nine_tokens():
    """0.8 and 1.2 are at the top and carry 2 of 3 nats; of them only 1.2 was there before. Padding has no part."""
    before = np.where(np.isclose(ENTROPY, 0.8), 0.0, ENTROPY)
    found = entropy_at_the_top(ENTROPY, before, MASK, 0.2)
    expected = {"entropy": 3 / 9, "share": 2 / 3, "overlap": 1 / 2}
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected)


def test_if_all_entropies_are_equal_all_tokens_are_at_the_top():
    found = entropy_at_the_top(np.full_like(ENTROPY, 0.4), ENTROPY, MASK, 0.2)
    assert float(found["share"]) == pytest.approx(1)
    assert float(found["overlap"]) == pytest.approx(2 / 9)
