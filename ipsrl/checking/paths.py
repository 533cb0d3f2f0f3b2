"""Paths as users write them."""

from pathlib import Path

from ipsrl.checking.specifications import shortened


def expanded(path: str | Path, called: str) -> Path:
    """The path, where `~` is the home folder of the user, and `~name` that of another one; no shell need do it.

    Raises:
      ValueError: there is no such user, or no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise ValueError(
            f"{called} is {str(path)!r}, but {user} has no home folder here: write the whole path, or ./{user} for a "
            "folder of this name"
        ) from None


def require_readable(text: str, called: str) -> None:
    """Raises ValueError unless an argument is in UTF-8: some libraries can neither write nor open others."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{called} {shortened(text)} is not in UTF-8; choose another") from error


def require_possible(path: Path, called: str = "--out") -> None:
    """Raises ValueError unless `path` is a folder for results, or can become one."""
    require_readable(str(path), called)
    # Of what would lie in a file the system says that it does not exist.
    for above in (path, *path.parents):
        if above.exists() and not above.is_dir():
            within = "" if above == path else f", so {path} cannot be in it"
            raise ValueError(f"{called} {above} is a file{within}; it must be a folder")
