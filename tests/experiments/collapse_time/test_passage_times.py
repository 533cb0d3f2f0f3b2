import numpy as np
import pytest

from experiments.collapse_time.passage_times import mean_first_passage
from ipsrl.dynamics.softmax.two_outcome_training import Cell, first_passage
from ipsrl.objectives import make
from tests.tiers import slow_after


def test_ranges_that_every_step_leaves():
    assert mean_first_passage(Cell(make("reinforce"), (1.0, 1.0), 3, 0.5), -1e-3, 1e-3) == pytest.approx(1.0)
    # Half of the groups of two hold both outcomes, and stay where they are.
    assert mean_first_passage(Cell(make("reinforce"), (1.0, 1.0), 2, 0.5), -1e-3, 1e-3) == pytest.approx(2.0)


@pytest.mark.parametrize("text", slow_after(1, ["grpo", "ips_reinforce(alpha=0.3)"]))
def test_it_is_the_mean_of_sampled_passages(text):
    cell = Cell(make(text), (1.0, 0.9), 4, 0.5, log_ratio=-0.4)
    (sampled,) = first_passage([cell], range(4000), -1.5, 2.5, 100_000)
    error = sampled.std(ddof=1) / np.sqrt(len(sampled))
    assert mean_first_passage(cell, -1.5, 2.5) == pytest.approx(sampled.mean(), abs=4 * error)
