import itertools

import jax

from experiments.search_diversity.agents import prior
from experiments.search_diversity.counted_searches import counted_searches


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
