"""Values of the model: times are microseconds, JSON is its bytes; and how both look to who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

Row = Any
"""A row of a table: a named tuple of its columns."""


def unix(at: int | None) -> int:
    """unix(): seconds of a time, 0 where unset."""
    return 0 if at is None else at // 1_000_000


def at_unix(seconds: int | None) -> int | None:
    """at_unix(): a time of seconds, None where 0."""
    return seconds * 1_000_000 if seconds else None


def epoch(at: int) -> float:
    """extract(epoch FROM at)::float8."""
    return at / 1_000_000


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def datetime_of(at: int | None) -> datetime | None:
    """A timestamptz as asyncpg gives it."""
    return None if at is None else _EPOCH + timedelta(microseconds=at)


def micros_of(at: datetime | None) -> int | None:
    """A timestamptz as asyncpg takes it."""
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def dumps(value: Any) -> bytes | None:
    """JSON as a row keeps it; bytes are JSON already. A parameter None is SQL's NULL, as asyncpg has it."""
    return value if value is None or isinstance(value, bytes) else msgspec.json.encode(value)


def loads(value: bytes | None) -> Any:
    """JSON as asyncpg gives it."""
    return None if value is None else msgspec.json.decode(value)


def newest(rows: list[Row], key: str, after: str | None, limit: int) -> list[Row]:
    """ORDER BY key DESC LIMIT, after an id."""
    found = [row for row in rows if after is None or getattr(row, key) < after]
    found.sort(key=lambda row: getattr(row, key), reverse=True)
    return found[:limit]


def like(text: str, pattern: str) -> bool:
    """text ILIKE pattern, of patterns that are '%' or '%words%' (runtime/stores/paging.py)."""
    folded, place = text.lower(), 0
    words = [part.replace("\\%", "%").replace("\\_", "_").replace("\\\\", "\\") for part in _wildcards(pattern.lower())]
    if len(words) == 1:
        return folded == words[0]
    if not folded.startswith(words[0]) or not folded.endswith(words[-1]):
        return False
    for word in words[1:-1]:
        place = folded.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


def _wildcards(pattern: str) -> list[str]:
    parts, part, place = [], "", 0
    while place < len(pattern):
        if pattern[place] == "\\":
            part += pattern[place : place + 2]
            place += 2
            continue
        if pattern[place] == "%":
            parts.append(part)
            part = ""
        else:
            part += pattern[place]
        place += 1
    return [*parts, part]


def of(row: Row, names: str, **more: Any) -> dict[str, Any]:
    """Columns of a row by their names, and more."""
    return {name: getattr(row, name) for name in names.split()} | more


def standing(status: str, expires_at: int | None, tasked: bool, now: int) -> str:
    """standing(): what a reward is now."""
    late = status == "won" and expires_at is not None and expires_at <= now and not tasked
    return "expired" if late else status
