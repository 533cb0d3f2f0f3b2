"""Data sets of texts in the format of TensorFlow Datasets (TFDS), array_record, written and read without TensorFlow."""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ipsrl.checking.foreign_code import said

VERSION = "1.0.0"


def write_texts(
    out: Path, name: str, features: Sequence[str], splits: Mapping[str, Iterable[Mapping[str, str]]]
) -> Path:
    """Writes a data set as version 1.0.0, and returns its folder, out/name, which holds the folder of the version.

    Args:
      out: folder of data sets.
      name: of the data set, in lower case, with digits and underscores.
      features: names of the texts of a row.
      splits: name of a split -> its rows in order, at least one; each is a dict of texts with all features.

    Raises:
      ValueError: `out` already holds this version of a data set with this name.
    """
    # Imported late: it takes a second, and --help does not need it.
    import tensorflow_datasets as tfds

    class TextRows(tfds.dataset_builders.AdhocBuilder, skip_registration=True):
        def _split_generators(self, dl_manager):
            # The overridden method would need TensorFlow to determine the type of the rows.
            return {split: enumerate(rows) for split, rows in splits.items()}

    if (out / name / VERSION).exists():
        raise ValueError(f"{out / name / VERSION} exists already: choose another folder")
    # The decorators of TFDS hide the signatures of methods.
    builder: Any = TextRows(
        name=name,
        version=VERSION,
        features=tfds.features.FeaturesDict({feature: tfds.features.Text() for feature in features}),
        split_datasets=splits,
        data_dir=out,
        file_format="array_record",
        disable_shuffling=True,
    )
    # TFDS reports on stdout and by several bars, of files that the caller may yet rename.
    tfds.disable_progress_bar()
    with contextlib.redirect_stdout(io.StringIO()):
        builder.download_and_prepare()
    return out / name


def stored_split(
    folder: Path, features: Sequence[str], split: str, what: str, remedy: str, others: str, as_bytes: bool = False
) -> Sequence[Any]:
    """The rows of a split, in the order of the files, as dicts; each is read when it is asked for.

    Args:
      folder: of a version of a data set, with all of its files.
      features: names of texts that rows must have.
      split: in the TFDS split syntax, such as "train", "test" or "train[:100]".
      what: rows are called so in messages.
      remedy: what to do about a folder that cannot be read.
      others: what to do where a feature is missing.
      as_bytes: gives each row as the example of TFDS that the file holds.

    Raises:
      ValueError: the folder holds no such data set in array_record, or no such split.
    """
    # Imported late: it takes a second, and nothing else needs it.
    import tensorflow_datasets as tfds

    try:
        # The decorators of TFDS hide the signatures of methods.
        builder: Any = tfds.builder_from_directory(folder)
        known, splits = builder.info.features.keys(), ", ".join(builder.info.splits)
    # TFDS reads several files, each of which may be missing or damaged in its own way.
    except Exception as error:
        raise ValueError(f"{folder} holds no data set that can be read ({said(error)}): {remedy}") from error
    if missing := [name for name in features if name not in known]:
        raise ValueError(f"{folder} has no feature {missing[0]!r}; known: {', '.join(sorted(known))}: {others}")
    method = tfds.decode.DeserializeMethod
    how = method.RAW_BYTES if as_bytes else method.DESERIALIZE_AND_DECODE
    try:
        return builder.as_data_source(split, deserialize_method=how)
    except NotImplementedError:
        raise ValueError(f"{folder} is not in the format array_record: {remedy}") from None
    except ValueError as error:
        raise ValueError(
            f"{folder} has no {what} in the split {split!r} ({said(error)}); known splits: {splits}"
        ) from None
