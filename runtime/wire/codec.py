"""Converts JSON to messages and back.

`decode` and `from_query` read a client's request and report every invalid field; `view` builds the function that
converts a message to JSON, once per message type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

import msgspec

from runtime import messages as m
from runtime.errors import Fault, invalid
from runtime.wire.schema import (
    INT32,
    INT64,
    VIOLATIONS_MAX,
    Field,
    Found,
    Kind,
    fields_of,
    memo,
    number_problem,
    object_problems,
    refused,
    text_problem,
)

LIMIT: Final = (1, 100)
"""The minimum and maximum page size."""

QUERY_CHARACTERS_MAX: Final = 1_000
"""The maximum length of a query parameter: all of them share a request line of about 8,000."""

FIELDS_MAX: Final = 10_000
"""The maximum of fields, objects and lists in a body, at any depth: ten times those of a game with 1,000 prizes."""

QUERY_ALIASES: Final = {
    "campaign": "campaign_id",
    "prize": "prize_id",
    "game": "game_id",
    "from": "from_day",
    "to": "to_day",
}

T = TypeVar("T")
Int64As = Literal["number", "quoted"]
View = Callable[[Any], dict[str, Any]]
Names = frozenset[str]
Rewrite = Callable[[Any, dict[str, Any]], dict[str, Any]]

NONE: Final[Names] = frozenset()

_WHOLE: Final = re.compile(r"-?\d{1,19}", re.ASCII)

# msgspec's own parser takes 20 us for a double of 22 digits: 0.24 s for a body full of them.
_decode: Final = msgspec.json.Decoder(float_hook=float).decode


# -- bodies ----------------------------------------------------------------------------------


def decode(message: type[T], body: bytes, closed: Names = NONE, rewrite: Rewrite | None = None) -> T:
    """Reads the message from a JSON body. `closed`: fields that the client may not set, treated as unknown. rewrite:
    converts alternative forms to Core's; called only if the body is invalid as it is.

    Enums are value names or stored tokens, int64 may be quoted, null means omitted. Without an `update_mask`, an update
    sets the fields that the body's resource has.

    Raises INVALID_ARGUMENT with `violations` for every invalid field.
    """
    value = parse(body)
    try:
        made, _ = read(message, value, closed)
    except Fault:
        if rewrite is None:
            raise
        value = rewrite(message, value)
        made, _ = read(message, value, closed)
    _refuse_duplicates(body, value)
    known = fields_of(message)
    if "update_mask" in known and not made.update_mask:  # type: ignore[attr-defined]
        resource = next(name for name, field in known.items() if field.kind is Kind.MESSAGE and name != "scope")
        made.update_mask = provided(value.get(resource) or {})  # type: ignore[attr-defined]
    return made


def decode_resource(message: type[T], body: bytes, aliases: Mapping[str, str]) -> tuple[T, list[str]]:
    """Reads an unwrapped resource, as on the edges. Returns it with the names of the fields that the body has.

    aliases: edge name -> field (`prize_id` -> `id`). Both may be given if they are equal.
    """
    value = parse(body)
    _refuse_duplicates(body, value)
    for alias, name in aliases.items():
        given = value.pop(alias, None)
        if given is not None and value.setdefault(name, given) != given:
            raise invalid(alias, f"must equal {name}")
    return read(message, value)[0], provided(value)


def provided(value: Mapping[str, Any]) -> list[str]:
    """The fields that an update sets: all that the body has, except the id."""
    return [name for name, item in value.items() if item is not None and name != "id"]


def parse(body: bytes) -> dict[str, Any]:
    """Parses a JSON object. An empty body is an empty object. Raises INVALID_ARGUMENT."""
    if not body:
        return {}
    # Every field has a colon, every object and list a bracket. Counted before parsing, because parsing blocks the event
    # loop.
    if len(body) > FIELDS_MAX and sum(map(body.count, (b":", b"{", b"["))) > FIELDS_MAX:
        raise invalid(
            "",
            f"the body must have at most {FIELDS_MAX} fields, objects and lists; colons and opening brackets"
            " in strings count too",
        )
    try:
        value = _decode(body)
    except RecursionError:
        raise invalid("", "the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise invalid("", "the body is not valid UTF-8") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        value = _parse_unstorable(body, str(error))
    if not isinstance(value, dict):
        raise invalid("", "the body must be a JSON object")
    return value


def _parse_unstorable(body: bytes, why: str) -> Any:
    """Parses what msgspec refuses without naming the field: unpaired surrogates and numbers beyond a double, which are
    valid JSON (RFC 8259, 8.2 and 6). The field's own check then refuses and names it.
    """
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (RecursionError, ValueError):
        raise invalid("", f"the body is not valid JSON: {why}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read(message: type[T], value: dict[str, Any], closed: Names = NONE) -> tuple[T, dict[str, Any]]:
    """The message in parsed JSON, and its converted fields. Raises INVALID_ARGUMENT."""
    found: Found = []
    kwargs = _read_fields(message, value, "", found, closed)
    if found:
        raise refused(found)
    return message(**kwargs), kwargs


def _read_fields(message: type[Any], value: dict[str, Any], path: str, found: Found, closed: Names) -> dict[str, Any]:
    readers = _readers(message)
    kwargs: dict[str, Any] = {}
    for name, item in value.items():
        reader = readers.get(name)
        if reader is None or name in closed:
            found.append((f"{path}{name}", "is not a known field"))
        elif item is not None:
            field, read_value = reader
            if not field.repeated:
                kwargs[name] = read_value(field, item, path, found)
            elif isinstance(item, list):
                kwargs[name] = _read_list(field, item, path, found)
            else:
                found.append((f"{path}{name}", "must be a list"))
        if len(found) >= VIOLATIONS_MAX:
            break  # No more are reported.
    return kwargs


def _read_list(field: Field, items: list[Any], path: str, found: Found) -> list[Any]:
    """The elements. An invalid one is reported by its index: items[2]."""
    if problem := field.items_problem(items):
        found.append((path + field.name, problem))
        return []
    element, read_value = replace(field, name="", repeated=False), _READ[field.kind]
    elements: list[Any] = []
    for index, item in enumerate(items):
        before = len(found)
        elements.append(read_value(element, item, "", found))
        if len(found) > before:
            at = f"{path}{field.name}[{index}]"
            found[before:] = [(at + below, problem) for below, problem in found[before:]]
            if len(found) >= VIOLATIONS_MAX:
                break
    return elements


Reader = Callable[[Field, Any, str, Found], Any]


@memo
def _readers(message: Any) -> dict[str, tuple[Field, Reader]]:
    return {name: (field, _READ[field.kind]) for name, field in fields_of(message).items()}


def _read_text(field: Field, value: Any, path: str, found: Found) -> Any:
    problem = field.text_problem(value) if isinstance(value, str) else "must be a string"
    if problem:
        found.append((path + field.name, problem))
    return value


def _read_integer(field: Field, value: Any, path: str, found: Found) -> Any:
    """A JSON integer, for int64 also a quoted one. 2.0 is the integer 2, as in JSON Schema."""
    low, high = INT32 if field.kind is Kind.INT32 else INT64
    if (isinstance(value, str) and field.kind is Kind.INT64 and _WHOLE.fullmatch(value)) or (
        isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    ):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        found.append((path + field.name, "must be a whole number"))
    elif not low <= value <= high:
        bounds = f"from {low if field.least is None else field.least} to {high}"  # An operation narrows an int64's.
        found.append((path + field.name, "must be " + ("a 64-bit integer" if high > INT32[1] else bounds)))
    return value


def _read_number(field: Field, value: Any, path: str, found: Found) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        found.append((path + field.name, "must be a number"))
        return value
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if problem := number_problem(number):
        found.append((path + field.name, problem))
    return number


def _read_flag(field: Field, value: Any, path: str, found: Found) -> Any:
    if not isinstance(value, bool):
        found.append((path + field.name, "must be true or false"))
    return value


def _read_enum(field: Field, value: Any, path: str, found: Found) -> Any:
    member = _members(field.type).get(value) if isinstance(value, str) else None
    if member is None:
        found.append((path + field.name, f"must be one of {_choices(field.type)}"))
    return member


def _read_object(field: Field, value: Any, path: str, found: Found) -> Any:
    if isinstance(value, dict):
        found.extend(object_problems(value, path + field.name))
    else:
        found.append((path + field.name, "must be an object"))
    return value


def _read_message(field: Field, value: Any, path: str, found: Found) -> Any:
    if not isinstance(value, dict):
        found.append((path + field.name, "must be an object"))
        return None
    before = len(found)
    kwargs = _read_fields(field.type, value, f"{path}{field.name}.", found, NONE)
    return field.type(**kwargs) if len(found) == before else None


def _read_map(field: Field, value: Any, path: str, found: Found) -> Any:
    found.append((path + field.name, "is read-only"))


_READ: Final[dict[Kind, Reader]] = {
    Kind.TEXT: _read_text,
    Kind.INT32: _read_integer,
    Kind.INT64: _read_integer,
    Kind.NUMBER: _read_number,
    Kind.FLAG: _read_flag,
    Kind.ENUM: _read_enum,
    Kind.OBJECT: _read_object,
    Kind.MESSAGE: _read_message,
    Kind.MAP: _read_map,
}


@memo
def _members(enum: Any) -> dict[str, Any]:
    """Value name and stored token -> member; UNSPECIFIED only by its value name."""
    members = {member.proto_name: member for member in enum}
    return members | {member.name.lower(): member for member in enum if member != 0}


@memo
def _choices(enum: Any) -> str:
    return ", ".join(member.proto_name for member in enum if member != 0)


def _refuse_duplicates(body: bytes, value: Any) -> None:
    """Refuses duplicate fields, because the intended value is ambiguous.

    Every field has a colon, so equal counts of fields and colons mean that there is no duplicate. Colons inside strings
    make the counts differ; only then the slower parser checks.
    """
    colons = body.count(b":")
    if colons < 2 or len(value) == colons or _count(value) == colons:
        return
    try:
        json.loads(body, object_pairs_hook=_unique_fields)
    except (RecursionError, ValueError):
        raise invalid("", "the body is not valid JSON") from None


def _count(value: Any) -> int:
    """The number of fields in parsed JSON, at any depth."""
    fields, waiting = 0, [value]
    while waiting:
        items = waiting.pop()
        if type(items) is dict:
            fields += len(items)
            items = items.values()
        for item in items:
            if type(item) is dict or type(item) is list:
                waiting.append(item)
    return fields


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise refused([(name, "must not be repeated")])
            seen.add(name)
    return fields


# -- query parameters ------------------------------------------------------------------------


def from_query(message: type[T], query: Mapping[str, str], closed: Names = NONE) -> T:
    """Reads the message from query parameters: `scope.tenant_id`, `player_id`, `limit` ...

    Unknown and `closed` parameters are ignored. Raises INVALID_ARGUMENT with `violations`.
    """
    found: Found = []
    known = fields_of(message)
    kwargs: dict[str, Any] = {}
    for parameter, text in query.items():
        name = parameter if parameter in known else QUERY_ALIASES.get(parameter, parameter)
        field = known.get(name)
        if field is not None and name not in closed and field.kind in _FROM_TEXT and not field.repeated:
            kwargs[name] = _from_text(field, text, parameter, found)
    if "limit" in kwargs and isinstance(kwargs["limit"], int) and not LIMIT[0] <= kwargs["limit"] <= LIMIT[1]:
        found.append(("limit", f"must be from {LIMIT[0]} to {LIMIT[1]}"))
    if "scope" in known and "scope" not in closed:
        kwargs["scope"] = scope_from_query(query, found)
    if found:
        raise refused(found)
    return message(**kwargs)


def scope_from_query(query: Mapping[str, str], found: Found) -> m.Scope | None:
    """The scope in `scope.tenant_id` and `scope.merchant_id`; None if both are missing."""
    kwargs = {name: query[f"scope.{name}"] for name in fields_of(m.Scope) if f"scope.{name}" in query}
    for name, text in kwargs.items():
        if problem := text_problem(text):
            found.append((f"scope.{name}", problem))
    return m.Scope(**kwargs) if kwargs else None


_FROM_TEXT: Final = {Kind.TEXT, Kind.INT32, Kind.INT64, Kind.FLAG, Kind.ENUM}
_FLAGS: Final = {"true": True, "false": False}


def _from_text(field: Field, text: str, parameter: str, found: Found) -> Any:
    value: Any = text
    if len(text) > QUERY_CHARACTERS_MAX:
        found.append((parameter, f"must be at most {QUERY_CHARACTERS_MAX} characters"))
        return text
    if field.kind in (Kind.INT32, Kind.INT64) and _WHOLE.fullmatch(text):
        value = int(text)
    elif field.kind is Kind.FLAG:
        value = _FLAGS.get(text)
    return _READ[field.kind](replace(field, name=parameter), value, "", found)


def path_text(name: str, value: str) -> str:
    """Validates a path parameter by the default rules for strings. Raises INVALID_ARGUMENT."""
    if problem := text_problem(value):
        raise invalid(name, problem)
    return value


# -- responses -------------------------------------------------------------------------------


@memo
def view(message: Any, int64_as: Int64As) -> View:
    """Builds the function that converts a message of this type to JSON: all fields, in game.proto's order.

    Enums are value names. An unset message is null, an unset free-form object {}, an unset pagination its defaults.
    int64 is "quoted" as in proto3 JSON (Core), or a "number" (the edges).
    """
    # Generated as source code once: a loop over the fields for each response takes five times as long.
    source: list[str] = []
    scope: dict[str, Any] = {"EMPTY_PAGE": m.Pagination()}
    for one in _with_nested(message):
        rows = ", ".join(f"{field.name!r}: {_expression(field, int64_as)}" for field in fields_of(one).values())
        source.append(f"def view_{one.__name__}(m):\n    return {{{rows}}}")
        for field in fields_of(one).values():
            if field.kind is Kind.ENUM:
                scope[f"names_{field.type.__name__}"] = {int(member): member.proto_name for member in field.type}
    exec(compile("\n".join(source), f"<views of {message.__name__}>", "exec"), scope)
    made: View = scope[f"view_{message.__name__}"]
    return made


def _with_nested(message: type[Any]) -> Iterable[type[Any]]:
    seen = {message: None}
    waiting = [message]
    while waiting:
        for field in fields_of(waiting.pop()).values():
            if field.kind is Kind.MESSAGE and field.type not in seen:
                seen[field.type] = None
                waiting.append(field.type)
    return seen


def _expression(field: Field, int64_as: Int64As) -> str:
    """The source code that converts a field of the message `m` to JSON."""
    one = "x" if field.repeated else f"m.{field.name}"
    match field.kind:
        case Kind.INT64:
            shown = f"str({one})" if int64_as == "quoted" else one
        case Kind.ENUM:
            names = f"names_{field.type.__name__}"
            shown = f"{names}.get({one}, {names}[0])"
        case Kind.OBJECT:
            shown = f"({one} or {{}})"
        case Kind.MESSAGE if field.type is m.Pagination:
            shown = f"view_Pagination({one} or EMPTY_PAGE)"
        case Kind.MESSAGE:
            call = f"view_{field.type.__name__}({one})"
            shown = call if field.repeated else f"None if {one} is None else {call}"
        case _:
            return f"m.{field.name}"
    return f"[{shown} for x in m.{field.name}]" if field.repeated else shown
