import numpy as np
import pytest

from experiments.molecules_enumerated.reaction_products import last_quarter, measures
from ipsrl.environments.molecules.reactions import Reactions
from tests.experiments.recorded import courses


@pytest.fixture(scope="module")
def reactions():
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    return Reactions()


def test_measures_of_the_target_and_of_routes(reactions):
    target, routes = reactions.outcome_space(0).target, reactions.route_counts()
    by_routes = target * routes / (target @ routes)
    measured = measures(reactions, np.array([[target, by_routes]], np.float64))
    np.testing.assert_allclose(measured["routes_exponent"], [[0, 1]], atol=1e-6)
    np.testing.assert_allclose(measured["reward_exponent"], [[1, 1]], atol=1e-6)
    np.testing.assert_allclose(measured["total_variation"], [[0, np.abs(by_routes - target).sum() / 2]], atol=1e-6)
    # As the header says. The limit of the claims is just below half of it.
    np.testing.assert_allclose(measured["total_variation"][0, 1], 0.104, atol=5e-4)
    np.testing.assert_allclose(measured["qed"][0, 0], target @ reactions.graph.qed, rtol=1e-6)
    np.testing.assert_allclose(measured["routes"][0], [target @ routes, by_routes @ routes], rtol=1e-6)


def test_the_change_in_the_last_quarter_is_that_of_each_seed():
    variations = {"total_variation": [(0.9, 0.5, 0.53, 0.49), (0.9, 0.4, 0.6, 0.45)]}
    records = courses(("objective",), {("ips_grpo",): variations}, (50, 75, 80, 100))
    np.testing.assert_allclose(last_quarter(records), [-0.01, 0.05])
