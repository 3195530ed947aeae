"""Resources in the form that a file has for people: enums as tokens, times as ISO 8601, nothing that is empty."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from runtime.commands import documents
from runtime.commands.connection import Connection, people
from runtime.operations.files.kinds import SECRETS, TIMES, Change, Kind, without_headers
from runtime.wire.schema import Kind as FieldKind
from runtime.wire.schema import fields_of

# -- to a file -------------------------------------------------------------------------------


def filed(kind: Kind, resource: Mapping[str, Any], *, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The file form of the service's JSON: the settable fields that hold something, or those of `names`."""
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
    if made.get("budget"):
        made["budget"] = {name: value for name, value in made["budget"].items() if name in ("amount", "currency")}
    return made


def _full(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if not _empty(value) and name != "id"}


def _empty(value: Any) -> bool:
    return value is None or value is False or value in ("", 0, [], {})


def _token(enum: Any, name: str) -> str:
    return next((member.name.lower() for member in enum if member.proto_name == name and member != 0), "")


# -- what differs ----------------------------------------------------------------------------


def before_and_after(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs, in file form."""
    before = {} if change.current is None else filed(change.kind, change.current, names=change.differs)
    return before, filed(change.kind, change.wanted, names=change.differs)


def show(connection: Connection, changes: Sequence[Change]) -> None:
    """Prints what differs, for people."""
    if connection.json:
        return
    console = people()
    for change in changes:
        if change.action != "keep":
            console.print(told(change), end="")
    console.print(counted(changes))


def counted(changes: Sequence[Change]) -> str:
    """`2 to create, 1 to change, 5 as they are`"""
    count = Counter(change.action for change in changes)
    said = (("create", "to create"), ("change", "to change"), ("keep", "as they are"))
    return ", ".join(f"{count[action]} {words}" for action, words in said if count[action])


def told(change: Change) -> Text:
    """The change as a diff for people."""
    before, after = before_and_after(change)
    made = Text(f"{change.action} {change.kind.one} {change.name!r}\n", style="bold")
    lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2)
    for line in list(lines)[2:]:
        if not line.startswith("@@"):
            made.append(f"    {line}\n", style={"+": "green", "-": "red"}.get(line[0], ""))
    return made


def for_machines(change: Change) -> dict[str, Any]:
    """The change as JSON."""
    before, after = before_and_after(change)
    return {
        "action": change.action,
        "kind": change.kind.one,
        "name": change.name,
        "before": before,
        "after": after,
    }


def _lines(value: Mapping[str, Any]) -> list[str]:
    return documents.write(dict(value)).splitlines() if value else []
