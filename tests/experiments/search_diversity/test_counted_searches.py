"""Behaviours are counted right, among given numbers and among sampled answers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.search_diversity.agents import prior
from experiments.search_diversity.counted_searches import behaviours, counted_searches


def test_different_and_effective_behaviours_of_given_numbers():
    number = jnp.array([[7, 7, 8, 9], [7, 7, 7, 7], [1, 2, 3, 4]])
    chosen = jnp.array([[True, True, True, False], [True] * 4, [False] * 4])
    different, effective = behaviours(number, chosen)
    assert different.tolist() == pytest.approx([2, 1, 0], abs=1e-5)
    mixed = np.exp(-(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)))
    assert effective.tolist() == pytest.approx([mixed, 1, 0], rel=1e-5)


def test_what_is_counted_fits_together():
    recorded = jax.tree.map(lambda leaf: leaf[:, None], prior((0, 1)))
    found = counted_searches(recorded, (0, 1))
    assert {value.shape for value in found.values()} == {(2, 1)}
    for part in ("", "held_out_"):
        passes = [found[f"{part}pass_{k}"] for k in (1, 4, 16, 64)]
        assert all((less < more).all() for less, more in itertools.pairwise(passes))
        assert (found[f"{part}effective"] <= found[f"{part}right"]).all()
        assert (found[f"{part}right"] + found[f"{part}wrong"] <= 256).all()
        assert (found[f"{part}right"] >= 1).all()
    assert found["pass_1"][0] != found["pass_1"][1]
