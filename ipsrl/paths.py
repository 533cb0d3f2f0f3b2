"""Paths as users write them."""

from pathlib import Path


def expanded(path: str | Path, called: str) -> Path:
    """The path, where `~` is the home folder of the user, and `~name` that of another one; no shell need do it.

    Args:
      called: what the path is called in messages.

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
