import numpy as np
import pytest

from experiments.crossed import shares
from ipsrl.records.tidy import NotRecorded, TooFewSeeds
from tests.experiments.recorded import made_up

SCORES = {("a", 1): (0.1, 0.3), ("b", 1): (0.2, 0.5), ("a", 2): (0.5, 0.7), ("b", 2): (0.9, 1.0)}


def records(seeds=2):
    arms = {("trees", *arm): {"score": ends[:seeds]} for arm, ends in SCORES.items()}
    return made_up(("task", "objective", "prior"), arms)


def test_cells_are_final_values_by_seed_prior_and_objective():
    found = shares.cells(records(), "score", ("b", "a"))
    np.testing.assert_array_equal(found, [[[0.2, 0.1], [0.9, 0.5]], [[0.5, 0.3], [1.0, 0.7]]])


def test_a_mean_is_over_the_other_labels():
    assert shares.mean("score", "a", task="trees").of_seeds(records()).values.tolist() == pytest.approx([0.3, 0.5])


def test_shares_add_up_to_one():
    found = {source: shares.share("score", source)(records()).mean for source in shares.SOURCES}
    assert sum(found.values()) == pytest.approx(1)
    assert found["prior"] > found["objective"] > found["both"]


def test_what_is_missing_is_said():
    with pytest.raises(NotRecorded):
        shares.share("score", "prior", task="text")(records())
    with pytest.raises(NotRecorded):
        shares.mean("score", "c")(records())
    with pytest.raises(TooFewSeeds):
        shares.share("score", "prior")(records(seeds=1))
