import pytest

from experiments import verifier_corrections
from experiments.verifier_corrections import CLAIMS


@pytest.mark.slow
def test_the_backward_correction_undoes_errors_exactly(smoke):
    _, records = smoke(verifier_corrections)
    assert CLAIMS["derived: without std the backward correction has the clean expected update"](records) is True
    plain = records.where(kind="exact", arm="dr_grpo")
    # Errors of 0.3 both ways leave two fifths of it.
    assert plain.column("from_clean") == pytest.approx(0.6, abs=1e-6)
    assert plain.column("from_scaled") == pytest.approx(0, abs=1e-6)
