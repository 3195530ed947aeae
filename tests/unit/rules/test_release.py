import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runtime.actors.game.releases import load_schedule
from runtime.rules import release

ROME = ZoneInfo("Europe/Rome")
WORK = [[[1, 2, 3, 4, 5], 9, 17]]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ROME).timestamp()


def span(kind: str, units: int, first: str, last: str, **more: Any) -> dict[str, Any]:
    terms = {"kind": kind, "units": units, "starts_at": at(first), "ends_at": at(last)}
    return terms | {"timezone": "Europe/Rome", **more}


def free_at(terms: dict[str, Any], text: str) -> int:
    return int(terms["units"]) - release.schedule(terms, b"").held_back(at(text))


def test_listed_times_free_their_units() -> None:
    terms = {"kind": "TIMES", "units": 6, "times": [[200, 5], [100, 1]]}
    freed = [6 - release.schedule(terms, b"").held_back(now) for now in (99.9, 100, 199, 200, 1e12)]
    assert freed == [0, 1, 1, 6, 6]


def test_even_release_frees_each_unit_in_the_middle_of_its_share() -> None:
    terms = span("EVEN", 4, "2026-03-02T00:00", "2026-03-02T08:00")
    times = ("2026-03-01T00:00", "2026-03-02T00:59", "2026-03-02T01:00", "2026-03-02T03:00", "2026-03-02T08:00")
    assert [free_at(terms, text) for text in times] == [0, 0, 1, 2, 4]


def test_hours_of_the_week_stop_the_release_in_local_time() -> None:
    # From Friday to Monday: 8 open hours on each.
    terms = span("EVEN", 16, "2026-03-06T00:00", "2026-03-10T00:00", hours=WORK)
    times = ("2026-03-06T09:30", "2026-03-06T17:00", "2026-03-08T12:00", "2026-03-09T09:29", "2026-03-09T17:00")
    assert [free_at(terms, text) for text in times] == [1, 8, 8, 8, 16]
    terms = span("EVEN", 2, "2026-03-28T12:00", "2026-03-30T00:00", hours=[[[6, 7], 12, 13]])
    assert [free_at(terms, text) for text in ("2026-03-28T12:30", "2026-03-29T12:29", "2026-03-29T12:30")] == [1, 1, 2]
    terms = span("EVEN", 2, "2026-03-02T00:00", "2026-03-03T00:00", hours=[[[1], 8, 10], [[1], 9, 12], [[1], 9, 10]])
    assert release.OpenTime(terms).total == 4 * 3600
    hourly = [[[1, 2, 3, 4, 5, 6, 7], hour, hour + 1] for hour in range(24)]
    terms = span("EVEN", 2, "2026-03-28T12:00", "2026-03-30T12:00", hours=hourly)
    assert list(release.OpenTime(terms)._starts) == [terms["starts_at"]]  # Touching hours are one span.
    assert load_schedule((), "acme", "mug", {"terms": terms}) is load_schedule((), "acme", "mug", {"terms": terms})


@pytest.mark.parametrize("hours", [[], WORK])
def test_sealed_instants_follow_from_the_seed_and_lie_in_open_time(hours: list[Any]) -> None:
    terms = span("SEALED", 500, "2026-03-02T00:00", "2026-03-16T00:00", hours=hours)
    found = release.sealed_instants(terms, b"seed")
    assert found == release.sealed_instants(terms, b"seed") != release.sealed_instants(terms, b"other")
    assert terms["starts_at"] <= min(found) and max(found) <= terms["ends_at"]
    local = [datetime.fromtimestamp(instant, ROME) for instant in found]
    assert not hours or all(one.isoweekday() <= 5 and 9 <= one.hour < 17 for one in local)
    assert len({one.date() for one in local}) == (10 if hours else 14)
    assert release.schedule(terms, b"seed").held_back(sorted(found)[250]) == 249


def test_opening_has_what_the_instants_follow_from() -> None:
    terms = span("SEALED", 3, "2026-03-02T00:00", "2026-03-16T00:00")
    document = release.opening("prize_1", terms, b"seed")
    opened = json.loads(document)
    assert release.commitment(document) != release.commitment(release.opening("prize_2", terms, b"seed"))
    again = release.sealed_instants(opened["release"], bytes.fromhex(opened["seed"]))
    assert again == release.sealed_instants(terms, b"seed")
