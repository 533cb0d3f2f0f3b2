"""Reading gives what was logged, however the process ended."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipsrl.records.metric_log import MetricLog, extent_of, read, read_undamaged


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


def test_the_extent_is_that_of_the_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for step in range(3):
        with MetricLog(path) as log:
            assert log.extent == extent_of(path.read_bytes())
            log.write(step, {"reward": 0.5, "rule": "ü"})
            log.flush()
            log.extend([{"step": step}] * 2)
            assert log.extent == extent_of(path.read_bytes())
    with MetricLog(path) as log:
        log.rewrite(read(path)[:2])
        log.write(7, {"reward": 0.5})
        assert log.extent == extent_of(path.read_bytes())
    assert [record["step"] for record in read(path)] == [0, 0, 7]


@given(cut=st.integers(0, 100))
def test_a_truncated_last_line_is_not_read(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    whole = b"".join(b'{"step": %d, "loss": null}\n' % step for step in range(3))
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    assert len(read(path)) == path.read_bytes().count(b"\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"st', "is not valid JSON"),
        ('{"step": 2, "x": ' + "[" * 100_000, "is not valid JSON"),
        (f'{{"step": 2, "x": {"9" * 400}}}', "is not valid JSON"),
        ('{"step": true}', "is not a record"),
        ("[2]", "is not a record"),
        ("{}", "is not a record"),
        ('{"step": "2"}', "is not a record"),
    ],
)
def test_damage_inside_the_log_is_reported(tmp_path, line, message):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "loss": null}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(ValueError, match=rf"^line 2 of .*metrics.jsonl {message}"):
        read(path)
    records, (sentence,) = read_undamaged(path)
    assert records == [{"step": 1, "loss": None}, {"step": 3}]
    assert message in sentence
