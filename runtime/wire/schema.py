"""What game.proto says of each message, as the surfaces need it: its fields, their kinds, and what a value may be.

Read once per message type from the generated dataclasses' metadata. JSON (`runtime.wire.codec`), query
parameters and RPC messages (`check`) are all held to the same rules, given here.
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
"""Of a text of which game.proto says nothing else."""

ELEMENTS_MAX: Final = 1_000
"""Of a list of messages (rungs, ranks): each becomes an object, which costs a hundred times its text."""

UNSEEN_IN_LINES: Final = (
    r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff"
)
UNSEEN: Final = r"\t\n\r" + UNSEEN_IN_LINES
"""Characters that no text holds which people are shown, as a class of a regular expression: controls, what turns the
direction of the text around it (Unicode TR 9, 2), what ends a line or is nothing to see; a name of these passes for
another's, or writes over what stands beside it. Those that scripts and emoji need (joiners, the marks of a direction,
selectors, tags) are welcome. UNSEEN_IN_LINES: of texts of several lines.
"""

OBJECT_DEPTH_MAX: Final = 64
"""How deeply a free-form object (`ui`, `payload` ...) may be nested."""

VIOLATIONS_MAX: Final = 20
"""A body can be wrong in more places than anybody wants to read."""

PATH_CHARACTERS_SHOWN: Final = 200

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
_INT64_LEAST, _INT64_MOST = INT64

Found = list[tuple[str, str]]
"""(path of the field, what is wrong with it)."""


class Kind(Enum):
    """What a field holds. OBJECT is a google.protobuf.Struct, a plain dict here; MAP is string -> int32."""

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
    """functools.cache, for functions of message types, which mypy takes for unhashable."""
    return cast(F, cache(function))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. `type` is the enum or the message that it holds, else None.

    required: without it the message is refused (a resource's: by what makes one). read_only: the service's
    to set, so that a client sends there what is stored or nothing. most: characters of a text. items_most: elements,
    where it is repeated; 0: game.proto does not say. lines: a text of several. any_characters: a text that
    nobody is shown. least: what a whole number in a request is at least; None: it may be negative.
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
        """What is wrong with a text of this field, or None."""
        if len(value) > self.most:
            return f"must be at most {self.most} characters long"
        if self.any_characters:
            return _storing_problem(value)
        # Most texts are, and it is told in no time. None of UNSEEN is printable; of what else is not, some is welcome.
        if value.isprintable():
            return None
        unseen = (_UNSEEN_IN_LINES if self.lines else _UNSEEN).search(value)
        return _storing_problem(value) or (f"must not hold U+{ord(unseen[0]):04X}" if unseen is not None else None)

    @property
    def elements_max(self) -> int:
        """How many a list of this field's may hold; 0: as many as the body."""
        return self.items_most or (ELEMENTS_MAX if self.kind is Kind.MESSAGE else 0)

    def items_problem(self, values: list[Any]) -> str | None:
        """What is wrong with a list of this field's, or None; its elements aside."""
        most = self.elements_max
        return f"must hold at most {most}" if most and len(values) > most else None


@memo
def fields_of(message: Any) -> dict[str, Field]:
    """Every field of a message type by its name, in the order of game.proto."""
    # Not by the metadata that betterproto2 makes of it, which reads all types of a message anew for each of its fields:
    # that was half of what a process did at its start, imports aside.
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
"""A text of which nothing else is said: an id in a path, a code."""


def text_problem(value: str) -> str | None:
    """What is wrong with a text of one line, or None."""
    return TEXT.text_problem(value)


def is_storable(value: str) -> bool:
    """Whether it is text that can be stored, and sent on, at all."""
    return _storing_problem(value) is None


def _storing_problem(value: str) -> str | None:
    """Postgres stores neither NUL nor half of a surrogate pair."""
    if "\0" in value:
        return "must not hold a NUL character"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "must be valid Unicode"
    return None


def number_problem(value: float) -> str | None:
    """What is wrong with a double, or None."""
    return None if math.isfinite(value) else "must be a finite number"


def object_problems(value: Any, path: str) -> Found:
    """(path, what is wrong) for what cannot be kept in a free-form object; no more than anybody reads.

    Paths are made for what is wrong alone: made at every step, those of deep objects with long names cost
    thousands of times what the check does.
    """
    if _is_sound(value, 0):
        return []
    found: Found = []
    _find_problems(value, [path], 0, found)
    return found


def _is_sound(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is dict:
        if depth >= OBJECT_DEPTH_MAX or not all(_key_problem(key) is None for key in value):
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
        if kind is int:  # Inlined, as the lists of a body are a hundred thousand of these at most.
            if not _INT64_LEAST <= item <= _INT64_MOST:
                return False
        elif not _is_sound(item, depth + 1):
            return False
    return True


def _find_problems(value: Any, path: list[str], depth: int, found: Found) -> None:
    """Adds what is wrong below `path`, whose parts are joined only where something is."""
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
        # Long texts are welcome here: a widget's image may be in its `ui`. The body's limit bounds them.
        return _storing_problem(value)
    if isinstance(value, int) and not _INT64_LEAST <= value <= _INT64_MOST:
        return "must be a whole number of 64 bits"
    return number_problem(value) if isinstance(value, float) else None


def refused(found: Found) -> Fault:
    """INVALID_ARGUMENT for what was found wrong, as much of it as anybody reads."""
    return violations([(_shown(path), problem) for path, problem in found[:VIOLATIONS_MAX]])


def _shown(path: str) -> str:
    """A path holds names as their sender wrote them: what is no Unicode could not be sent back."""
    return path[:PATH_CHARACTERS_SHOWN].encode(errors="replace").decode()


# -- whole messages --------------------------------------------------------------------------


def check(message: Any) -> None:
    """Holds a message that came as protobuf to what JSON is held to. Raises INVALID_ARGUMENT naming each field."""
    found: Found = []
    _check_message(message, "", found)
    if found:
        raise refused(found)


def _check_message(message: Any, path: str, found: Found) -> None:
    for name, field in fields_of(type(message)).items():
        value = getattr(message, name)
        # Most fields of most messages are unset; 0, "" and False have nothing to check either.
        if value is None or value == 0 or value == "" or field.kind is Kind.MAP:
            continue
        if field.repeated:
            if problem := field.items_problem(value):
                found.append((f"{path}{name}", problem))
                continue
            for index, item in enumerate(value):
                _check_value(field, item, f"{path}{name}[{index}]", found)
                if len(found) >= VIOLATIONS_MAX:
                    return  # Nobody is told of more.
        else:
            _check_value(field, value, f"{path}{name}", found)


def _check_value(field: Field, value: Any, path: str, found: Found) -> None:
    match field.kind:
        case Kind.TEXT:
            problem = field.text_problem(value)
        case Kind.NUMBER:
            problem = number_problem(value)
        case Kind.ENUM:
            problem = None if getattr(field.type(value), "name", "") else "is not a value of this enum"
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
