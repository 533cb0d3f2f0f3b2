import numpy as np
import pytest

from ipsrl.environments.graphs.tree import Tree

pytestmark = pytest.mark.core


def test_the_toy_has_ten_states_and_eighteen_trajectories():
    tree = Tree()
    assert tree.num_observations + tree.num_outcomes == 10
    np.testing.assert_array_equal(tree.path_counts(), [4, 5, 5, 4])
    np.testing.assert_allclose(100 * tree.outcome_space(0).target, [48.78, 39.02, 9.76, 2.44], atol=0.005)


def test_lattice_paths_at_depth_seven():
    tree = Tree(depth=7, longest_step=1, rewards=(0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0))
    np.testing.assert_array_equal(tree.path_counts(), [1, 7, 21, 35, 35, 21, 7, 1])
    names = tree.outcome_space(0).names
    assert (names[3], names[1]) == ("(3, 4)", "(1, 6)")
