"""What the catalogue's writers check alike: bounds of numbers, times, objects, and what an update sets.

The surfaces have checked types, enums and texts already (runtime.wire.schema); here are the meanings.
A `Checks` collects every problem, so that a designer who saves a game hears all of them at once.
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
"""The last second in unix seconds that is of the year 9999 in every time zone: no later one has a date there."""
VIOLATIONS_MAX: Final = 100

M = TypeVar("M")


class Checks:
    """Problems found so far; `raise_found` refuses with all of them (INVALID_ARGUMENT)."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def problem(self, field: str, description: str) -> None:
        """Adds one problem."""
        self.found.append((field, description))

    def problems(self, found: Iterable[tuple[str, str]]) -> None:
        """Adds several."""
        self.found.extend(found)

    def required(self, field: str, value: str) -> None:
        """A text that says something; blanks alone are no name. Its length and characters the surfaces have checked."""
        if not value.strip():
            self.problem(field, "is required")

    def between(self, field: str, value: float, least: float, most: float) -> None:
        """A number from `least` to `most`."""
        if not least <= value <= most:
            self.problem(field, f"must be from {least} to {most}")

    def times(self, start_date: int, end_date: int) -> None:
        """start_date and end_date in unix seconds, 0 = unset; the end is after the start."""
        for field, value in (("start_date", start_date), ("end_date", end_date)):
            self.between(field, value, 0, TIME_MAX)
        if start_date and end_date and end_date <= start_date:
            self.problem("end_date", "must be after start_date")

    def timezone(self, field: str, value: str) -> None:
        """A zone of the IANA database."""
        if not is_timezone(value):
            self.problem(field, "must be an IANA time zone such as Europe/Berlin")

    def small_object(self, field: str, value: dict[str, Any] | None) -> None:
        """An object of at most 64 KiB as JSON."""
        if value and len(msgspec.json.encode(value)) > OBJECT_BYTES_MAX:
            self.problem(field, f"must be at most {OBJECT_BYTES_MAX} bytes as JSON")

    def origins(self, field: str, values: Sequence[str]) -> None:
        """Origins of pages, each once (runtime.wire.origins)."""
        for index, value in enumerate(values):
            wrong = origins.problem(value) or ("is there twice" if value in values[:index] else "")
            if wrong:
                self.problem(f"{field}[{index}]", wrong)

    def raise_found(self) -> None:
        """Raises INVALID_ARGUMENT with every problem, where there is one."""
        if self.found:
            raise violations(self.found[:VIOLATIONS_MAX])


def is_timezone(name: str) -> bool:
    """True where the IANA database has the zone."""
    if not name or len(name) > 64 or name.startswith(("/", ".")):
        return False
    try:
        zone(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def given(resource: M | None, name: str) -> M:
    """The resource that a request wraps; INVALID_ARGUMENT where there is none."""
    if resource is None:
        raise invalid(name, "is required")
    return resource


def refuse_read_only(sent: Any, stored: Any) -> None:
    """INVALID_ARGUMENT names each read-only field that is sent and is not what is stored.

    So a resource may be sent back as it was read, and nothing that the service sets is passed over without a word.
    stored: of what is made, what it is given.
    """
    if found := list(_read_only(sent, stored, "")):
        raise violations(found)


def _read_only(sent: Any, stored: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, field in fields_of(type(sent)).items():
        value, kept = getattr(sent, name), getattr(stored, name)
        if not value:
            continue
        if field.read_only and value != kept:
            yield path + name, _SET_OTHERWISE.get(name, "is set by the service")
        elif field.kind is Kind.MESSAGE and not field.repeated and kept is None:
            yield from _read_only(value, field.type(), f"{path}{name}.")


_SET_OTHERWISE: Final = {"tenant_id": "is the tenant that asks; the role platform names another in X-Tenant-Id"}


def set_fields(current: M, update: M, mask: Sequence[str], settable: frozenset[str]) -> frozenset[str]:
    """Sets on `current` what an update gives, and returns the names that were set.

    mask: the fields that the update holds (REST makes it from the body); where empty, every field that
    is not at its default (AIP-134). Read-only fields are refused as `refuse_read_only` has it. An enum given as
    unspecified keeps what is stored.
    """
    refuse_read_only(update, current)
    known = set(type(update).__dataclass_fields__)  # type: ignore[attr-defined]
    for name in mask:
        if name not in known:
            raise invalid("update_mask", f"{name[:NAME_LENGTH_MAX]!r} is not a field")
    names = {name for name in settable if _is_given(update, name, mask)}
    for name in names:
        setattr(current, name, getattr(update, name))
    return frozenset(names)


def _is_given(update: Any, name: str, mask: Sequence[str]) -> bool:
    value = getattr(update, name)
    if hasattr(value, "proto_name") and not value:
        return False
    if mask:
        return name in mask
    # A message whose fields are all at their defaults is falsy, and given all the same.
    return value is not None if isinstance(value, dict) or hasattr(value, "to_dict") else bool(value)


def search_pattern(q: str) -> str:
    """A LIKE pattern for names that hold `q`, whose own wildcards mean themselves."""
    escaped = q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%" if q else "%"
