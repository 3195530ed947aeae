"""Values of an event, by path, for the requests of services: `type`, `data.prize_id`, `contact.email`, `entry.city`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""A start that makes a spreadsheet treat a cell as a formula; some also accept the full-width forms. Apostrophes before
it are the text's own: they are escaped too, so that a reader can remove the added one."""

_FORMULA_WITHIN: Final = re.compile(r"([;\t\r\n][^\S\t\r\n]*)(?='*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""A formula in a part of a cell. A spreadsheet whose separator is not the comma splits cells, quoted or not."""

_PATH: Final = re.compile(
    r"(id|type|occurred_at|tenant_id|merchant_id|campaign_id|trace_id|(data|contact|entry)(\.[A-Za-z0-9_]+)+)"
)
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_.]+)\}")

PATH_HINT: Final = "must be id, type, occurred_at, campaign_id, merchant_id, tenant_id, data.*, contact.* or entry.*"


def path_problem(path: Any) -> str | None:
    """The problem of a path, or None."""
    return None if isinstance(path, str) and len(path) <= 100 and _PATH.fullmatch(path) else PATH_HINT


def placeholders(template: str) -> list[str]:
    """The paths in a template's placeholders."""
    return _PLACEHOLDER.findall(template)


def value_at(body: Mapping[str, Any], path: str) -> Any:
    """The value at a path of an event's body, None if absent. `occurred_at` is ISO 8601 in UTC."""
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if path == "occurred_at" and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


def cell_of(value: Any) -> Any:
    """A value as a cell: a number or a text. Lists and objects are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return msgspec.json.encode(value).decode()
    return value


def text_at(body: Mapping[str, Any], path: str) -> str:
    """The value at a path as text, "" if absent."""
    return str(cell_of(value_at(body, path)))


def filled(template: str, body: Mapping[str, Any]) -> str:
    """The template with its placeholders replaced. Replaced values are not scanned again."""
    return _PLACEHOLDER.sub(lambda found: text_at(body, found[1]), template)


def nested(fields: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the value of each path at its dotted target. Absent values are omitted."""
    made: dict[str, Any] = {}
    for target, path in fields.items():
        if (value := value_at(body, path)) is None:
            continue
        *parents, name = target.split(".")
        inner = made
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[name] = value
    return made


def escape_formula(cell: Any) -> Any:
    """The cell, with an apostrophe before each formula that a spreadsheet would read in it (OWASP, "CSV injection")."""
    if not isinstance(cell, str):
        return cell
    escaped = _FORMULA_WITHIN.sub(r"\1'", cell)
    return f"'{escaped}" if _FORMULA.match(escaped) else escaped


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """RFC 4180: lines end with CR LF."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
