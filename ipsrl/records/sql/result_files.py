"""The tables of results as Parquet files: written, checked, and added to those of a connection."""

import glob
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ipsrl import extras
from ipsrl.checking.specifications import shortened
from ipsrl.records.sql.result_columns import DESCRIPTION, OF_RECORDS, TYPES
from ipsrl.records.sql.sql_texts import IN_MEMORY, TABLES, in_one_sentence, literal

if TYPE_CHECKING:
    import duckdb


def add_parquet(connection: "duckdb.DuckDBPyConnection", folder: Path) -> None:
    """Adds the rows of a folder of Parquet files to both tables."""
    for table, file in parquet_files(folder).items():
        twice = f"select path from {_stored(file)} intersect select path from {table}"
        if found := connection.execute(twice).fetchone():
            raise ValueError(f"{found[0]} is given twice: give its folder or its Parquet files, not both")
        connection.execute(f"create or replace table {table} as from {_stored(file)} union all by name from {table}")


def check_parquet(folder: Path) -> None:
    """Raises ValueError unless both files can be read to their ends, and are tables of runs and of records."""
    extras.require("duckdb")
    import duckdb

    for (table, file), fixed in zip(parquet_files(folder).items(), (DESCRIPTION, OF_RECORDS), strict=True):
        # On its own connection, which an internal error ends.
        with duckdb.connect(config=IN_MEMORY) as connection:
            try:
                columns = connection.execute(f"describe from {_stored(file)}").fetchall()
                connection.execute(f"select bit_xor(hash(stored)) from {_stored(file)} as stored").fetchall()
            # Some messages of DuckDB are not UTF-8 either.
            except (duckdb.Error, UnicodeDecodeError) as error:
                raise ValueError(f"{file} is damaged: it cannot be read as Parquet") from error
        types = {name: type_name for name, type_name, *_ in columns}
        wrong = [name for name, type_name in {"path": "VARCHAR", **fixed}.items() if types.get(name) != type_name]
        wrong += [name for name, type_name in types.items() if type_name not in TYPES]
        if wrong:
            raise ValueError(
                f"{file} is not the table {table}: its column {shortened(wrong[0])} is missing or of another type"
            )


def _stored(file: Path) -> str:
    # Folders such as floor=0.2 would otherwise be read as partitions.
    return f"read_parquet({literal(glob.escape(str(file)))}, hive_partitioning = false)"


def write_parquet(connection: "duckdb.DuckDBPyConnection", folder: Path) -> None:
    """Writes both tables to a folder, each file atomically."""
    extras.require("duckdb")
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    for table, file in parquet_files(folder).items():
        try:
            # A folder of its own, because DuckDB would write through a link.
            with tempfile.TemporaryDirectory(prefix=".", suffix=".tmp", dir=folder) as temporary:
                written = f"{temporary}/{file.name}"
                connection.execute(f"copy {table} to {literal(written)} (format parquet)")
                os.replace(written, file)
        except duckdb.IOException as error:
            raise OSError(f"cannot write {file}: {in_one_sentence(str(error), ())}") from error
        except OSError as error:
            raise OSError(f"cannot write {file}: {error.strerror}") from error


def parquet_files(folder: Path) -> dict[str, Path]:
    """The path of each table's Parquet file."""
    return {table: folder / f"{table}.parquet" for table in TABLES}
