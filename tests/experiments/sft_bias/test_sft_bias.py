import pytest

from experiments.sft_bias.before_and_after import correlation, strength
from ipsrl.records.tidy import NotRecorded, Records

BEFORE = {"pass_at_1": (0.1, 0.3, 0.5), "entropy": (0.6, 1.0, 0.1)}
AFTER = {"pass_at_64": (0.9, 0.8, 0.6), "entropy": (0.0, 0.0, 0.0), "pass_at_1": (1.0, 1.0, 1.0)}
RECORDS = Records(
    [
        {"arm": "taught", "epochs": epochs, "seed": seed, "step": step}
        | {name: values[place] + 0.05 * seed for name, values in measures.items()}
        for place, epochs in enumerate((1, 4, 16))
        for step, measures in ((0, BEFORE), (60, AFTER))
        for seed in range(5)
    ],
    ("arm", "epochs"),
)


def test_correlations_are_of_what_stands_before_and_after():
    for before, rho in {"pass_at_1": -1.0, "entropy": 0.5}.items():
        assert correlation(before, "pass_at_64")(RECORDS).mean == pytest.approx(rho)
        assert strength(before, "pass_at_64")(RECORDS).mean == pytest.approx(abs(rho))


def test_one_number_of_epochs_has_no_ranks():
    with pytest.raises(NotRecorded, match="no two numbers of epochs"):
        correlation("entropy", "pass_at_64")(RECORDS.where(epochs=16))
