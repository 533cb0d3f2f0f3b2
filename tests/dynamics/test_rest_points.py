import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from ipsrl import objectives
from ipsrl.dynamics.field import Field, follow, train
from ipsrl.dynamics.rest_points import RestPoint, nearest_rest_point, rest_points
from ipsrl.dynamics.softmax import finite_groups, flows, survival

UNEQUAL = (1.0, 0.6, 0.3)
STARTS = np.array([[0.2, 0.3, 0.5], [0.9, 0.07, 0.03], [0.3, 0.4, 0.3], [0.1, 0.8, 0.1]])
"""Four policies, as many as `Field.scale` looks at: a field is compiled for each number of policies."""


@pytest.fixture(scope="module")
def expected_return():
    """The field of a rule, and that of another vector of rewards, from one compiled program."""
    return lambda rewards: Field(objectives.make("reinforce"), rewards, group_size=3)


def test_flow_is_that_of_the_closed_mean_field():
    field = Field(objectives.make("ips_reinforce"), UNEQUAL, group_size=4)
    flow = follow(field, STARTS, time=50.0)
    assert flow.finished
    assert flow.times[-1] == pytest.approx(50.0)
    weights = finite_groups.count_weights(4)

    def velocity(logits):
        return finite_groups.mean_field(softmax(logits), np.array(UNEQUAL), weights, "no baseline")

    for number, start in enumerate(STARTS):
        logits = flows.integrate(velocity, log_softmax(np.log(start)), flow.times[2::20])
        np.testing.assert_allclose(flow.distributions[2::20, number], softmax(logits, axis=-1), atol=1e-5)


def test_broken_tie_is_lost_as_the_root_of_time(expected_return):
    """p_2 / p_1 ~ t^(-1/2) for two tied outcomes over a worse one, which is lost as 1 / t."""
    starts = [[0.5, 0.3, 0.2], [0.07, 0.9, 0.03]] * 2
    flow = follow(expected_return((1.0, 1.0, 0.5)), starts, time=1e8)
    np.testing.assert_allclose(flow.exponents, [[0, -0.5, -1], [-0.5, 0, -1]] * 2, atol=2e-3)
    flow = follow(expected_return((1.0, 1.0, 0.0)), [[0.36, 0.34, 0.3]] * 4, time=1e5)
    assert flow.distributions[-1, 0, 1] / flow.distributions[-1, 0, 0] == pytest.approx(0.15930, abs=1e-4)


def test_full_tie_stays(expected_return):
    flow = follow(expected_return((1.0, 1.0, 1.0)), STARTS)
    np.testing.assert_allclose(flow.distributions[-1], STARTS, atol=1e-12)
    kinds = {point.kind for point in rest_points(expected_return((1.0, 1.0, 1.0)))}
    assert kinds == {"neutral"}


def test_rest_points_of_expected_return_are_corners(expected_return):
    """Whatever the scale of the rewards."""
    field = expected_return(tuple(1e-3 * reward for reward in UNEQUAL))
    found = {tuple(point.probs): point.kind for point in rest_points(field)}
    assert found == {(1, 0, 0): "attracts", (0, 1, 0): "saddle", (0, 0, 1): "repels"}


def test_rest_points_of_exact_scaling():
    """At r / R the rates are the eigenvalues of -R (diag p - p p^T), here over R and times (G - 1) / G."""
    found = rest_points(Field(objectives.make("ips_reinforce(probability=exact)"), UNEQUAL, group_size=3))
    (inside,) = [point for point in found if point.probs.all()]
    np.testing.assert_allclose(inside.probs, np.array(UNEQUAL) / sum(UNEQUAL), atol=1e-8)
    assert inside.kind == "attracts"
    expected = np.linalg.eigvalsh(np.outer(inside.probs, inside.probs) - np.diag(inside.probs))[:-1] * 2 / 3
    np.testing.assert_allclose(inside.rates, expected, atol=1e-6)
    assert sorted(point.kind for point in found) == ["attracts"] + 3 * ["repels"] + 3 * ["saddle"]


@pytest.mark.slow
def test_stationary_distribution_of_finite_groups():
    """The same distribution by root finding in the objective's own code, and by the closed mean weight."""
    rewards = (4.0, 2.0, 1.0)
    found = rest_points(Field(objectives.make("ips_reinforce"), rewards, group_size=4))
    (attracting,) = [point.probs for point in found if point.kind == "attracts"]
    expected = survival.stationary_distribution(np.array(rewards), finite_groups.count_weights(4), "no baseline")
    assert 0 in expected  # so that what dies out is right, too
    np.testing.assert_allclose(attracting, expected, atol=1e-6)


def test_expected_training_slides_along_a_jump():
    """Ranks of probabilities jump where two are equal, and there `unlikeliness` holds tied outcomes."""
    field = Field(objectives.make("unlikeliness"), (1.0, 1.0, 0.0), group_size=4)
    starts = [[0.5, 0.3, 0.2]] * 4
    assert not follow(field, starts).finished
    distributions, exponents = train(field, starts, step_size=0.25, steps=800)
    np.testing.assert_allclose(distributions[0, :2], 0.5, atol=0.02)
    np.testing.assert_allclose(exponents[0], [0, 0, -1], atol=0.1)


def test_reference_moves_the_rest():
    field = Field(objectives.make("grpo(kl=0.5)"), (1.0, 1.0, 1.0), 3, reference=(0.5, 0.3, 0.2))
    np.testing.assert_allclose(follow(field, STARTS).distributions[-1], [[0.5, 0.3, 0.2]] * 4, atol=1e-4)


@pytest.mark.parametrize(
    ("invasion", "text"),
    [
        ([-0.5, -2.0], "exp(-0.5 t)"),
        ([-3e-6, -0.5], "1 / (3 t)"),
        # d log p / dt = -4.5 p^2.
        ([-4.5e-12, -3e-6], "1 / (9 t)^0.5"),
    ],
    ids=["exponentially", "first order", "second order"],
)
def test_slowest_loss_is_of_the_order_of_its_decline(invasion, text):
    point = RestPoint(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.array(invasion), scale=0.25)
    assert str(point.slowest_loss) == text


def test_nearest_rest_point_has_the_outcomes_of_its_start(expected_return):
    """Under expected return two tied outcomes rest at any split, unequal ones nowhere, and one outcome alone does."""
    start = np.array([0.6, 0.4, 0.0])
    np.testing.assert_allclose(nearest_rest_point(expected_return((1.0, 1.0, 0.5)), start).probs, start)
    assert nearest_rest_point(expected_return(UNEQUAL), start) is None
    assert nearest_rest_point(expected_return(UNEQUAL), np.array([1.0, 0.0, 0.0])).kind == "attracts"
    exact = Field(objectives.make("ips_reinforce(probability=exact)"), UNEQUAL, group_size=3)
    found = nearest_rest_point(exact, np.array([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(found.probs, np.array(UNEQUAL) / sum(UNEQUAL), atol=1e-6)
    assert found.kind == "attracts"
