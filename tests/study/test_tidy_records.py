import math

import numpy as np
import pytest

from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.records.tidy import EXACT, NotRecorded, Records

ROWS = [
    {"step": step, "objective": name, "seed": seed, "share": level + seed / 10 + step / 100}
    for name, level in (("grpo", 0.1), ("ips_grpo", 0.5))
    for seed in (0, 1, 2)
    for step in (0, 5, 10)
] + [{"step": 0, "theory": "grpo", "limit": 0.25}]
RECORDS = Records(ROWS, ("objective", "theory"))


def test_the_end_is_the_last_record_of_each_seed():
    np.testing.assert_allclose(RECORDS.ends("share", objective="grpo"), [0.2, 0.3, 0.4])
    assert RECORDS.final("share", objective="grpo") == mean_over_seeds(RECORDS.ends("share", objective="grpo"))
    half = 4.3027 * 0.1 / np.sqrt(3)
    assert RECORDS.final("share", objective="ips_grpo").low == pytest.approx(0.7 - half, abs=1e-5)
    assert RECORDS.final("share", objective="grpo").high == pytest.approx(0.3 + half, abs=1e-5)
    assert RECORDS.mean("share", objective="grpo") == pytest.approx(0.3)


def test_a_number_without_a_seed_is_its_own_interval():
    limit = RECORDS.final("limit", theory="grpo")
    assert (limit.mean, limit.low, limit.high, limit.seeds) == (0.25, 0.25, 0.25, EXACT)


def test_a_curve_has_a_row_for_each_seed():
    steps, values = RECORDS.curve("share", objective="ips_grpo")
    np.testing.assert_array_equal(steps, [0, 5, 10])
    assert values.shape == (3, 3)
    np.testing.assert_allclose(values[2], [0.7, 0.75, 0.8])


def test_groups_come_in_the_order_of_the_records():
    groups = [(labels, len(rows)) for labels, rows in RECORDS.each()]
    assert groups == [({"objective": "grpo"}, 9), ({"objective": "ips_grpo"}, 9), ({"theory": "grpo"}, 1)]
    assert RECORDS.distinct("objective") == ["grpo", "ips_grpo"]
    assert len(RECORDS.where(seed=1).having("share")) == 6


def test_what_was_not_recorded_is_told():
    for question in (
        lambda: RECORDS.final("share", objective="darling"),
        lambda: RECORDS.curve("limits"),
        lambda: RECORDS.column("limits"),
    ):
        with pytest.raises(NotRecorded, match="there is no record of"):
            question()


def test_one_seed_has_no_interval_and_neither_have_infinite_values():
    one = RECORDS.where(seed=1)
    assert math.isnan(one.final("share", objective="grpo").low)
    infinite = Records([row | {"share": math.inf} if row.get("seed") == 0 else row for row in ROWS], RECORDS.labels)
    assert infinite.mean("share", objective="grpo") == math.inf
    assert math.isnan(infinite.final("share", objective="grpo").high)


def test_labels_must_name_one_curve():
    with pytest.raises(ValueError, match="is recorded for several objective: name one of them"):
        RECORDS.final("share")
