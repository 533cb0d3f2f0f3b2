"""A malformed call of the public API ends in one sentence that names the argument; a harmless one works."""

from pathlib import Path

import numpy as np
import pytest

from tests.hostile import api_trial
from tests.hostile.api_trial import MOST_CALLS, REFUSED, Ending, faults, made
from tests.hostile.calls.harmless import EQUAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("files")
    api_trial.write_files(path)
    return path


@pytest.mark.parametrize(("call", "message"), [pytest.param(*row, id=row[0][:80]) for row in REFUSED])
def test_a_malformed_call_is_refused(call, message, folder):
    assert not faults(made(call, folder), message)


@pytest.mark.parametrize(("call", "other"), [pytest.param(*row, id=row[0][:80]) for row in EQUAL])
def test_a_harmless_call_has_the_right_value(call, other, folder):
    found, right = made(call, folder), made(other, folder)
    assert found.error is right.error is None
    np.testing.assert_allclose(found.value, right.value, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message", "fault"),
    [
        ("1", "text is 1", "it was accepted"),
        ("[].pop()", "pop from empty list", "it raised IndexError"),
        ("int('x')", "text is 'x'", "it said"),
        ("getattr(3, 'x' * 700)", "", "it said 7"),
    ],
)
def test_a_fault_is_seen(call, message, fault, folder):
    assert any(found.startswith(fault) for found in faults(made(call, folder), message))


def test_the_work_of_a_call_is_counted_and_much_is_a_fault(folder):
    assert 1000 <= made("[abs(1) for _ in range(1000)]", folder).calls < 1100
    assert faults(Ending(None, ValueError("no"), MOST_CALLS), "no") == []
    assert faults(Ending(None, ValueError("no"), MOST_CALLS + 1), "no") == ["it made 20000001 calls"]


@pytest.mark.slow
def test_the_whole_table_is_little_work(folder):
    assert sum(made(call, folder).calls for call, _ in REFUSED) < 2 * MOST_CALLS
