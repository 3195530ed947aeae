"""Reads untrusted objects into typed, frozen structs and reports every violation at once.

msgspec stops at the first error, but a designer who saves a game needs the whole list. This module walks
the struct's types and `Meta` bounds; each violation names its path (`handler_config.prizes[2].probability`).

Stricter than JSON: no NaN or infinity, no booleans as numbers, no integers past int64, no NUL or
lone surrogates in text (Postgres stores neither). One exception: a whole double such as 3.0 is accepted
as an integer, since google.protobuf.Struct carries every number as a double.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, inspect

from runtime.errors import violations

MAX_ENTRIES: Final = 1000

MAX_NAME_LENGTH: Final = 200

MAX_VIOLATIONS: Final = 100

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_EXACT_DOUBLE_MAX: Final = 2**53
_INVALID: Final = object()

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
OptionalName: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]

Violation: TypeAlias = tuple[str, str]
"""(path of the field, description)"""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that may add rules beyond types and bounds."""

    def broken_rules(self, path: str) -> Iterable[Violation]:
        """The violations of this part at `path`. Called only when all its fields are valid."""
        return ()


P = TypeVar("P", bound=Part)


def read(kind: type[P], raw: object, path: str) -> P:
    """`raw` (plain objects, as decoded from JSON) as a `kind`.

    Raises INVALID_ARGUMENT with up to 100 violations, each naming its field under `path`.
    """
    found: list[Violation] = []
    value = _read_struct(_layout(kind), raw, path, found)
    if found:
        raise violations(found[:MAX_VIOLATIONS])
    return cast(P, value)


@cache
def _layout(kind: type[Part]) -> inspect.StructType:
    return cast(inspect.StructType, inspect.type_info(kind))


def _read_any(kind: inspect.Type, raw: object, path: str, found: list[Violation]) -> Any:
    if isinstance(kind, inspect.StructType):
        return _read_struct(kind, raw, path, found)
    if isinstance(kind, inspect.VarTupleType):
        return _read_list(kind, raw, path, found)
    if isinstance(kind, inspect.DictType):
        return _read_map(kind, raw, path, found)
    if isinstance(kind, inspect.StrType):
        return _read_text(kind, raw, path, found)
    if isinstance(kind, inspect.IntType):
        return _read_integer(kind, raw, path, found)
    if isinstance(kind, inspect.FloatType):
        return _read_number(kind, raw, path, found)
    raise TypeError(f"{path}: a Part cannot hold a {type(kind).__name__}")


def _read_struct(kind: inspect.StructType, raw: object, path: str, found: list[Violation]) -> Any:
    if not isinstance(raw, Mapping):
        return _refuse(found, path, "must be an object")
    before = len(found)
    known = {field.encode_name for field in kind.fields}
    found.extend((f"{path}.{_shown(key)}", "unknown field") for key in raw if key not in known)
    values: dict[str, Any] = {}
    for field in kind.fields:
        if field.encode_name in raw:
            values[field.name] = _read_any(field.type, raw[field.encode_name], f"{path}.{field.encode_name}", found)
        elif field.required:
            found.append((f"{path}.{field.encode_name}", "is required"))
    if len(found) > before:
        return _INVALID
    part = cast(Part, kind.cls(**values))
    found.extend(part.broken_rules(path))
    return part


def _read_list(kind: inspect.VarTupleType, raw: object, path: str, found: list[Violation]) -> Any:
    if not isinstance(raw, list | tuple):
        return _refuse(found, path, "must be a list")
    if len(raw) > MAX_ENTRIES:
        return _refuse(found, path, f"must have at most {MAX_ENTRIES} entries")
    return tuple(_read_any(kind.item_type, item, f"{path}[{i}]", found) for i, item in enumerate(raw))


def _read_map(kind: inspect.DictType, raw: object, path: str, found: list[Violation]) -> Any:
    if not isinstance(raw, Mapping):
        return _refuse(found, path, "must be an object")
    if len(raw) > MAX_ENTRIES:
        return _refuse(found, path, f"must have at most {MAX_ENTRIES} entries")
    values: dict[Any, Any] = {}
    for key, item in raw.items():
        entry_path = f"{path}.{_shown(key)}"
        _read_any(kind.key_type, key, entry_path, found)
        values[key] = _read_any(kind.value_type, item, entry_path, found)
    return values


def _read_text(kind: inspect.StrType, raw: object, path: str, found: list[Violation]) -> Any:
    if not isinstance(raw, str):
        return _refuse(found, path, "must be a string")
    if len(raw) < (kind.min_length or 0):
        return _refuse(found, path, "must not be empty")
    if kind.max_length is not None and len(raw) > kind.max_length:
        return _refuse(found, path, f"must be at most {kind.max_length} characters long")
    if "\0" in raw:
        return _refuse(found, path, "must not contain NUL")
    if _shown(raw) != raw[:MAX_NAME_LENGTH]:
        return _refuse(found, path, "must be valid Unicode text")
    return raw


def _read_integer(kind: inspect.IntType, raw: object, path: str, found: list[Violation]) -> Any:
    if isinstance(raw, float) and raw.is_integer() and abs(raw) <= _EXACT_DOUBLE_MAX:
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not _within(kind, raw, _INT64_MIN, _INT64_MAX):
        return _refuse(found, path, f"must be a whole number{_bounds(kind)}")
    return raw


def _read_number(kind: inspect.FloatType, raw: object, path: str, found: list[Violation]) -> Any:
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not _within(kind, raw, -math.inf, math.inf):
        return _refuse(found, path, f"must be a finite number{_bounds(kind)}")
    try:
        number = float(raw)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return _refuse(found, path, f"must be a finite number{_bounds(kind)}")
    return number


def _within(kind: inspect.IntType | inspect.FloatType, number: float, least: float, most: float) -> bool:
    least = least if kind.ge is None else kind.ge
    most = most if kind.le is None else kind.le
    # NaN compares false with everything, so it is never within.
    return least <= number <= most and (kind.gt is None or number > kind.gt)


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}" + ("" if kind.le is None else f", at most {kind.le:g}")
    if kind.ge is None:
        return ""
    return f" of at least {kind.ge}" if kind.le is None else f" from {kind.ge} to {kind.le}"


def _refuse(found: list[Violation], path: str, description: str) -> object:
    found.append((path, description))
    return _INVALID


def _shown(key: object) -> str:
    """An untrusted name, fit for a response: short, and without lone surrogates, which encoders reject."""
    return str(key)[:MAX_NAME_LENGTH].encode("utf-8", "backslashreplace").decode()
