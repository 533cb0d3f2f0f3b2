"""Damage to the files of a folder: what a bad disk, a bad copy or a person does to them."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
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


def holds(name, content):
    """Damage that writes the file anew: bytes, or JSON."""
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda folder: (folder / name).write_bytes(content)


def cut(name, share=0.5):
    """Damage as of a download that ended early."""

    def happen(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return happen


def missing(*names):
    def happen(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return happen


def in_place_of(name, put):
    """Damage that puts something else where a file was: `Path.mkdir`, `os.mkfifo`."""

    def happen(folder):
        (folder / name).unlink(missing_ok=True)
        put(folder / name)

    return happen


def folder_in_place_of(name):
    return in_place_of(name, Path.mkdir)


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


def _without_a_line(path: Path, content: bytes, damage: Damage) -> None:
    lines = content.splitlines(keepends=True)
    del lines[int(damage.place * len(lines)) : int(damage.place * len(lines)) + 1]
    path.write_bytes(b"".join(lines))


def _line_twice(path: Path, content: bytes, damage: Damage) -> None:
    lines = content.splitlines(keepends=True)
    at = int(damage.place * len(lines))
    path.write_bytes(b"".join([*lines[: at + 1], *lines[at:]]))


KINDS = {
    "changed": _changed,
    "cut": lambda path, content, damage: cut(path.name, damage.place)(path.parent),
    "without a line": _without_a_line,
    "line twice": _line_twice,
    "replaced": lambda path, content, damage: path.write_text(damage.text),
    "removed": lambda path, content, damage: path.unlink(),
    "made a folder": lambda path, content, damage: folder_in_place_of(path.name)(path.parent),
    "made a link": lambda path, content, damage: in_place_of(path.name, lambda link: link.symlink_to(link))(
        path.parent
    ),
    "folder removed": lambda path, content, damage: shutil.rmtree(path.parent),
}


def copied(original: Path, folder: Path, damage: Sequence[Damage] = ()) -> set[Path | None]:
    """Makes a folder a copy to which this happens, whatever it was; returns the files."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    return {each.happen(folder) for each in damage}


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
