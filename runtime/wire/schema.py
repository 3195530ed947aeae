"""The schema of messages from game.proto: fields, kinds and the rules for values.

It is read once per message type from the metadata of the generated dataclasses. JSON (`runtime.wire.codec`), query
parameters and RPC messages (`check`) are validated by the same rules.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

import betterproto2

from runtime.errors import Fault, violations
from runtime.messages.behavior import ANY_CHARACTERS, LEAST, LINES, MOST, MOST_ITEMS, READ_ONLY, REQUIRED, SIGNED

TEXT_CHARACTERS_MAX: Final = 10_000
"""The default maximum length of a string."""

ELEMENTS_MAX: Final = 1_000
"""The default maximum of a list of messages (rungs, ranks): an object takes a hundred times the memory of its text."""

UNSEEN_IN_LINES: Final = (
    r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff"
)
UNSEEN: Final = r"\t\n\r" + UNSEEN_IN_LINES
"""Characters refused in texts shown to people, as a regular expression class: control, bidirectional-override
(Unicode TR 9, 2), line-ending and invisible characters. With them a name could imitate another one, or overwrite the
text next to it. Characters that scripts and emoji need (joiners, direction marks, selectors, tags) are allowed.
UNSEEN_IN_LINES: for texts with several lines.
"""

OBJECT_DEPTH_MAX: Final = 64
"""The maximum nesting of a free-form object (`ui`, `payload` ...)."""

VIOLATIONS_MAX: Final = 20
"""The maximum number of violations in an error."""

PATH_CHARACTERS_SHOWN: Final = 200

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
_INT64_LEAST, _INT64_MOST = INT64

Found = list[tuple[str, str]]
"""[(path of the field, problem)]."""


class Kind(Enum):
    """The kind of a field. OBJECT is a google.protobuf.Struct, here a plain dict; MAP is string -> int32."""

    TEXT = "text"
    INT32 = "int32"
    INT64 = "int64"
    NUMBER = "number"
    FLAG = "flag"
    ENUM = "enum"
    OBJECT = "object"
    MESSAGE = "message"
    MAP = "map"


_KINDS: Final = {
    betterproto2.TYPE_STRING: Kind.TEXT,
    betterproto2.TYPE_INT32: Kind.INT32,
    betterproto2.TYPE_INT64: Kind.INT64,
    betterproto2.TYPE_DOUBLE: Kind.NUMBER,
    betterproto2.TYPE_BOOL: Kind.FLAG,
    betterproto2.TYPE_ENUM: Kind.ENUM,
    betterproto2.TYPE_MAP: Kind.MAP,
}

F = TypeVar("F", bound=Callable[..., Any])


def memo(function: F) -> F:
    """functools.cache for functions of message types, which mypy considers unhashable."""
    return cast(F, cache(function))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. `type` is its enum or message type, else None.

    required: the message is refused without it (for a resource: its creation). read_only: set by the service; a client
    may send only the stored value. most: maximum characters of a string. items_most: maximum elements of a list; 0: not
    in game.proto. lines: line breaks are allowed. any_characters: a string that is not shown to people. least: the
    minimum of an integer in a request; None: it may be negative.
    """

    name: str
    kind: Kind
    type: Any
    repeated: bool
    required: bool = False
    read_only: bool = False
    most: int = TEXT_CHARACTERS_MAX
    items_most: int = 0
    lines: bool = False
    any_characters: bool = False
    least: int | None = 0

    def text_problem(self, value: str) -> str | None:
        """The problem of a string for this field, or None."""
        if len(value) > self.most:
            return f"must be at most {self.most} characters long"
        if self.any_characters:
            return _storing_problem(value)
        # Fast path: most strings are printable, and no character of UNSEEN is. Some unprintable ones are allowed.
        if value.isprintable():
            return None
        unseen = (_UNSEEN_IN_LINES if self.lines else _UNSEEN).search(value)
        return _storing_problem(value) or (f"must not contain U+{ord(unseen[0]):04X}" if unseen is not None else None)

    @property
    def elements_max(self) -> int:
        """The maximum number of elements; 0: limited only by the body's size."""
        return self.items_most or (ELEMENTS_MAX if self.kind is Kind.MESSAGE else 0)

    def items_problem(self, values: list[Any]) -> str | None:
        """The problem of a list's length for this field, or None."""
        most = self.elements_max
        return f"must have at most {most} elements" if most and len(values) > most else None


@memo
def fields_of(message: Any) -> dict[str, Field]:
    """The fields of a message type by name, in the order of game.proto."""
    # Not from betterproto2's own metadata: it resolves all type hints of a message again for each field, which took
    # half of a process's start, imports aside.
    types, of = get_type_hints(message), message.__name__
    found = {field.name: betterproto2.FieldMetadata.get(field) for field in dataclasses.fields(message)}
    in_order = sorted(found, key=lambda name: found[name].number)
    return {name: _field(of, name, found[name], types[name]) for name in in_order}


def _field(message: str, name: str, meta: Any, hint: Any) -> Field:
    if meta.proto_type == betterproto2.TYPE_MESSAGE:
        kind = Kind.OBJECT if meta.unwrap else Kind.MESSAGE
    else:
        kind = _KINDS[meta.proto_type]
    return Field(
        name,
        kind,
        next(iter(get_args(hint)), hint) if kind in (Kind.ENUM, Kind.MESSAGE) else None,
        bool(meta.repeated),
        required=name in REQUIRED.get(message, ()),
        read_only=name in READ_ONLY.get(message, ()),
        most=MOST.get(message, {}).get(name, TEXT_CHARACTERS_MAX),
        items_most=MOST_ITEMS.get(message, {}).get(name, 0),
        lines=name in LINES.get(message, ()),
        any_characters=name in ANY_CHARACTERS.get(message, ()),
        least=None if name in SIGNED.get(message, ()) else LEAST.get(message, {}).get(name, 0),
    )


# -- values ----------------------------------------------------------------------------------


_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
_UNSEEN_IN_LINES: Final = re.compile(f"[{UNSEEN_IN_LINES}]")

TEXT: Final = Field("", Kind.TEXT, None, False)
"""The default rules for a string, such as an id in a path."""


def text_problem(value: str) -> str | None:
    """The problem of a string of one line, or None."""
    return TEXT.text_problem(value)


def is_storable(value: str) -> bool:
    """Whether a string can be stored and sent to Core."""
    return _storing_problem(value) is None


def _storing_problem(value: str) -> str | None:
    """Postgres can store neither NUL nor an unpaired surrogate."""
    if "\0" in value:
        return "must not contain a NUL character"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "must be valid Unicode"
    return None


def number_problem(value: float) -> str | None:
    """The problem of a double, or None."""
    return None if math.isfinite(value) else "must be a finite number"


def object_problems(value: Any, path: str) -> Found:
    """[(path, problem)] of the values of a free-form object that cannot be stored, at most VIOLATIONS_MAX.

    Paths are built only for problems: built at every step, those of deep objects with long names would cost thousands
    of times more than the check.
    """
    if _is_valid(value, 0):
        return []
    found: Found = []
    _find_problems(value, [path], 0, found)
    return found


def _is_valid(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is dict:
        if depth >= OBJECT_DEPTH_MAX or any(map(_key_problem, value)):
            return False
        items = value.values()
    elif kind is list:
        if depth >= OBJECT_DEPTH_MAX:
            return False
        items = value
    else:
        return _value_problem(value) is None
    for item in items:
        kind = type(item)
        if kind is int:  # Inlined: a body may have a list of a hundred thousand integers.
            if not _INT64_LEAST <= item <= _INT64_MOST:
                return False
        elif not _is_valid(item, depth + 1):
            return False
    return True


def _find_problems(value: Any, path: list[str], depth: int, found: Found) -> None:
    """Adds the problems below `path`, whose parts are joined only for a problem."""
    if len(found) >= VIOLATIONS_MAX:
        return
    if isinstance(value, dict | list) and depth >= OBJECT_DEPTH_MAX:
        found.append(("".join(path), f"must not be nested deeper than {OBJECT_DEPTH_MAX}"))
    elif isinstance(value, dict):
        for key, item in value.items():
            if problem := _key_problem(key):
                found.append(("".join(path), f"a field's name {problem}"))
            else:
                _find_problems(item, [*path, ".", key], depth + 1, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_problems(item, [*path, f"[{index}]"], depth + 1, found)
    elif problem := _value_problem(value):
        found.append(("".join(path), problem))


_key_problem: Final = Field("", Kind.TEXT, None, False, any_characters=True).text_problem


def _value_problem(value: Any) -> str | None:
    if isinstance(value, str):
        # No length limit but the body's: a widget's image may be in its `ui`.
        return _storing_problem(value)
    if isinstance(value, int) and not _INT64_LEAST <= value <= _INT64_MOST:
        return "must be a 64-bit integer"
    return number_problem(value) if isinstance(value, float) else None


def refused(found: Found) -> Fault:
    """INVALID_ARGUMENT with the first VIOLATIONS_MAX problems."""
    return violations([(_shown(path), problem) for path, problem in found[:VIOLATIONS_MAX]])


def _shown(path: str) -> str:
    """Replaces what cannot be encoded: a path contains the client's own names, which may be invalid Unicode."""
    return path[:PATH_CHARACTERS_SHOWN].encode(errors="replace").decode()


# -- whole messages --------------------------------------------------------------------------


def check(message: Any) -> None:
    """Validates a protobuf message by the same rules as JSON. Raises INVALID_ARGUMENT with each invalid field."""
    found: Found = []
    _check_message(message, "", found)
    if found:
        raise refused(found)


def _check_message(message: Any, path: str, found: Found) -> None:
    for name, field in fields_of(type(message)).items():
        value = getattr(message, name)
        # Most fields are unset; 0, "" and False need no check either.
        if value is None or value == 0 or value == "" or field.kind is Kind.MAP:
            continue
        if field.repeated:
            if problem := field.items_problem(value):
                found.append((f"{path}{name}", problem))
                continue
            for index, item in enumerate(value):
                _check_value(field, item, f"{path}{name}[{index}]", found)
                if len(found) >= VIOLATIONS_MAX:
                    return  # No more are reported.
        else:
            _check_value(field, value, f"{path}{name}", found)


def _check_value(field: Field, value: Any, path: str, found: Found) -> None:
    match field.kind:
        case Kind.TEXT:
            problem = field.text_problem(value)
        case Kind.NUMBER:
            problem = number_problem(value)
        case Kind.ENUM:
            problem = None if getattr(field.type(value), "name", "") else "must be a value of its enum"
        case Kind.OBJECT:
            found.extend(object_problems(value, path))
            return
        case Kind.MESSAGE:
            _check_message(value, f"{path}.", found)
            return
        case _:
            return
    if problem:
        found.append((path, problem))
