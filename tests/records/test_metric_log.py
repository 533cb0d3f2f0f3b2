"""What was logged is what is read, however the process ended."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.records.metric_log import MetricLog, read, read_undamaged, unbroken


def test_records_come_back(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricLog(path) as log:
        log.write(
            np.int64(1), {"reward": jnp.float32(0.25), "outcomes": np.int32(3), "objective": "grpo", "done": False}
        )
        # Before the log is closed: a killed process loses nothing that it has written.
        assert read(path) == [{"step": 1, "reward": 0.25, "outcomes": 3, "objective": "grpo", "done": False}]
        log.write(2, {"loss": jnp.nan, "entropy": np.float32("inf"), "half": jnp.bfloat16(0.5)})
    record = read(path)[1]
    assert path.read_text().splitlines()[1] == '{"step": 2, "loss": null, "entropy": null, "half": 0.5}'
    assert math.isnan(record["loss"])
    assert math.isnan(record["entropy"])


def test_what_is_not_a_single_value_is_refused(tmp_path):
    with MetricLog(tmp_path / "metrics.jsonl") as log:
        with pytest.raises(ValueError, match="metric 'reward' must be a single value"):
            log.write(1, {"reward": np.zeros(2)})
        with pytest.raises(ValueError, match="may not be called 'step'"):
            log.write(1, {"step": 2})
    assert read(tmp_path / "metrics.jsonl") == []


@settings(deadline=None, max_examples=30)
@given(cut=st.integers(0, 200), kept=st.integers(-1, 6))
def test_a_killed_and_resumed_log_equals_an_undisturbed_one(tmp_path_factory, cut, kept):
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    with MetricLog(path) as log:
        for step in range(6):
            log.write(step, {"reward": step / 7, "loss": math.nan})
    whole = path.read_bytes()
    cut_text = whole[: len(whole) - min(cut, len(whole))]
    path.write_bytes(cut_text)
    assert len(read(path)) == cut_text.count(b"\n")
    with MetricLog(path) as log:
        log.truncate_after(kept)
        records = read(path)
        assert [record["step"] for record in records] == list(range(min(kept + 1, cut_text.count(b"\n"))))
        for step in range(len(records), 6):
            log.write(step, {"reward": step / 7, "loss": math.nan})
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"st', "is not valid JSON"),
        ("[2]", "is not a record"),
        ("{}", "is not a record"),
        ('{"step": "2"}', "is not a record"),
    ],
)
def test_damage_inside_the_log_is_reported(tmp_path, line, message):
    path = tmp_path / "metrics.jsonl"
    text = f'{{"step": 1, "loss": null}}\n{line}\n{{"step": 3}}\n'
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^line 2 of .*metrics.jsonl {message}"):
        read(path)
    with MetricLog(path) as log, pytest.raises(ValueError, match=rf"^line 2 of .*metrics.jsonl {message}"):
        log.truncate_after(3)
    assert path.read_text() == text
    records, (sentence,) = read_undamaged(path)
    assert records == [{"step": 1, "loss": None}, {"step": 3}]
    assert message in sentence


@pytest.mark.parametrize(
    ("steps", "first", "last"),
    [
        ([0, 1, 2], 0, 2),
        ([1, 2], 1, 2),
        ([0, 1, 2], 1, 2),
        ([0, 1, 3], 0, 1),
        ([1, 2], 0, -1),
        ([2, 3], 1, 0),
        ([], 0, -1),
        ([], 1, 0),
    ],
)
def test_what_a_log_reaches_ends_before_its_first_gap(steps, first, last):
    assert unbroken([{"step": step} for step in steps], first) == last
