import pytest

from experiments import grpo_failures
from experiments.grpo_failures import ALONE, MORE_SILENT
from tests.experiments.recorded import courses


def test_silent_groups_are_compared_with_computed_ones_over_training():
    found = {"silent": [(0.5, 0.7), (0.4, 0.8)], "exact": [(0.5, 0.5)] * 2}
    values = MORE_SILENT.of_seeds(courses(("group_size",), {(8,): found}, range(2))).values
    assert values == pytest.approx([0.1, 0.1])


def test_grpo_drowns_in_silent_groups_and_stays_collapsed(smoke):
    _, records = smoke(grpo_failures)
    silent = records.where(part="silent")
    assert silent.ends("silent").mean() == pytest.approx(silent.ends("exact").mean(), abs=0.03)
    assert records.where(part="after", objective=ALONE).column("back").sum() == 0
    assert records.where(part="monitor").column("lost").mean() == 1
