from experiments import inference_routing as study
from experiments.inference_routing import ARMS, Settings, learner
from experiments.inference_routing.estimators import Estimator
from experiments.inference_routing.inference_layers import InferenceLayers


def test_arms_differ_in_one_thing_each():
    arms = {arm: learner(arm, InferenceLayers(3, 0.3, 0.5), Settings(p_min=0.2)) for arm in ARMS}
    assert len(set(arms.values())) == len(ARMS)
    assert arms["plain"].estimator == arms["full"].estimator == Estimator()
    assert arms["learned"].estimator == arms["no_queues"].estimator == Estimator("mean")
    assert [arm for arm, of in arms.items() if of.full_information] == ["full"]
    assert [arm for arm, of in arms.items() if not of.queues] == ["no_queues"]
    assert {of.p_min for of in arms.values()} == {0.2}


def test_a_small_run_measures_estimates_and_regret(smoke):
    settings, found = smoke(study)
    # Two rates and equal weights, two worlds, arms and seeds each.
    assert len(found) == 3 * 2 * 2 * 2
    assert set(found.column("step").tolist()) == {settings.rounds}
    # With equal weights both decide alike.
    plain, learned = (found.where(arm=arm) for arm in ("plain", "learned"))
    assert plain.column("uniform_revealed").tolist() == learned.column("uniform_revealed").tolist()
    assert plain.column("uniform_variance").tolist() != learned.column("uniform_variance").tolist()
    assert set(found.column("learning_rate").tolist()) == set(settings.learning_rates)
