"""Damage to the files of a folder: what a bad disk, a bad copy or a person does to them."""

import dataclasses
import shutil
from pathlib import Path

from hypothesis import strategies as st

OTHER_JSON = ("null", "3", "[]", "[1]", "{}", '"text"', "[[[[1]]]]", "NaN", "1e999", "", "{", '{"a": 1, "a": 2}')
ODD_RECORDS = (
    '{"step": 1, "R": 1, "r": 2, "": 3, "a/b": 4, "a_b": 5, "A b": 6}\n',
    '{"step": 1, "x": "\\ud800"}\n',
    f'{{"step": 1, "x": {"9" * 400}}}\n',
    f'{{"step": 1, "x": {"[" * 5000}{"]" * 5000}}}\n',
    f'{{"step": 1, "x": {"[" * 500}{"]" * 500}}}\n',
)
"""JSON that not every reader can take."""


@dataclasses.dataclass(frozen=True)
class Damage:
    """One thing that happens to one file.

    Attributes:
      file: a number, of which file by the order of their names.
      kind: what happens.
      place: where, as a share of its length.
      byte: what is put there.
      text: what replaces the whole file.
    """

    file: int
    kind: str
    place: float
    byte: int
    text: str

    def happen(self, folder: Path) -> Path | None:
        """Changes the folder; returns the file, None if there is no file any more."""
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lock"))
        if not files:
            return None
        path = files[self.file % len(files)]
        KINDS[self.kind](path, path.read_bytes(), self)
        return path


def _changed(path: Path, content: bytes, damage: Damage) -> None:
    at = int(damage.place * len(content))
    path.write_bytes(content[:at] + bytes([damage.byte]) + content[at + 1 :])


def _cut(path: Path, content: bytes, damage: Damage) -> None:
    path.write_bytes(content[: int(damage.place * len(content))])


def _without_a_line(path: Path, content: bytes, damage: Damage) -> None:
    lines = content.splitlines(keepends=True)
    del lines[int(damage.place * len(lines)) : int(damage.place * len(lines)) + 1]
    path.write_bytes(b"".join(lines))


def _line_twice(path: Path, content: bytes, damage: Damage) -> None:
    lines = content.splitlines(keepends=True)
    at = int(damage.place * len(lines))
    path.write_bytes(b"".join([*lines[: at + 1], *lines[at:]]))


def _replaced(path: Path, content: bytes, damage: Damage) -> None:
    path.write_text(damage.text)


def _removed(path: Path, content: bytes, damage: Damage) -> None:
    path.unlink()


def _made_a_folder(path: Path, content: bytes, damage: Damage) -> None:
    path.unlink()
    path.mkdir()


def _made_a_link(path: Path, content: bytes, damage: Damage) -> None:
    path.unlink()
    path.symlink_to(path)


def _folder_removed(path: Path, content: bytes, damage: Damage) -> None:
    shutil.rmtree(path.parent)


KINDS = {
    "changed": _changed,
    "cut": _cut,
    "without a line": _without_a_line,
    "line twice": _line_twice,
    "replaced": _replaced,
    "removed": _removed,
    "made a folder": _made_a_folder,
    "made a link": _made_a_link,
    "folder removed": _folder_removed,
}


def damages(texts: tuple[str, ...] = OTHER_JSON) -> st.SearchStrategy[list[Damage]]:
    """One to three things that happen, one after the other."""
    one = st.builds(
        Damage,
        st.integers(0, 63),
        st.sampled_from(sorted(KINDS)),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 255),
        st.sampled_from(texts),
    )
    return st.lists(one, min_size=1, max_size=3)
