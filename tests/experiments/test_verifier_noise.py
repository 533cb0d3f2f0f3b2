import pytest

from experiments import verifier_noise
from experiments.verifier_noise import ALWAYS, CLAIMS, NAMES, RANDOM
from ipsrl.dynamics.verifier_errors import WAYS
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("kind", "objective", "way", "J", "start", "errors", "hack")


def decided(rows, sentence, name="grpo"):
    (found,) = (claim for claim in CLAIMS if claim.startswith(f"{NAMES[name]}: ") and sentence in claim)
    rows = [{"objective": name, "step": 1} | row for row in rows]
    return claims.decided({found: CLAIMS[found]}, Records(rows, LABELS))[found]


def trained(labels, value, *values):
    return [{"kind": "trained", "seed": seed, value: number} | labels for seed, number in enumerate(values)]


def test_the_sign_of_the_drift_is_asked_at_every_policy():
    def rows(*drifts):
        cells = zip((-0.4, 0.0, 0.3, 0.3), (0.3, 0.3, 0.3, 0.6), drifts, strict=True)
        return [{"kind": "exact", "way": "both", "J": j, "start": start, "drift": drift} for j, start, drift in cells]

    assert decided(rows(-0.1, 1e-12, 0.1, 0.2), "exact drift of true accuracy") is True
    assert decided(rows(-0.1, 0.01, 0.1, 0.2), "exact drift of true accuracy") is False
    assert decided(rows(-0.1, 0.0, 0.1, -0.2), "exact drift of true accuracy") is False


def test_ends_are_compared_with_the_start_where_runs_are_far():
    def rows(below, slow, above):
        cells = ((-0.2, below), (0.1, slow), (0.5, above))
        return [row for j, ends in cells for row in trained({"way": "both", "J": j}, "accuracy", *ends)]

    assert decided(rows((0.1, 0.2), (0.2, 0.2), (0.8, 0.9)), "trained at each |J|") is True
    assert decided(rows((0.1, 0.2), (0.2, 0.2), (0.1, 0.2)), "trained at each |J|") is False
    assert decided(rows((0.8, 0.9), (0.2, 0.2), (0.8, 0.9)), "trained at each |J|") is False
    # An interval that holds the start decides nothing, nor do no records.
    assert decided(rows((0.1, 0.2), (0.2, 0.2), (0.2, 0.9)), "trained at each |J|") is None
    assert decided([], "trained at each |J|") is None


def test_three_ways_end_alike_decided_by_the_interval_of_the_difference():
    def rows(*last):
        ends = dict(zip(WAYS, ((0.8, 0.9), (0.8, 0.9), last), strict=True))
        return [row for way in WAYS for row in trained({"way": way, "J": 0.3}, "accuracy", *ends[way])]

    assert decided(rows(0.82, 0.91), "trained in three ways") is True
    assert decided(rows(0.4, 0.5), "trained in three ways") is False
    assert decided(rows(0.8, 0.6), "trained in three ways") is None


def test_the_hack_must_cost_at_every_share():
    def rows(*always):
        ends = {(ALWAYS, hack): (end, end) for hack, end in zip((0.1, 0.5), always, strict=False)}
        ends |= {(RANDOM, hack): (0.9, 0.9) for hack in (0.1, 0.5)}
        labelled = [({"errors": errors, "hack": hack}, values) for (errors, hack), values in ends.items()]
        return [row for labels, values in labelled for row in trained(labels, "accuracy", *values)]

    assert decided(rows(0.8, 0.1), "the hack ends") is True
    assert decided(rows(0.895, 0.1), "the hack ends") is False
    assert decided(rows(0.1), "the hack ends") is None


@pytest.mark.parametrize(
    ("value", "sentence"), [("effective", "after equal updates"), ("effective_at_equal", "when accuracy first is 0.9")]
)
def test_fewer_right_outcomes_are_decided_by_paired_seeds(value, sentence):
    def rows(*clean):
        noisy = trained({"way": "both", "J": 0.3}, value, 1.5, 1.7)
        return noisy + trained({"way": "both", "J": 1.0}, value, *clean)

    # Both intervals meet, the difference is a tenth for each seed.
    assert decided(rows(1.4, 1.6), sentence) is True
    assert decided(rows(1.48, 1.68), sentence) is False
    assert decided(rows(1.3, 1.9), sentence) is None
    assert decided(rows(1.1, float("nan")), sentence) is None


@pytest.mark.slow
def test_a_hack_is_a_second_optimum_and_random_errors_are_none(smoke):
    _, records = smoke(verifier_noise)
    assert decided(records.rows, "exact drift of true accuracy") is True
    assert decided(records.rows, "near the hack") is True
