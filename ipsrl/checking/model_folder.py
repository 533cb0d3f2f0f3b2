"""The files of a Hugging Face folder, looked at before libraries read them: a damaged one is named in one sentence."""

import json
import os
import textwrap
from pathlib import Path
from typing import Any

SUFFIXES = (".json", ".jinja", ".model", ".safetensors", ".txt")


def require_files(folder: Path) -> None:
    """Raises ValueError unless `folder` exists and all files of a checkpoint or a tokenizer in it can be opened.

    Libraries would otherwise go on without a file that is a folder, or a link to nothing.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: give the folder of a Hugging Face checkpoint")
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and not path.is_file():
            raise ValueError(f"{path} is a folder or a link to nothing, but must be a file: copy the checkpoint again")
        if path.suffix in SUFFIXES and not os.access(path, os.R_OK):
            raise ValueError(f"{path} may not be read: give this user the permission")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
      ValueError: the file does not exist or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist: give the folder of a Hugging Face checkpoint.") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): copy it again from the checkpoint.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds {textwrap.shorten(repr(content), 60)}, but must hold a JSON object: copy it again."
        )
    return content
