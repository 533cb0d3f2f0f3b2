"""Data sets of texts in the format of TensorFlow Datasets (TFDS), array_record, written without TensorFlow."""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

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
    builder = TextRows(
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
