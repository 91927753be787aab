"""Read positions from INPUT: a .npy file, a column of Parquet, or a column of CSV text."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import IO, Any

from .._models.check.arrays import named, open_vector
from .csv import Block, Clock, KeptColumn, Source, column_index, open_csv

# maps the first bytes of a file to its format
_MAGIC = {b"\x93NUM": "npy", b"PAR1": "parquet"}


@contextlib.contextmanager
def open_positions(
    path: str,
    column: str | None,
    delimiter: str | None,
    keep: bool,
    spool: tuple[IO[bytes], str] | None,
    clock: Clock = "UTC",
) -> Iterator[Source]:
    """Yield the positions in a file. The path - is standard input.

    keep: whether blocks also contain the cells of all columns. spool, clock: arguments of `open_csv`.
    """
    file_format = _format_of(path)
    if file_format == "npy" and column is not None:
        raise ValueError(f"{path} is a .npy file and has no columns; leave --column out")
    if file_format != "text" and delimiter is not None:
        raise ValueError(f"{path} is not CSV; leave --delimiter out")
    if file_format == "npy" and keep:
        raise ValueError(f"{path} is a .npy file and has no columns; leave --keep out")
    if file_format == "npy":
        with _npy(path) as source:
            yield source
    elif file_format == "parquet":
        with _parquet(path, column, keep) as source:
            yield source
    else:
        with open_csv(path, column, delimiter, keep, spool, clock) as source:
            yield source


def _format_of(path: str) -> str:
    """Return "npy", "parquet" or "text", by the suffix or the first bytes of a file."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".npy", ".parquet"):
        return suffix[1:]
    if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        return "text"
    with named(path), open(path, "rb") as file:
        return _MAGIC.get(file.read(4), "text")


@contextlib.contextmanager
def _npy(path: str) -> Iterator[Source]:
    with open_vector(path) as vector:

        def blocks(rows: int) -> Iterator[Block]:
            for first in range(0, vector.length, rows):
                yield Block([(slice(None), vector.take(min(rows, vector.length - first)))])

        yield Source(vector.length, lambda: f"{path} ({vector.dtype})", blocks)


@contextlib.contextmanager
def _parquet(path: str, column: str | None, keep: bool) -> Iterator[Source]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(f"{path}: Parquet needs the package pyarrow; run pip install pyarrow") from None

    @contextlib.contextmanager
    def reading() -> Iterator[None]:
        """Turn errors of pyarrow into errors that name the file."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise ValueError(f"{path} cannot be read as Parquet: {error}") from None

    with open(path, "rb") as file:
        with reading():
            parquet = pq.ParquetFile(file)
        schema = parquet.schema_arrow
        index = column_index(schema.names, column, path)
        field = schema.field(index)
        if pa.types.is_nested(field.type):
            raise ValueError(
                f"{path}: column {field.name!r} has the type {field.type}, but must have one position per row"
            )

        def blocks(rows: int) -> Iterator[Block]:
            batches = parquet.iter_batches(rows, columns=None if keep else [field.name])
            while True:
                with reading():
                    batch: Any = next(batches, None)
                if batch is None:
                    return
                # without keep, the batch has only the column of positions
                positions = batch.column(index if keep else 0)
                yield Block([(slice(None), positions)], batch.columns if keep else ())

        label = f"{path}, column {field.name!r} ({field.type})"
        kept_columns = [KeptColumn(kept_field.name, kept_field) for kept_field in schema] if keep else []
        yield Source(parquet.metadata.num_rows, lambda: label, blocks, kept_columns)
