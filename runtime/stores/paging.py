"""Pagination with signed cursors.

A cursor contains the key of the last row shown and a signature over that key and the query (the list's name, the
tenant, every filter), so it is valid only for that query. A list reads one row more than it shows, to know whether
there are more:

    page = cursors.read(request.cursor, request.limit, query=query)
    rows = await database.fetch(LIST, tenant_id, *(page.after or (None,)), page.fetch)  # ... id < $2 ... limit $3
    rows, pagination = cursors.write(rows, page.limit, key=lambda row: row["id"], query=query)

Pages follow keys, not offsets: rows added or deleted meanwhile neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from runtime.errors import Fault, invalid
from runtime.messages import Pagination
from runtime.settings import Key

LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 100

_CURSOR_LENGTH_MAX: Final = 2048
_SIGNATURE_BYTES: Final = 12
_NO_KEYS: Final = (Key("unset", bytes(32)),)

Position: TypeAlias = tuple[str | int | float, ...]
"""The key of a row, most significant part first."""

Row = TypeVar("Row")


class Page(NamedTuple):
    """limit: rows to show. after: the key of the last row already shown, () on the first page."""

    limit: int
    after: Position

    @property
    def fetch(self) -> int:
        """Rows to read: one more than shown, to know whether there are more."""
        return self.limit + 1


class Cursors:
    """Reads and writes cursors under the server's keys (setting SERVER_KEYS): the first signs, all verify."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys) or _NO_KEYS

    def read(self, cursor: str, limit: int, *, query: Sequence[Any]) -> Page:
        """Reads a cursor and a limit.

        limit: 0 = default (20), else 1-100. query: JSON values that name the list, the tenant and its filters.
        INVALID_ARGUMENT on `limit`, or on `cursor` if it does not belong to this query.
        """
        if not limit:
            limit = LIMIT_DEFAULT
        if not 1 <= limit <= LIMIT_MAX:
            raise invalid("limit", f"must be from 1 to {LIMIT_MAX}")
        return Page(limit, self._open(cursor, query) if cursor else ())

    def write(
        self, rows: Sequence[Row], limit: int, *, key: Callable[[Row], str | Position], query: Sequence[Any]
    ) -> tuple[list[Row], Pagination]:
        """The rows to show of those read (up to `limit` + 1), and the next page's cursor."""
        shown = list(rows[:limit])
        if len(rows) <= limit:
            return shown, Pagination()
        last = key(shown[-1])
        return shown, Pagination(
            next_cursor=self._seal((last,) if isinstance(last, str) else last, query), has_more=True
        )

    def _seal(self, position: Position, query: Sequence[Any]) -> str:
        encoded = msgspec.json.encode(position)
        return base64.urlsafe_b64encode(_signature(self._keys[0], encoded, query) + encoded).rstrip(b"=").decode()

    def _open(self, cursor: str, query: Sequence[Any]) -> Position:
        if len(cursor) > _CURSOR_LENGTH_MAX:
            raise _wrong()
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise _wrong() from None
        signature, encoded = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not any(hmac.compare_digest(signature, _signature(key, encoded, query)) for key in self._keys):
            raise _wrong()
        return tuple(msgspec.json.decode(encoded))


def _signature(key: Key, encoded: bytes, query: Sequence[Any]) -> bytes:
    # The purpose comes first, so that no other signature by the key is a valid cursor.
    signed = b"cursor\0" + msgspec.json.encode([list(query), encoded.decode("latin-1")])
    return hmac.digest(key.secret, signed, "sha256")[:_SIGNATURE_BYTES]


def _wrong() -> Fault:
    return invalid("cursor", "does not belong to this list and these filters; start again without a cursor")
