"""An export as a Parquet file, written row group by row group. Needs the extra `parquet`.

The columns depend only on the export, not on its rows or on a campaign's forms, so that several files can be read as
one table. Integers are int64, times timestamps in UTC, dates date32; an object or a list is a text of JSON.

Rows wait in memory until a group is full, so memory does not grow with the export.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from runtime import messages as m

CONTENT_TYPE: Final = "application/vnd.apache.parquet"

GROUP_ROWS: Final = 50_000
GROUP_BYTES: Final = 8 * 1024 * 1024
"""The limits of the rows in memory. A group ends after the page of Core that reaches one of them."""

INTEGERS: Final = frozenset(
    {
        *("amount", "attempts", "balance_after", "leaf_index", "old_enough", "page_visitors", "plays", "points"),
        *("quantity", "revision", "score", "seq", "turns", "views", "visitors", "wins"),
    }
)
NUMBERS: Final = frozenset({"value"})
FLAGS: Final = frozenset({"erased"})
DATES: Final = frozenset({"old_enough_on"})
"""Columns by type. Those of TIME_ENDS are times; all others are texts."""

TIME_ENDS: Final = ("_at", "hour")

_decode: Final = msgspec.json.Decoder().decode_lines
_encode: Final = msgspec.json.Encoder().encode


def is_available() -> bool:
    """Whether the extra `parquet` is installed."""
    return find_spec("pyarrow") is not None


async def file(parts: AsyncIterator[m.ReadExportReply]) -> AsyncIterator[bytes]:
    """The bytes of a file with the rows of all parts, which are JSON lines."""
    part = await anext(parts)
    written = await asyncio.to_thread(_File, part.columns)  # The first one imports pyarrow.
    yield await asyncio.to_thread(written.add, part.lines)
    async for part in parts:
        yield await asyncio.to_thread(written.add, part.lines)
    yield await asyncio.to_thread(written.close)


class _File:
    """A Parquet file that is being written. `add` and `close` return the bytes written since the last call."""

    def __init__(self, columns: Sequence[str]) -> None:
        import pyarrow
        from pyarrow import parquet

        types: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {
            **dict.fromkeys(INTEGERS, (pyarrow.int64(), None)),
            **dict.fromkeys(NUMBERS, (pyarrow.float64(), None)),
            **dict.fromkeys(FLAGS, (pyarrow.bool_(), None)),
            **dict.fromkeys(DATES, (pyarrow.date32(), _date)),
            **{name: (pyarrow.timestamp("ms", tz="UTC"), _time) for name in columns if name.endswith(TIME_ENDS)},
        }
        self._arrow = pyarrow
        self._columns = [(name, *types.get(name, (pyarrow.string(), _text))) for name in columns]
        self._schema = pyarrow.schema([(name, kind) for name, kind, _ in self._columns])
        self._sink = io.BytesIO()
        self._writer = parquet.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, lines: str) -> bytes:
        """Adds rows. Writes a group if enough rows wait."""
        if rows := _decode(lines):
            columns = []
            for name, kind, convert in self._columns:
                cells = [row[name] for row in rows]
                columns.append(self._arrow.array(list(map(convert, cells)) if convert else cells, kind))
            batch = self._arrow.RecordBatch.from_arrays(columns, schema=self._schema)
            self._batches.append(batch)
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write()
        return self._taken()

    def close(self) -> bytes:
        """Writes the remaining rows and the footer."""
        if self._batches:
            self._write()
        self._writer.close()
        return self._taken()

    def _write(self) -> None:
        table = self._arrow.Table.from_batches(self._batches, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches = []
        self._rows = self._bytes = 0

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken


def _time(cell: str | int | None) -> datetime | None:
    if cell is None:
        return None
    return datetime.fromtimestamp(cell, UTC) if isinstance(cell, int) else datetime.fromisoformat(cell)


def _date(cell: str | None) -> date | None:
    return None if cell is None else date.fromisoformat(cell)


def _text(cell: Any) -> str | None:
    return cell if cell is None or type(cell) is str else _encode(cell).decode()
