import pytest

from experiments import verifier_noise
from experiments.verifier_noise import CLAIMS, wrong_signs
from ipsrl.records.tidy import Records


def test_wrong_signs_are_counted_at_every_policy():
    def count(*drifts):
        cells = zip((-0.4, 0.0, 0.3, 0.3), drifts, strict=True)
        rows = [{"J": youden, "drift": drift, "step": 0} for youden, drift in cells]
        return wrong_signs(Records([*rows, {"errors": "random", "drift": -1.0, "step": 0}], ("J",)))

    assert count(-0.1, 1e-12, 0.1, 0.2) == 0
    assert count(-0.1, 0.01, 0.1, 0.2) == 1
    assert count(0.1, 0.0, 0.1, -0.2) == 2


@pytest.mark.slow
def test_a_hack_is_a_second_optimum_and_random_errors_are_none(smoke):
    _, records = smoke(verifier_noise)
    exact = [sentence for sentence in CLAIMS if sentence.startswith("GRPO: ") and "exact drift" in sentence]
    assert len(exact) == 2
    assert all(CLAIMS[sentence](records) for sentence in exact)
