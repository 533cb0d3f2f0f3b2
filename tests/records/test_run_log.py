import pytest

from ipsrl.records.metric_log import extent_of
from ipsrl.records.run_log import cut, lost

CONTENT = b'{"step": 1}\n{"step": 2}\n'
WRITTEN = {"metrics.jsonl": extent_of(CONTENT[:12])}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(CONTENT)
    (tmp_path / "warnings.jsonl").write_bytes(b"{}\n")
    return tmp_path


def test_what_was_written_is_there_and_the_rest_is_dropped(folder):
    assert lost(folder, WRITTEN) is None
    cut(folder, WRITTEN)
    assert (folder / "metrics.jsonl").read_bytes() == CONTENT[:12]
    assert [path.name for path in folder.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    ("written", "phrase"),
    [
        (None, "it does not name the records that it continues"),
        ([WRITTEN], "it does not name the records that it continues"),
        ({"../other": extent_of(CONTENT)}, "it does not name the records that it continues"),
        ({"metrics.jsonl": {"bytes": "12", "sha256": ""}}, "it does not say how much of metrics.jsonl it continues"),
        ({"metrics.jsonl": [12]}, "it does not say how much of metrics.jsonl it continues"),
        ({"metrics.jsonl": WRITTEN["metrics.jsonl"] | {"bytes": -12}}, "records in metrics.jsonl are lost or changed"),
        ({"metrics.jsonl": WRITTEN["metrics.jsonl"] | {"bytes": 24}}, "records in metrics.jsonl are lost or changed"),
        ({"outcomes.jsonl": extent_of(CONTENT)}, "outcomes.jsonl is missing"),
    ],
)
def test_anything_else_is_a_phrase(folder, written, phrase):
    assert lost(folder, written) == phrase
