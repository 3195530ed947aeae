"""Shared validation of catalogue writes: bounds of numbers, times and objects, and the fields that an update sets.

The surfaces have already checked types, enums and text (runtime.wire.schema). `Checks` collects every problem, so
that a designer who saves a game sees all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from runtime.errors import invalid, violations
from runtime.stores.clock import zone
from runtime.wire import origins
from runtime.wire.schema import Kind, fields_of

NAME_LENGTH_MAX: Final = 200
TYPE_LENGTH_MAX: Final = 100
OBJECT_BYTES_MAX: Final = 64 * 1024
TIME_MAX: Final = 253_402_214_399
"""The last second (unix) within the year 9999 in every time zone; later ones have no valid date."""
VIOLATIONS_MAX: Final = 100

M = TypeVar("M")


class Checks:
    """Collects problems; `raise_found` raises INVALID_ARGUMENT with all of them."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def problem(self, field: str, description: str) -> None:
        self.found.append((field, description))

    def problems(self, found: Iterable[tuple[str, str]]) -> None:
        self.found.extend(found)

    def required(self, field: str, value: str) -> None:
        """A text that is not blank. The surfaces have already checked its length and characters."""
        if not value.strip():
            self.problem(field, "is required")

    def between(self, field: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:
            self.problem(field, f"must be from {least} to {most}")

    def times(self, start_date: int, end_date: int) -> None:
        """start_date and end_date in unix seconds, 0 = unset; the end is after the start."""
        for field, value in (("start_date", start_date), ("end_date", end_date)):
            self.between(field, value, 0, TIME_MAX)
        if start_date and end_date and end_date <= start_date:
            self.problem("end_date", "must be after start_date")

    def timezone(self, field: str, value: str) -> None:
        if not is_timezone(value):
            self.problem(field, "must be an IANA time zone such as Europe/Berlin")

    def small_object(self, field: str, value: dict[str, Any] | None, most: int = OBJECT_BYTES_MAX) -> None:
        """An object of at most so many bytes as JSON."""
        if value and len(msgspec.json.encode(value)) > most:
            self.problem(field, f"must be at most {most} bytes as JSON")

    def origins(self, field: str, values: Sequence[str]) -> None:
        """Page origins without duplicates (runtime.wire.origins)."""
        for index, value in enumerate(values):
            description = origins.problem(value) or ("is a duplicate" if value in values[:index] else "")
            if description:
                self.problem(f"{field}[{index}]", description)

    def raise_found(self) -> None:
        """Raises INVALID_ARGUMENT with every problem, if there is one."""
        if self.found:
            raise violations(self.found[:VIOLATIONS_MAX])


def is_timezone(name: str) -> bool:
    """Whether Python knows the zone. localtime and posixrules differ from machine to machine."""
    if not name or len(name) > 64 or name.startswith(("/", ".")) or name in ("localtime", "posixrules"):
        return False
    try:
        zone(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def provided(resource: M | None, name: str) -> M:
    """The resource in a request; INVALID_ARGUMENT if it is missing."""
    if resource is None:
        raise invalid(name, "is required")
    return resource


def refuse_read_only(sent: Any, stored: Any) -> None:
    """INVALID_ARGUMENT for each read-only field that differs from the stored value.

    A client may send a resource back as it read it, and no attempt to set a read-only field is silently ignored.
    stored: for a new resource, the values that the service will set.
    """
    if found := list(_read_only(sent, stored, "")):
        raise violations(found)


def _read_only(sent: Any, stored: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, field in fields_of(type(sent)).items():
        value, stored_value = getattr(sent, name), getattr(stored, name)
        if not value:
            continue
        if field.read_only and value != stored_value:
            yield path + name, _READ_ONLY.get(name, "is read-only")
        elif field.kind is Kind.MESSAGE and not field.repeated:
            yield from _read_only(value, field.type() if stored_value is None else stored_value, f"{path}{name}.")


_READ_ONLY: Final = {"tenant_id": "is the caller's tenant. With the role platform, set another in X-Tenant-Id"}


def set_fields(current: M, update: M, mask: Sequence[str], settable: frozenset[str]) -> frozenset[str]:
    """Applies an update to `current` and returns the names of the fields that were set.

    mask: the fields of the update (REST derives it from the body); if empty, every field that is not at its
    default (AIP-134). `refuse_read_only` checks read-only fields. An unspecified enum keeps the stored value.
    """
    refuse_read_only(update, current)
    known = set(type(update).__dataclass_fields__)  # type: ignore[attr-defined]
    for name in mask:
        if name not in known:
            raise invalid("update_mask", f"{name[:NAME_LENGTH_MAX]!r} is not a field")
    names = {name for name in settable if _is_set(update, name, mask)}
    for name in names:
        setattr(current, name, getattr(update, name))
    return frozenset(names)


def _is_set(update: Any, name: str, mask: Sequence[str]) -> bool:
    value = getattr(update, name)
    if hasattr(value, "proto_name") and not value:
        return False
    if mask:
        return name in mask
    # A message with all fields at their defaults is falsy, but present.
    return value is not None if isinstance(value, dict) or hasattr(value, "to_dict") else bool(value)


def search_pattern(q: str) -> str:
    """A LIKE pattern for names that contain `q`, with its wildcards escaped."""
    escaped = q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%" if q else "%"
