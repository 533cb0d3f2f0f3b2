"""Files opened in folders that others can write: no link is followed by a write, and no opening blocks."""

import os

import pytest

from ipsrl.checking.regular_files import kind_of, open_regular, read_bytes

PRECIOUS = "precious"


def a_link(path):
    (path.parent / "elsewhere").write_text(PRECIOUS)
    path.symlink_to(path.parent / "elsewhere")


def a_hard_link(path):
    (path.parent / "elsewhere").write_text(PRECIOUS)
    path.hardlink_to(path.parent / "elsewhere")


OTHERS = {
    "is a link, but must be a file": a_link,
    "is a file with a second name, a hard link": a_hard_link,
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
    "is a pipe, but must be a file": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(path.parent / "pipe"), path.symlink_to(path.parent / "pipe")),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "is a folder, but must be a file": os.mkdir,
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_file_is_neither_written_nor_waited_for(other, tmp_path):
    OTHERS[other](tmp_path / "file")
    with pytest.raises(ValueError, match=other if other.startswith("is ") else "is a link, but must be a file"):
        open_regular(tmp_path / "file", "ab")
    assert not (tmp_path / "nothing").exists()
    if (elsewhere := tmp_path / "elsewhere").exists():
        assert elsewhere.read_text() == PRECIOUS


def test_reading_follows_links_to_files_alone(tmp_path):
    a_link(tmp_path / "file")
    assert read_bytes(tmp_path / "file") == PRECIOUS.encode()
    for name, to in (("device", "/dev/zero"), ("folder", tmp_path)):
        (tmp_path / name).symlink_to(to)
        with pytest.raises(ValueError, match=f"{name} is a {name}, but must be a file"):
            read_bytes(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nothing")
    assert kind_of(tmp_path / "file" / "below") is None


def test_what_is_there_is_kept(tmp_path):
    (tmp_path / "file").write_text(PRECIOUS)
    with open_regular(tmp_path / "file", "a", encoding="utf-8") as file:
        file.write("é")
    assert (tmp_path / "file").read_text(encoding="utf-8") == PRECIOUS + "é"
    with pytest.raises(FileExistsError):
        open_regular(tmp_path / "file", "xb")
