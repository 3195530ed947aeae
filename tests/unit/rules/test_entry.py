from datetime import date
from typing import Any, Final

import pytest

from runtime.rules import entry

TODAY: Final = date(2026, 2, 28)

FORM: Final[dict[str, Any]] = {
    "min_age": 18,
    "fields": [
        {"key": "birth_date", "kind": "date", "required": True},
        {"key": "arrival", "kind": "date", "required": True},
        {"key": "shoes", "kind": "number", "required": False},
    ],
    "consents": [],
}


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        *(("birth_date", "2026-02-28", "2026-02-28"), ("birth_date", "2026-03-01", None)),
        *(("arrival", "2026-03-01", "2026-03-01"), ("arrival", "20260301", None), ("arrival", "1899-12-31", None)),
        *(("arrival", "1900-01-01", "1900-01-01"), ("shoes", True, None), ("shoes", "7", None)),
        *(("shoes", -1e15, -1_000_000_000_000_000), ("shoes", 1.5, 1.5), ("shoes", 1e15 + 1, None)),
    ],
)
def test_value_is_read_within_its_bounds(key: str, value: Any, read: Any) -> None:
    found = entry.read_values({**FORM, "min_age": 0}, {key: value}, TODAY)
    assert (found.values, [path for path, _ in found.problems]) == (
        ({}, [f"fields.{key}"]) if read is None else ({key: read}, [])
    )


def test_age_is_of_completed_years() -> None:
    births = (date(2008, 2, 28), date(2008, 2, 29), date(2008, 3, 1), date(2007, 12, 31), date(2008, 1, 31))
    assert [entry.age_at(born, TODAY) for born in births] == [18, 17, 17, 18, 18]


def test_form_needs_its_required_parts_and_its_minimum_age() -> None:
    ages = [f"age:{age}" for age in range(18, 121)]
    assert entry.needs_of(FORM) == [["fields.birth_date", ages], ["fields.arrival", ["field:arrival:date"]]]
    assert entry.needs_of({**FORM, "min_age": 0}) == [
        *(["fields.birth_date", ["field:birth_date:date"]], ["fields.arrival", ["field:arrival:date"]])
    ]
