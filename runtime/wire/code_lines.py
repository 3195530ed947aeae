"""Splits an uploaded text into codes: one per line, or CSV. `runtime.http.codes` imports them.

A line that is not well-formed is refused with a remedy, so that no part of it becomes a code.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from runtime.errors import invalid
from runtime.wire.times import expiry

VALUE_CHARACTERS_MAX: Final = 16_384

_HEADINGS: Final = frozenset({"code", "codes", "voucher", "voucher_code", "coupon", "coupon_code"})
_EXPIRIES: Final = frozenset({"expires_at", "expires", "expiry", "valid_until"})
_DATE: Final = len("2026-12-31")

_DELIMITERS: Final = ",;\t"
"""CSV delimiters. Spreadsheets use a semicolon in locales with a decimal comma."""

_UNSPLIT: Final = "contains ; or a tab: if that is the delimiter, add a header line that begins with `code`"
_UNNAMED: Final = "has a date in another column: add a header line such as `code,expires_at`"
_UNBALANCED: Final = 'has an unbalanced quote: write each row in one line, and a quote as "" within a quoted field'
_QUOTED: Final = "is part of the quoted field that line {} begins: write each row in one line, and close its quotes"
_MISPLACED: Final = "line {}: a header must begin with `code`: move that column, or add a header such as `code,note`"


class Line(NamedTuple):
    """A code, its line number, and its expiry: Unix seconds, 0 if not given, -1 if not a valid time.

    wrong: why the line's form rules it out as a code; "" if it does not.
    """

    number: int
    code: str
    expires_at: int = 0
    wrong: str = ""


class Reader(Protocol):
    """Splits streamed text into lines. `fields` are those of the body beside the codes."""

    fields: dict[str, Any]

    def feed(self, text: str) -> Iterator[Line]: ...
    def end(self) -> Iterator[Line]: ...


class TextLines:
    """One code per line; blank lines are skipped."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self._rest = ""
        self._number = 0

    def feed(self, text: str) -> Iterator[Line]:
        *lines, self._rest = (self._rest + text).replace("\r\n", "\n").split("\n")
        for line in lines:
            yield from self._one(line)
        # Truncates an endless line; the rest is still too long to be a code.
        self._rest = self._rest[:VALUE_CHARACTERS_MAX]

    def end(self) -> Iterator[Line]:
        yield from self._one(self._rest)

    def _one(self, text: str) -> Iterator[Line]:
        self._number += 1
        if text.strip() and (line := self.line(text, self._number)).code:
            yield line

    def line(self, text: str, number: int) -> Line:
        """The code in a line that is not blank. Without a code, the line is skipped."""
        return Line(number, text.strip())


class CsvLines(TextLines):
    """Codes in the first column. A header line is skipped; it may name the column of each code's expiry.

    The header determines the delimiter; without one it is a comma. A row is one line, also within quotes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._delimiter = _DELIMITERS[0]
        self._expiry = 0
        self._first = 0
        self._has_header = False
        self._quoted_since = 0
        """The line that began a quoted field and did not end it, or 0."""

    def line(self, text: str, number: int) -> Line:
        text = text.rstrip(" \r")
        self._first = self._first or number
        if number == self._first and self._is_heading(text):
            self._has_header = True
            return Line(number, "")
        if since := self._continued(text):
            return Line(number, text, wrong=_QUOTED.format(since))
        if (cells := self._cells(text)) is None:
            self._quoted_since = number if self._cells(f'{text}"') else 0
            is_unsplit = not self._has_header and any(len(_cells(text, one) or ()) > 1 for one in _DELIMITERS[1:])
            return Line(number, text, wrong=_UNSPLIT if is_unsplit else _UNBALANCED)
        code = cells[0].strip()
        ends = expiry(cells[self._expiry]) if 0 < self._expiry < len(cells) else 0
        if ";" in code or "\t" in code:  # Not split: the date would become part of the code.
            wrong = _UNSPLIT
        elif '"' in code and not text.startswith('"'):
            wrong = _UNBALANCED
        else:  # Without a header, the date would be ignored.
            wrong = _UNNAMED if not self._has_header and any(map(_is_date, cells[1:])) else ""
        return Line(number, code, ends, wrong)

    def _is_heading(self, text: str) -> bool:
        """Whether the line is a header; it sets the delimiter. INVALID_ARGUMENT if a later column has the codes."""
        for delimiter in _DELIMITERS:
            # Not strict: with a wrong delimiter, quoted headings are not well-formed.
            found = next(csv.reader([text], delimiter=delimiter))
            names = [cell.strip().lower().replace(" ", "_") for cell in found]
            if names[0] in _HEADINGS:
                self._delimiter = delimiter
                self._expiry = next((place for place, name in enumerate(names) if name in _EXPIRIES), 0)
                return True
            if not (_HEADINGS | _EXPIRIES).isdisjoint(names):
                raise invalid("", _MISPLACED.format(self._first))
        return False

    def _continued(self, text: str) -> int:
        """The line that began the quoted field which this line continues, or 0."""
        since, self._quoted_since = self._quoted_since, 0
        if since and self._cells(f'"{text}') is None:  # It does not end the field.
            if self._cells(f'"{text}"') is None:
                return 0  # It cannot be part of a field: the earlier quote was a slip.
            self._quoted_since = since
        return since

    def _cells(self, text: str) -> list[str] | None:
        return _cells(text, self._delimiter)


def _cells(text: str, delimiter: str) -> list[str] | None:
    """The cells of a row; None if its quotes are not balanced."""
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), None) or [""]
    except csv.Error:
        if '"' in text:
            return None
        raise


def _is_date(cell: str) -> bool:
    """Whether the cell is a date or time. Digits alone may be the number of a card or product."""
    return len(cell.strip()) >= _DATE and not cell.strip().isdigit() and expiry(cell) > 0
