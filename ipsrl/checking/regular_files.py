"""Opens files in folders where others may have put something else: a link, a pipe, a device.

Through a link a run would change a file outside of its folder; a pipe and some devices wait for ever.
"""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Literal, overload

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


def kind_of(path: str | Path, follow: bool = False) -> str | None:
    """The kind of thing at a path, in words: "a file", "a link"; None if nothing is there.

    With `follow`, a link is what it leads to.
    """
    try:
        return _KINDS[stat.S_IFMT(os.stat(path, follow_symlinks=follow).st_mode)]
    except (FileNotFoundError, NotADirectoryError):
        return None


def require(path: str | Path, called: Literal["a file", "a folder"], follow: bool = False) -> None:
    """Raises ValueError if something stands at a path that is not what it is called; arguments as in `kind_of`."""
    if (kind := kind_of(path, follow)) not in (None, called):
        raise ValueError(f"{path} is {kind}, but must be {called}")


@overload
def open_regular(path: str | Path, mode: Literal["rb"]) -> BufferedReader: ...


@overload
def open_regular(path: str | Path, mode: Literal["r", "a", "ab", "xb"], **settings: Any) -> IO[Any]: ...


def open_regular(path: str | Path, mode: Literal["r", "rb", "a", "ab", "xb"], **settings: Any) -> IO[Any]:
    """Opens a file as `open` does, if it is one, or if it is to be made; no mode empties it.

    A link is followed for reading, and never for writing. Nor is a file written that has a second name, a hard link:
    others would find it changed under the other name.

    Raises:
      ValueError: something else stands there.
      OSError: as `open`.
    """
    return open(path, mode, opener=_descriptor, **settings)


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, which may be behind a link; errors as in `open_regular`."""
    with open_regular(path, "rb") as file:
        return file.read()


def _descriptor(path: str, flags: int) -> int:
    writes = flags & os.O_ACCMODE != os.O_RDONLY
    require(path, "a file", follow=not writes)
    # What has taken its place since then is neither followed nor waited for.
    descriptor = os.open(path, flags | os.O_NONBLOCK | (os.O_NOFOLLOW if writes else 0), 0o666)
    if writes and os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise ValueError(f"{path} is a file with a second name, a hard link: copy it, so that it alone is changed")
    return descriptor
