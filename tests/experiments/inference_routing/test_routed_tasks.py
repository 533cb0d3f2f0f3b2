import numpy as np

from experiments.inference_routing.best_fixed import best_fixed
from experiments.inference_routing.estimators import Estimator
from experiments.inference_routing.exp4 import IntervalMeans, Learner
from experiments.inference_routing.inference_layers import InferenceLayers
from experiments.inference_routing.routed_tasks import Runs, from_median, measures
from tests.experiments.recorded import made_up

LAYERS = InferenceLayers(3, 0.3, 0.5)
LEARNER = Learner(LAYERS, 0.1, 100.0, Estimator(), full_information=True)


def test_measures_of_a_course_by_hand():
    costs = np.array([[[0.5, 0.25], [0.6, 0.3]]])
    course = IntervalMeans(np.array([[0.2, 0.1]]), costs, np.array([[0.0, 0.4]]), *np.ones((3, 1, 2)))
    found, best = measures(LEARNER, course, 20), best_fixed(LAYERS, 0.1)
    np.testing.assert_allclose(found["errors"], [[10 * (0.2 - best), 20 * (0.15 - best)]])
    # At the end the first budget is exceeded by 0.05, and the second one by 0.025.
    np.testing.assert_allclose(found["overspent"], [[0.0, 0.05]])
    np.testing.assert_allclose(found["regret"] - found["errors"], [[0.0, 20 * 0.075]], atol=1e-12)
    np.testing.assert_allclose(found["off"], [[0.0, 0.2]])


def test_a_seed_has_the_same_tasks_with_each_rate_and_whatever_runs_beside_it():
    runs = Runs(LEARNER, 2000, 2, (0, 1, 2), (1e-9, 1e-2))
    slow, fast = (runs.with_rate(number, whole_course=True) for number in (0, 1))
    assert fast.steps.tolist() == [1000, 2000]
    assert fast.values["regret"].shape == (3, 2)
    np.testing.assert_array_equal(fast.values["minus_regret"], -fast.values["regret"])
    assert (fast.values["regret"] < slow.values["regret"]).all()
    alone = Runs(LEARNER, 2000, 2, (1,), (1e-2,)).with_rate(0, whole_course=False)
    assert alone.steps.tolist() == [2000]
    np.testing.assert_allclose(alone.values["regret"], fast.values["regret"][1:2, 1:], rtol=1e-3)
    equal = runs.at_equal_weights()
    # A tiny step hardly changes weights.
    np.testing.assert_allclose(equal.values["uniform_regret"], slow.values["regret"][:, 1:], rtol=1e-3)


def test_spread_is_the_distance_from_the_median():
    records = made_up(("arm",), {("plain",): {"regret": (0.0, 1.0, 5.0)}})
    found = from_median("regret", arm="plain").of_seeds(records)
    np.testing.assert_allclose(found.values, [1.0, 0.0, 4.0])
