"""Imports codes over HTTP from JSON `{"codes": [...]}`, CSV or plain text, streamed.

The body is never in memory as a whole: codes go to Core in batches (runtime/operations/code_lines.py), two at a time,
and the response sums up the batches. A batch that Core refuses as overloaded is retried. An import that fails midway
reports how many codes were `added` and `lines` processed; resending it with the reported `idempotency_key` resumes it.
"""

from __future__ import annotations

import asyncio
import codecs
import csv
import itertools
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from aiohttp import web

from runtime import ids
from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault, Status, invalid
from runtime.http.admission.idempotency import REPLAYED, idempotency_key, replay_headers
from runtime.http.bodies import JSON, stream_body, type_of
from runtime.http.envelope import Handler, ok
from runtime.operations import Operation
from runtime.operations.code_lines import CODE_CHARACTERS_MAX, ERRORS_MAX
from runtime.wire import codec, proto_json
from runtime.wire.code_lines import VALUE_CHARACTERS_MAX, CsvLines, Line, Reader, TextLines
from runtime.wire.schema import is_storable

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
PART: Final = 2_500
"""Codes per call: few enough that encrypting them does not delay other requests."""
PARTS_AT_ONCE: Final = 2
"""One batch is encrypted while the other is stored."""
PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The back-off before each retry of a batch."""
_RESUMED: Final = (Status.UNAVAILABLE, Status.INTERNAL)

_UNPRINTABLE: Final = "\x7f"
_SLICE: Final = 4_096
_PLAIN_ITEM: Final = re.compile(r'[ \t\r\n]*"([^"\\\x00-\x1f]*)"[ \t\r\n]*,')

_FIELDS: Final = frozenset({"scope", "expires_at", "expiresAt", "idempotency_key", "idempotencyKey"})
"""Fields of the message that a JSON body may have beside `codes`, by both of their names."""

Scope = Callable[[web.Request], m.Scope | None]


class JsonCodes:
    """`{"codes": ["...", ...]}`, with other fields of the message before it. A code's line is its index, from 1."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self._rest = ""
        self._line = 0
        self._state = "begin"
        self._seen = False
        self._decoder = json.JSONDecoder()

    def feed(self, text: str) -> Iterator[Line]:
        for start in range(0, len(text), _SLICE):
            # Small slices: taking off a token copies the remaining text.
            yield from self._feed(text[start : start + _SLICE])

    def _feed(self, text: str) -> Iterator[Line]:
        self._rest += text
        while True:
            if self._state in ("item", "item or end"):
                yield from self._plain_items()
            if (step := self._step()) is None:
                break
            yield from step
        if len(self._rest) > VALUE_CHARACTERS_MAX:
            raise invalid(f"codes[{self._line}]", "is too long")

    def end(self) -> Iterator[Line]:
        # A space terminates a value that could have continued.
        yield from self.feed(" ")
        if self._state != "done" or self._rest.strip():
            raise _not_json()

    def _plain_items(self) -> Iterator[Line]:
        """Fast path for items without escapes that another item follows: nearly all of them."""
        end = 0
        while (match := _PLAIN_ITEM.match(self._rest, end)) is not None:
            self._line += 1
            end, self._state = match.end(), "item"
            yield Line(self._line, match[1])
        self._rest = self._rest[end:]

    def _step(self) -> list[Line] | None:
        """Consumes one token; None if more text is needed."""
        self._rest = self._rest.lstrip(" \t\r\n")
        if not self._rest or self._state == "done":
            if self._rest:
                raise _not_json()
            return None
        first = self._rest[0]
        match self._state:
            case "begin":
                self._take("{", "key or end")
            case "key" | "key or end":
                if first == "}" and self._state == "key or end":
                    self._take("}", "done")
                else:
                    return self._member()
            case "after member":
                self._take(*(("}", "done") if first == "}" else (",", "key")))
            case "item" | "item or end":
                if first == "]" and self._state == "item or end":
                    self._take("]", "after member")
                else:
                    return self._item()
            case "after item":
                self._take(*(("]", "after member") if first == "]" else (",", "item")))
        return []

    def _take(self, character: str, state: str) -> None:
        if self._rest[0] != character:
            raise _not_json()
        self._rest, self._state = self._rest[1:], state

    def _member(self) -> list[Line] | None:
        """Consumes `"codes": [`, or another member as a whole. Neither has lines: []. None if more text is needed."""
        match = re.match(r'"([^"\\]{1,64})"\s*:\s*(?=\S)', self._rest)
        if match is None:
            if re.fullmatch(r'"[^"\\]{0,64}("\s*(:\s*)?)?', self._rest):
                return None
            raise _not_json()
        if match[1] == "codes" and not self._seen:
            if self._rest[match.end()] != "[":
                raise invalid("codes", "must be an array of strings")
            self._rest, self._state, self._seen = self._rest[match.end() + 1 :], "item or end", True
            return []
        if match[1] not in _FIELDS:
            raise invalid(match[1], "unknown field")
        if match[1] in self.fields:
            raise invalid(match[1], "must not be repeated")
        if self._line > PART:  # Codes were sent without it.
            raise invalid(match[1], f"must be before codes, since there are more than {PART}")
        if (found := self._value(match.end())) is None:
            return None
        self.fields[match[1]], end = found
        self._rest, self._state = self._rest[end:], "after member"
        return []

    def _item(self) -> list[Line] | None:
        if (found := self._value(0)) is None:
            return None
        code, end = found
        if not isinstance(code, str):
            raise invalid(f"codes[{self._line}]", "must be a string")
        self._line += 1
        self._rest, self._state = self._rest[end:], "after item"
        return [Line(self._line, code)]

    def _value(self, start: int) -> tuple[Any, int] | None:
        """The JSON value at `start` of the rest, and its end; None if more text is needed."""
        try:
            value, end = self._decoder.raw_decode(self._rest, start)
        except (ValueError, RecursionError):
            if len(self._rest) <= VALUE_CHARACTERS_MAX and self._rest[start] in '"{[tfn-0123456789':
                return None  # Possibly cut short: the end of the body decides.
            raise _not_json() from None
        return None if end == len(self._rest) and self._rest[start] not in '"{[' else (value, end)


_TEXTS: Final[dict[str, Callable[[], Reader]]] = {"text/csv": CsvLines, "text/plain": TextLines}
READERS: Final[dict[str, Callable[[], Reader]]] = {JSON: JsonCodes, **_TEXTS}


def import_handler(operation: Operation, caller: Caller, scope: Scope, closed: codec.Names = codec.NONE) -> Handler:
    """The handler of the import. `scope(request)` is the scope of the prize or pack; None: it is in the body (Core).

    closed: fields that the body may not have.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        total = m.ImportCodesReply()
        repeated: list[bool] = []
        taken: dict[int, int] = {}
        # A request without a key gets one, so that a batch whose reply was lost can be retried.
        own, parts, ends = ids.make("import"), itertools.count(), _expires_at(request)

        def given() -> m.ImportCodesRequest:
            """The body's fields. The header's key and the edge's scope come first."""
            kind = m.ImportCodesRequest
            found, _ = codec.read(kind, proto_json.rewritten(kind, reader.fields), closed)
            found.scope = scope(request) or found.scope
            found.idempotency_key = idempotency_key(request) or found.idempotency_key or own
            return found

        async def send(batch: list[Line], more: bool) -> None:
            fields, part = given(), next(parts)
            wrong = {line.number: line.wrong for line in batch if line.wrong}
            message = m.ImportCodesRequest(
                scope=fields.scope,
                id=codec.path_text("id", request.match_info["id"]),
                codes=[_UNPRINTABLE if line.wrong else _sendable(line.code) for line in batch],
                lines=[line.number for line in batch],
                more=more,
                expires_at=ends or fields.expires_at,
                expiries=[line.expires_at for line in batch] if any(line.expires_at for line in batch) else [],
                idempotency_key=fields.idempotency_key,
                part=part,
            )
            _add_up(total, await _persistently(caller, operation, message), wrong)
            repeated.append(bool(replay_headers()))
            taken[part] = batch[-1].number if batch else 0

        reader = READERS[type_of(request, *_TEXTS)]()
        try:
            await _in_parts(_lines(request, reader), send)
        except Fault as fault:
            if total.added:
                fault.facts["added"] = total.added
            if taken and fault.status in _RESUMED:
                through = [taken[part] for part in itertools.takewhile(taken.__contains__, itertools.count())]
                lines, key = max(through, default=0), given().idempotency_key
                fault.facts |= {"lines": lines, "idempotency_key": key}
                fault.message += (
                    f"; {total.added} codes of {lines} lines were added: to resume, resend with Idempotency-Key {key}"
                )
            raise
        return ok(
            {
                "added": total.added,
                "duplicates": total.duplicates,
                "invalid": total.invalid,
                "errors": [{"line": error.line, "reason": error.reason} for error in total.errors],
                "available": total.available,
            },
            headers=REPLAYED if all(repeated) else None,
        )

    return answer


def _sendable(code: str) -> str:
    """The code, or an invalid placeholder if it cannot be sent to Core: the line is reported as invalid either way."""
    return code[: CODE_CHARACTERS_MAX + 1] if is_storable(code) else _UNPRINTABLE


def _expires_at(request: web.Request) -> int:
    """The expiry of all codes of the import, from the query, in Unix seconds; 0: never."""
    text = request.query.get("expires_at", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise invalid("expires_at", "must be Unix seconds")
    return int(text)


def core_scope(request: web.Request) -> m.Scope | None:
    """The scope in the query; None: it is in the body."""
    tenant_id = request.query.get("scope.tenant_id", "")
    return m.Scope(tenant_id=tenant_id, merchant_id=request.query.get("scope.merchant_id", "")) if tenant_id else None


async def _lines(request: web.Request, reader: Reader) -> AsyncIterator[Line]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
    try:
        async for piece in stream_body(request, BODY_BYTES_MAX):
            for line in reader.feed(decoder.decode(piece)):
                yield line
        for line in (*reader.feed(decoder.decode(b"", True)), *reader.end()):
            yield line
    except UnicodeDecodeError:
        raise invalid("", "the body is not UTF-8") from None
    except csv.Error as error:
        raise invalid("", f"the body is not CSV: {error}") from None


async def _in_parts(lines: AsyncIterator[Line], send: Callable[[list[Line], bool], Awaitable[None]]) -> None:
    """Sends lines in batches, PARTS_AT_ONCE at a time. The last batch, possibly empty, is marked as the last."""
    part: list[Line] = []
    under_way: deque[asyncio.Future[None]] = deque()
    try:
        async for line in lines:
            if len(part) == PART:
                under_way.append(asyncio.ensure_future(send(part, True)))
                part = []
                if len(under_way) == PARTS_AT_ONCE:
                    await under_way.popleft()
            part.append(line)
        while under_way:
            await under_way.popleft()
        await send(part, False)
    finally:
        # Waits for the batches in flight, so that the reported counts include them.
        await asyncio.gather(*under_way, return_exceptions=True)


async def _persistently(caller: Caller, operation: Operation, message: m.ImportCodesRequest) -> m.ImportCodesReply:
    """A batch's reply. Retries a few times if Core is overloaded or the reply is lost."""
    pauses = iter(PAUSES_SECONDS)
    while True:
        try:
            reply: m.ImportCodesReply = await caller.call(operation, message)
            return reply
        except Fault as fault:
            pause = next(pauses, None)
            if fault.status is not Status.UNAVAILABLE or pause is None:
                raise
        await asyncio.sleep(pause)


def _add_up(total: m.ImportCodesReply, part: m.ImportCodesReply, wrong: dict[int, str]) -> None:
    """Adds a batch's reply to the total. wrong: why lines were rejected before they were sent to Core, by line."""
    for error in part.errors:
        error.reason = wrong.get(error.line, error.reason)
    total.added += part.added
    total.duplicates += part.duplicates
    total.invalid += part.invalid
    total.errors = sorted(total.errors + part.errors, key=lambda error: error.line)[:ERRORS_MAX]
    total.available = part.available or total.available


def _not_json() -> Fault:
    types = " or ".join(_TEXTS)
    message = f'the body must be JSON of the form {{"codes": ["..."]}}; for text, set Content-Type to {types}'
    return invalid("", message)
