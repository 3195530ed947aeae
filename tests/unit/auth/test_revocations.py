"""What an edge remembers of revoked tokens: as little as it can, and for no longer than it must."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from runtime import ids
from runtime import messages as m
from runtime.http.auth.revocations import DAY_SECONDS, Revocations, player_key
from runtime.operations import Operation

NOW = int(time.time())
MONTH_SECONDS = 30 * DAY_SECONDS


class Desk:
    """core.Caller: answers with what a test has revoked, and with its time."""

    def __init__(self, *rows: m.Revocation) -> None:
        self.rows = list(rows)
        self.now = NOW

    async def call(self, operation: Operation, request: Any) -> m.ListRevocationsReply:
        return m.ListRevocationsReply(revocations=self.rows, since="x", now_us=self.now * 1_000_000)


def revoked(player_id: str, *, until: int = 0, kept: int = NOW + MONTH_SECONDS) -> m.Revocation:
    return m.Revocation(
        tenant_id="tenant_a", kind=m.RevocationKind.PLAYER, subject=player_id, issued_until=until, expires_at=kept
    )


def is_revoked(known: Revocations, player_id: str, issued_at: float = NOW) -> bool:
    return known.revoked(player_key("tenant_a", player_id), issued_at)


async def test_tokens_are_refused_that_were_issued_until_then_or_all() -> None:
    known = Revocations(Desk(revoked("ann", until=NOW), revoked("guest")))
    await known.read()
    assert is_revoked(known, "ann", NOW) and not is_revoked(known, "ann", NOW + 1)
    assert is_revoked(known, "guest", NOW + MONTH_SECONDS)
    assert not is_revoked(known, "bob")


async def test_guest_that_logged_out_takes_a_hundred_bytes() -> None:
    names = [ids.make("guest") for _ in range(20_000)]
    desk = Desk(*map(revoked, names))
    known = Revocations(desk)
    tracemalloc.start()
    try:
        await known.read()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(names) < 130, held / len(names)
    assert all(is_revoked(known, name) for name in names)
    before = sum(map(len, known._forgotten_on.values()))
    await known.read()  # Those of the last seconds are read again each second.
    assert sum(map(len, known._forgotten_on.values())) == before


async def test_revocation_is_forgotten_when_it_is_over() -> None:
    desk = Desk(revoked("over", kept=NOW + 60), revoked("again", kept=NOW + 60), revoked("later"))
    known = Revocations(desk)
    await known.read()
    desk.rows = [revoked("again", until=NOW)]
    await known.read()
    assert all(is_revoked(known, name) for name in ("over", "again", "later"))
    desk.rows = []
    for days, left in ((2, {"again", "later"}), (32, set[str]())):
        desk.now = NOW + days * DAY_SECONDS
        await known.read()
        assert {name for name in ("over", "again", "later") if is_revoked(known, name)} == left
    assert known._ended == known._forgotten_on == {}
