from experiments import perturbed_policies
from experiments.perturbed_policies import FEW, GRPO, IPS, MANY
from experiments.perturbed_policies.perturbed_paths import PATHS, VEHICLES


def test_a_small_run_measures_every_arm(smoke):
    _, found = smoke(perturbed_policies)
    at = {"world": PATHS, "draws": MANY}
    assert found.mean("least_excess", **at, kind="of n", n=25) < 0.8 * found.mean(
        "excess", **at, kind="learned", n=25, smoothing=0.0
    )
    bias = {each: found.mean("bias", **at, kind="in the pool", smoothing=each) for each in (0.2, 0.4, 0.8)}
    assert 3 < bias[0.4] / bias[0.2] < 5
    assert found.mean("crossing", **at, kind="in the pool", smoothing=0.2) < 0.4
    assert found.mean("best_lambda", **at | {"draws": FEW}, kind="of n", n=25) < found.mean(
        "best_lambda", **at, kind="of n", n=25
    )
    assert found.mean("more_than_predicted", world=VEHICLES, draws=MANY, kind="of n", n=50) < 0
    assert (
        found.mean("effective", objective=GRPO, scale="free") < 2 < found.mean("effective", objective=IPS, scale="free")
    )
