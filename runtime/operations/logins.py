"""Logins, and tokens that end before their time: what the edges' credentials rest on, kept durably.

The edges own challenges and tokens (runtime/http/login/, runtime/http/auth.py); Core keeps what must outlive
them, as hashes or as names that open nothing. A revocation is a row here; each edge reads the new ones every
second into its memory (runtime/http/revocations.py), so that no request asks for them.
"""

from __future__ import annotations

from typing import Final, Literal

import asyncpg
import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations.row import Operation
from runtime.wire.enums import enum

_SQL: Final = sql.load("logins")
REVOKE: Final = _SQL["revoke"]

PAGE: Final = 5_000
"""Revocations of one reply: about half a megabyte."""

SLACK_SECONDS: Final = 60.0
"""A revocation outlives its tokens by this: they are made, and judged, by other clocks than the database's."""


async def revoke_player(
    connection: asyncpg.Connection, engine: Engine, tenant_id: str, player_id: str, *, for_ever: bool = True
) -> None:
    """Ends the player's tokens that belong to no login: a guest's, and those of another issuer.

    Durable with the transaction of `connection`; every edge process refuses them at most a second or so after its
    commit. With `for_ever` those that are issued later too (a guest that became a player), else those until now.
    """
    seconds = engine.settings.refresh_token_seconds + SLACK_SECONDS
    await connection.execute(REVOKE, tenant_id, "player", player_id, not for_ever, seconds)


async def list_revocations(engine: Engine, request: m.ListRevocationsRequest) -> m.ListRevocationsReply:
    """What was revoked since an earlier reply, of every tenant: for the edges, which remember it."""
    mark = _Mark.read(request.since)
    if not mark.tenant_id:
        # Asked before the rows are: what commits between the two is found by the next call.
        mark.settled_us = await engine.database.fetchval(_SQL["settled"])
    after = (mark.from_us, mark.tenant_id, mark.kind, mark.subject)
    rows = await engine.database.fetch(_SQL["revocations"], *after, PAGE)
    more = len(rows) == PAGE
    if more:
        last = rows[-1]
        mark = _Mark(mark.settled_us, last["revoked_us"], last["tenant_id"], last["kind"], last["subject"])
    else:
        mark = _Mark(from_us=mark.settled_us)
    return m.ListRevocationsReply(
        revocations=[
            m.Revocation(
                tenant_id=row["tenant_id"],
                kind=enum(m.RevocationKind, row["kind"]),
                subject=row["subject"],
                issued_until=row["issued_until"],
                kept_until=row["kept_until"],
            )
            for row in rows
        ],
        since=msgspec.json.encode(mark).decode(),
        more=more,
    )


class _Mark(msgspec.Struct, array_like=True):
    """How far a reader of revocations is: from when on it reads, and within one reading after which row.

    settled_us: from when on the next reading reads.
    """

    settled_us: int = 0
    from_us: int = 0
    tenant_id: str = ""
    kind: Literal["", "login", "player"] = ""
    subject: str = ""

    @classmethod
    def read(cls, text: str) -> _Mark:
        """INVALID_ARGUMENT where it is not one that was given."""
        try:
            mark = msgspec.json.decode(text, type=cls) if text else cls()
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise invalid("since", "is not a mark that was given") from None
        if not 0 <= mark.from_us < 2**53:
            raise invalid("since", "is not a mark that was given")
        return mark


# -- rows ------------------------------------------------------------------------------------

LIST_REVOCATIONS: Final = Operation("ListRevocations", "GET /logins/revocations", run=list_revocations)

ROWS: Final = (LIST_REVOCATIONS,)
