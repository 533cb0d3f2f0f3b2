import pytest

from experiments import grpo_failures
from experiments.grpo_failures import ALONE, BONUSES, CLAIMS
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("part", "objective", "right", "limit", "group_size")


def decided(rows, sentence):
    (found,) = (claim for claim in CLAIMS if sentence in claim)
    return claims.decided({found: CLAIMS[found]}, Records([{"step": 1} | row for row in rows], LABELS))[found]


def runs(number, labels, **values):
    return [labels | {"seed": seed} | values for seed in range(number)]


def monitored(number, called, lost, right=4, objective="a"):
    labels = {"part": "monitor", "limit": 0.5, "right": right, "objective": objective}
    return runs(number, labels, called=called, lost=lost)


@pytest.mark.parametrize("right", [2, 4])
def test_true_and_false_alarms_are_shares_of_runs_with_as_many_right_outcomes_under_each_objective(right):
    lose, keep = f"lose their {right} right outcomes", f"keep their {right} right outcomes"
    good = monitored(60, 1, 1, right) + monitored(60, 0, 0, right)
    assert (decided(good, lose), decided(good, keep)) == (True, True)
    # A run with one right outcome has nothing to lose, and no entropy: it is counted alone.
    solved = good + monitored(60, 1, 0, right=1)
    assert (decided(solved, keep), decided(solved, "with 1 right outcome")) == (True, False)
    assert decided(monitored(60, 0, 0, right=1), "with 1 right outcome") is True
    # One objective decides against it, or has too few runs.
    assert decided(good + monitored(60, 0, 1, right, "b"), lose) is False
    assert decided(good + monitored(60, 1, 0, right, "b"), keep) is False
    assert decided(good + monitored(3, 1, 1, right, "b"), lose) is None
    assert decided(good + monitored(3, 0, 0, right, "b"), keep) is None
    assert decided(monitored(3, 0, 0, right=1), "with 1 right outcome") is None


def test_what_comes_back_alone_and_by_a_bonus():
    def after(objective, number, **values):
        return runs(number, {"part": "after", "objective": objective}, **values)

    for objective, sentence in ((ALONE, "left alone, less"), ("grpo", "switched to GRPO, less")):
        found = [decided(after(objective, number, back=back), sentence) for number, back in ((40, 0), (40, 1), (3, 0))]
        assert found == [True, False, None]
    none = [row for name in BONUSES for row in after(name, 40, whole=0)]
    assert decided(none, "some entropy bonus") is False
    assert decided(none[:-40] + after(BONUSES[-1], 40, whole=1), "some entropy bonus") is True
    assert decided(none[:-40] + after(BONUSES[-1], 3, whole=1), "some entropy bonus") is None


def test_silent_groups_must_be_as_many_as_computed_at_every_size():
    def rows(*shares):
        sizes = [({"part": "silent", "group_size": size}, share) for size, share in zip((4, 8), shares, strict=True)]
        return [row for labels, share in sizes for row in runs(3, labels, silent=share, exact=0.8)]

    assert decided(rows(0.8, 0.801), "share of silent groups is") is True
    assert decided(rows(0.8, 0.9), "share of silent groups is") is False
    assert decided(rows(0.95, 0.8), "more than 0.9 of all groups") is False
    assert decided(rows(0.95, 0.92), "more than 0.9 of all groups") is True


@pytest.mark.slow
def test_grpo_drowns_in_silent_groups_and_stays_collapsed(smoke):
    _, records = smoke(grpo_failures)
    silent = records.where(part="silent")
    assert silent.ends("silent").mean() == pytest.approx(silent.ends("exact").mean(), abs=0.03)
    assert records.where(part="after", objective=ALONE).column("back").sum() == 0
    assert records.where(part="monitor").column("lost").mean() == 1
