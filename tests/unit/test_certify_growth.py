"""The ceilings of a soak: what grows in one process, or among the keys of Valkey, is found."""

from __future__ import annotations

import gc

import pytest

from ops.certification.growth import CEILINGS, MEBIBYTE, Asked, Growth, kind_of
from ops.history.record import Attempt, History
from runtime.metrics import BLOCKS

SMALL = {"rss_bytes": 90 * MEBIBYTE, "files": 40, "blocks": 900_000}


def grown(*lives: list[dict[str, int]], **kinds: int) -> Growth:
    """What some processes had at each reading, and keys by kind, of one tenant with 3 keyed requests and 2 starts."""
    growth = Growth({(f"core-{nth}", nth): readings for nth, readings in enumerate(lives)}, [100.0], [10.0])
    growth.kinds.update(kinds)
    growth.total = Asked(tenants=1, requests=1000, keyed=3, starts=2, players=2)
    return growth


def missed(growth: Growth) -> list[str]:
    return [figure.name for figure in growth.figures() if not figure.ok]


def test_what_keeps_its_size_after_its_warm_up_is_right() -> None:
    cold = {**SMALL, "blocks": 100_000, "rss_bytes": MEBIBYTE}
    assert missed(grown([cold, SMALL, SMALL, SMALL], [cold, SMALL])) == []


@pytest.mark.parametrize(
    ("what", "by", "told"),
    [
        ("rss_bytes", (CEILINGS["rss"] + 1) * MEBIBYTE, "growth of memory (core-1)"),
        ("files", CEILINGS["files"] + 1, "growth of open files (core-1)"),
        ("blocks", CEILINGS["blocks"] + 101, "growth of objects (core-1)"),
    ],
)
def test_a_process_that_grows_beyond_its_ceiling_is_named(what: str, by: float, told: str) -> None:
    greater = {**SMALL, what: SMALL[what] + int(by)}
    assert missed(grown([SMALL, SMALL, SMALL], [SMALL, SMALL, greater])) == [told]


def test_more_keys_of_a_kind_than_were_asked_for_and_kinds_that_nobody_knows_are_found() -> None:
    assert missed(grown([SMALL], k=3, s=2, fresh=1)) == []
    assert missed(grown([SMALL], k=4, s=2, other=1)) == ["keys of Valkey: k", "keys of Valkey: other"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("{tenant_01ABC}k:player:Play:key", "k"),
        ("{tenant_01ABC}fresh", "fresh"),
        ("{ip12}i:127.0.0.1", "i"),
        ("tombola:board:{tenant_01ABC}:board_1:order", "tombola:board"),
        ("tombola:events:{3}", "tombola:events"),
    ],
)
def test_a_key_is_of_the_kind_that_its_name_says(key: str, kind: str) -> None:
    assert kind_of(key) == kind


def test_what_a_chapter_asks_is_counted() -> None:
    history, growth = History(), Growth()
    for who in ("ann", "bob"):
        start = history.new("Start", who, key=f"key of {who}")
        start.attempts += [Attempt("consumer-1", 1.0), Attempt("consumer-1", 2.0, 2.5, 200)]
    history.new("ListBalances", "ann")
    growth.asked(history)
    assert growth.total == Asked(tenants=1, requests=4, keyed=2, starts=2, players=2)


def objects() -> float:
    """What is scraped."""
    (metric,) = BLOCKS.collect()
    return metric.samples[0].value


def test_a_process_says_how_many_objects_it_keeps() -> None:
    gc.collect()  # What others have left would go meanwhile.
    before = objects()
    kept = [[nth] for nth in range(100_000)]
    after = objects()
    assert after - before >= len(kept) and before
