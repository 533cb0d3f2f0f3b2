import errno
import os

import pytest

from ipsrl.records import json_files


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "summary.json"
    json_files.write_json(path, {"steps": 1})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(json_files.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*summary\.json"):
        json_files.write_json(path, {"steps": 2})
    assert json_files.read_json(path) == {"steps": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_written_through_a_link(tmp_path):
    path, elsewhere = tmp_path / "summary.json", tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    path.symlink_to(elsewhere)
    # The name under which this process writes first.
    (tmp_path / f".summary.json.{os.getpid()}.tmp").symlink_to(elsewhere)
    json_files.write_json(path, {"a": 1})
    assert elsewhere.read_text() == "precious"
    assert not path.is_symlink()
    assert json_files.read_json(path) == {"a": 1}
