import pytest

from experiments import verifier_corrections
from experiments.verifier_corrections import ARMS, CLAIMS, STD
from ipsrl import objectives
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(rows, sentence):
    return claims.decided({sentence: CLAIMS[sentence]}, Records(rows, ("kind", "arm", "J", "start")))[sentence]


def trained(arm, *accuracies):
    return [
        {"kind": "trained", "arm": arm, "step": 1, "seed": seed, "accuracy": accuracy}
        for seed, accuracy in enumerate(accuracies)
    ]


def test_arms_are_objectives():
    for text in ARMS.values():
        objectives.make(text)
    with pytest.raises(ValueError, match="must hold arms of this study"):
        verifier_corrections.Settings(objectives=("ppo",))


def test_a_correction_must_beat_its_placebo():
    sentence = "backward correction ends over 0.01 more accurate than Dr. GRPO with a step 1 / J times as large"
    placebo = trained("dr_grpo_step_by_J", 0.7, 0.8)
    assert decided(placebo + trained("backward(rate=0.3)", 0.9, 0.95), sentence) is True
    assert decided(placebo + trained("backward(rate=0.3)", 0.7, 0.8), sentence) is False
    assert decided(placebo + trained("backward(rate=0.3)", 0.5, 0.6), sentence) is False
    assert decided(placebo + trained("backward(rate=0.3)", 0.6, 0.9), sentence) is None
    assert decided(placebo, sentence) is None


def test_with_std_each_correction_must_end_as_grpo():
    sentence = "with std each correction ends within 0.01 of the accuracy of GRPO"
    same = [row for arm in ("grpo", *STD) for row in trained(arm, 0.8, 0.9)]
    assert decided(same, sentence) is True
    assert decided(same[:-2] + trained(list(STD)[-1], 0.6, 0.7), sentence) is False
    assert decided(same[:-2] + trained(list(STD)[-1], 0.7, 1.0), sentence) is None


def test_derived_claims_hold_at_every_policy_or_not():
    sentence = "derived: without std wrong rates rescale the update, and do not turn it"

    def rows(turned):
        arms = [arm for arm in ARMS if "0.2" in arm or "0.4" in arm]
        return [{"kind": "exact", "arm": arm, "turned": value} for arm in arms for value in (0.0, turned)]

    assert decided(rows(1e-9), sentence) is True
    assert decided(rows(0.1), sentence) is False
    assert decided([], sentence) is None


@pytest.mark.slow
def test_the_backward_correction_undoes_errors_exactly(smoke):
    _, records = smoke(verifier_corrections)
    sentence = "derived: without std the backward correction has the clean expected update"
    assert decided(records.rows, sentence) is True
    plain = records.where(kind="exact", arm="dr_grpo")
    # Errors of 0.3 both ways leave two fifths of it.
    assert plain.column("from_clean") == pytest.approx(0.6, abs=1e-6)
    assert plain.column("from_scaled") == pytest.approx(0, abs=1e-6)
