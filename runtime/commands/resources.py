"""Resources in file form: enums as tokens, times as ISO 8601, without empty fields."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from runtime.commands import documents
from runtime.commands.connection import Connection, text_console
from runtime.operations.files.kinds import SECRETS, TIMES, Change, Kind, without_headers
from runtime.wire.schema import Kind as FieldKind
from runtime.wire.schema import fields_of

# -- to a file -------------------------------------------------------------------------------


def filed(kind: Kind, resource: Mapping[str, Any], *, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The file form of a resource: its non-empty settable fields, or the fields in `names`."""
    wanted = kind.settable if names is None else set(names)
    shown = {name: value for name, value in resource.items() if name in wanted}
    pretty = _filed(kind.message, shown)
    return pretty if names is not None else {name: value for name, value in pretty.items() if not _empty(value)}


def _filed(message: Any, shown: Mapping[str, Any]) -> dict[str, Any]:
    fields = fields_of(message)
    made: dict[str, Any] = {}
    for name, value in shown.items():
        row = fields.get(name)
        if row is None or value is None:
            made[name] = value
        elif row.kind is FieldKind.MESSAGE:
            rows = [_full(_filed(row.type, item)) for item in (value if row.repeated else [value])]
            made[name] = rows if row.repeated else rows[0]
        elif row.kind is FieldKind.ENUM:
            made[name] = _token(row.type, value)
        elif name in TIMES and value:
            made[name] = datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        elif name == "config":
            made[name] = {key: item for key, item in without_headers(value).items() if key not in SECRETS}
        else:
            made[name] = int(value) if isinstance(value, float) and value.is_integer() else value
    if made.get("stock"):
        made["stock"] = {name: value for name, value in made["stock"].items() if name == "total"}
    for name in ("commitment", "opening", "notary_copy"):
        (made.get("release") or {}).pop(name, None)
    if made.get("randomness"):
        made["randomness"] = {
            name: made["randomness"].get(name) for name in ("kind", "source", "at") if made["randomness"].get(name)
        }
    if made.get("budget"):
        made["budget"] = {name: value for name, value in made["budget"].items() if name in ("amount", "currency")}
    return made


def _full(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if not _empty(value) and name != "id"}


def _empty(value: Any) -> bool:
    return value is None or value is False or value in ("", 0, [], {})


def _token(enum: Any, name: str) -> str:
    return next((member.name.lower() for member in enum if member.proto_name == name and member != 0), "")


# -- differences -----------------------------------------------------------------------------


def before_and_after(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """The differing fields before and after, in file form."""
    before = {} if change.current is None else filed(change.kind, change.current, names=change.differs)
    return before, filed(change.kind, change.wanted, names=change.differs)


def show(connection: Connection, changes: Sequence[Change]) -> None:
    """Prints the changes; nothing with --json."""
    if connection.json:
        return
    console = text_console()
    for change in changes:
        if change.action != "keep":
            console.print(diff(change), end="")
    console.print(summary(changes))


def summary(changes: Sequence[Change]) -> str:
    """`2 to create, 1 to change, 5 unchanged`"""
    count = Counter(change.action for change in changes)
    labels = (("create", "to create"), ("change", "to change"), ("keep", "unchanged"))
    return ", ".join(f"{count[action]} {label}" for action, label in labels if count[action])


def diff(change: Change) -> Text:
    """The change as a coloured diff."""
    before, after = before_and_after(change)
    made = Text(f"{change.action} {change.kind.singular} {change.name!r}\n", style="bold")
    lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2)
    for line in list(lines)[2:]:
        if not line.startswith("@@"):
            made.append(f"    {line}\n", style={"+": "green", "-": "red"}.get(line[0], ""))
    return made


def change_json(change: Change) -> dict[str, Any]:
    """The change as JSON."""
    before, after = before_and_after(change)
    return {
        "action": change.action,
        "kind": change.kind.singular,
        "name": change.name,
        "before": before,
        "after": after,
    }


def _lines(value: Mapping[str, Any]) -> list[str]:
    return documents.write(dict(value)).splitlines() if value else []
