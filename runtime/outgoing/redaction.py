"""Masks confidential values in text from outside, in any notation.

A receiver may echo a request as JSON, in a URL or as HTML, or in several of these one inside another, and encoders
differ in which characters they escape. So the text is decoded step by step, and each step is searched. A byte of a
step keeps its place in the original text, which is where a value is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from typing import Final, NamedTuple

HIDDEN: Final = "****"
STEPS_MAX: Final = 8
"""The most times a text is decoded, which bounds the time. A text encoded twice takes two."""

_ESCAPE: Final = re.compile(
    rb"""(?P<units>[\\%]u (?:d[89ab][0-9a-f]{2} [\\%]u d[c-f][0-9a-f]{2} | [0-9a-f]{4}))  # JSON; a pair of surrogates
    | (?:% | \\x)(?P<byte>[0-9a-f]{2})
    | \\(?P<character>["'/\\bfnrt])
    | (?P<entity>&(?:\#[0-9]{1,7} | \#x[0-9a-f]{1,6} | [a-z][a-z0-9]{1,31});)""",
    re.IGNORECASE | re.VERBOSE,
)
_CONTROLS: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_SIGNATURE: Final = re.compile(rb"v1a?,[A-Za-z0-9+/\\]{20,}={0,2}")


class _Step(NamedTuple):
    """A text after some decoding. starts: where each byte, and the end, begins in the original text."""

    text: bytes
    starts: Sequence[int]


def redacted(text: bytes, confidential: Iterable[str]) -> str:
    """The text as UTF-8 with the confidential values and signatures (Standard Webhooks) masked, in any letter case."""
    # A value may itself look encoded, such as `a%41`, and is then found after as many steps.
    forms = {form for value in confidential for form in (value, value.lower(), value.upper())}
    wanted = {_folded(step.text) for form in forms for step in _steps(form.encode(errors="replace"))} - {b""}
    hidden: set[tuple[int, int]] = set()
    for step in _steps(text):
        folded = _folded(step.text)
        found = [each.span() for each in _SIGNATURE.finditer(step.text)]
        found += [span for value in wanted for span in _occurrences(value, folded)]
        hidden |= {(step.starts[start], step.starts[end]) for start, end in found}
    return _masked(text, sorted(hidden)).decode(errors="replace")


def _folded(text: bytes) -> bytes:
    """The text without differences that encoders make, at the same length: forms write a space as `+`."""
    return text.lower().replace(b"+", b" ")


def _occurrences(value: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    start = text.find(value)
    while start >= 0:
        yield start, start + len(value)
        start = text.find(value, start + len(value))


def _steps(text: bytes) -> Iterator[_Step]:
    """The text, and the text decoded once, twice and so on, until nothing is left to decode."""
    step = _Step(text, range(len(text) + 1))
    yield step
    for _ in range(STEPS_MAX):
        if (decoded := _decoded(step)).text == step.text:
            return
        step = decoded
        yield step


def _decoded(step: _Step) -> _Step:
    """Decodes each escape sequence once."""
    text, starts, end = bytearray(), list[int](), 0
    for escape in _ESCAPE.finditer(step.text):
        start, plain = escape.start(), _plain(escape)
        text += step.text[end:start] + plain
        starts += step.starts[end:start]
        starts += [step.starts[start]] * len(plain)
        end = escape.end()
    return _Step(bytes(text + step.text[end:]), [*starts, *step.starts[end:]])


def _plain(escape: re.Match[bytes]) -> bytes:
    """What an escape sequence stands for, in UTF-8."""
    match escape.lastgroup:
        case "units":
            units = escape[0][2:6] + escape[0][8:12]
            return bytes.fromhex(units.decode()).decode("utf-16-be", "replace").encode()
        case "byte":
            return bytes.fromhex(escape["byte"].decode())
        case "character":
            return _CONTROLS.get(escape["character"], escape["character"])
    return unescape(escape[0].decode()).encode(errors="replace")


def _masked(text: bytes, hidden: Iterable[tuple[int, int]]) -> bytes:
    """The text with HIDDEN in place of the spans, which are sorted. Spans that overlap become one."""
    masked, shown = bytearray(), 0
    for start, end in hidden:
        if start >= shown:
            masked += text[shown:start] + HIDDEN.encode()
        shown = max(shown, end)
    return bytes(masked + text[shown:])
