"""Referrals: a player shares a code, and is paid turns for each invited player who plays.

A quest with a condition of kind `referrals` pays its turns once for each invited player, for at most `count` of them.
An invited player counts after the first play, once the player has a verified contact. A guest counts after the login:
anyone can create guests. An entry's contact does not count, since anyone can type one. Neither the code nor a reply
reveals the other player.

A person is paid for only once: a payment stores keyed hashes of the invited player's canonical contacts, which
outlive an erasure. Plays write nothing: a job reads the open referrals from the database, so it misses none. A payment
is one statement, so any number of processes may run the job.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import Fault, Status, suspended, unknown
from runtime.events import QuestCompleted, event_of
from runtime.operations.checks import Checks
from runtime.operations.entries.contacts import hashes_of
from runtime.operations.players.lookup import MEET
from runtime.operations.row import Access, Consumer, Operation
from runtime.stores.database import at
from runtime.wire.scope import player_id_of, tenant_of

_SQL: Final = sql.load("referrals")

JOB: Final = "referrals"
EVERY_SECONDS: Final = 5.0
BATCH: Final = 500
PAGE: Final = 2_000
"""Open referrals that a statement looks at. Most are of guests who never log in, and there is no limit to them."""
PAGES: Final = 8
"""Of a tenant in one pass. The next pass continues there: 160,000 open referrals take 50 s."""

_ALPHABET: Final = "23456789abcdefghjkmnpqrstvwxyz"
_CODE_CHARACTERS: Final = 10
"""49 random bits: guessing one of a million codes takes half a billion attempts."""

_ATTEMPTS: Final = 3


# -- codes and invitations -------------------------------------------------------------------


async def create_referral_code(engine: Engine, request: m.ReferralCodeRequest) -> m.ReferralCodeReply:
    """The player's code for links to the campaign: the same one every time.

    FAILED_PRECONDITION QUEST_CLOSED if no quest of the campaign pays for referrals now.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    for _ in range(_ATTEMPTS):
        made = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARACTERS))
        code = await engine.database.fetchval(_SQL["code"], tenant_id, request.id, player_id, made)
        if code is not None:
            return m.ReferralCodeReply(code=code)
    row = await engine.database.fetchrow(_SQL["for_code"], tenant_id, request.id, player_id, "")
    if row is None:
        raise unknown("campaign", request.id)
    if row["merchant_suspended"]:
        raise suspended("merchant")
    raise _closed(request.id)


async def accept_referral(engine: Engine, request: m.AcceptReferralRequest) -> m.AcceptReferralReply:
    """Records an invitation by another player's code, before the player's first play in the campaign.

    A repetition changes nothing. NOT_FOUND UNKNOWN_REFERRAL. FAILED_PRECONDITION REFERRAL_REFUSED with `why`: OWN,
    PLAYED or INVITED (by someone else).
    """
    checks = Checks()
    checks.required("code", request.code)
    checks.raise_found()
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    for _ in range(_ATTEMPTS):
        about = (tenant_id, request.id, player_id)
        row = await engine.database.fetchrow(_SQL["for_code"], *about, request.code.strip().lower())
        if row is None:
            raise unknown("campaign", request.id)
        if row["merchant_suspended"]:
            raise suspended("merchant")
        if row["merged_into"] is not None:
            player_id = row["merged_into"]
            continue
        if row["inviter_id"] is None:
            raise unknown("referral", request.code)
        if row["invited_by"] == row["inviter_id"]:
            return m.AcceptReferralReply()
        if row["status"] != "active" or row["quest_id"] is None:
            raise _closed(request.id)
        if row["inviter_id"] == player_id:
            raise _refused("OWN", "the code is the player's own")
        if row["invited_by"] is not None:
            raise _refused("INVITED", "the player was invited by another player before")
        if row["has_played"]:
            raise _refused("PLAYED", "the player has already played in the campaign")
        await engine.database.fetchval(MEET, tenant_id, player_id)
        if await engine.database.fetchval(_SQL["accept"], *about, row["inviter_id"]):
            return m.AcceptReferralReply()
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the player is changing; try again", retry_after_seconds=1)


def _closed(campaign_id: str) -> Fault:
    message = f"no quest of campaign {campaign_id} pays for referrals now"
    return Fault(Status.FAILED_PRECONDITION, "QUEST_CLOSED", message)


def _refused(why: str, message: str) -> Fault:
    return Fault(Status.FAILED_PRECONDITION, "REFERRAL_REFUSED", message, why=why)


# -- payment ---------------------------------------------------------------------------------


class _Key(NamedTuple):
    """The order of a tenant's open referrals."""

    accepted_at: datetime
    player_id: str
    campaign_id: str


_FIRST: Final = _Key(datetime.min, "", "")
_LAST: Final = _Key(datetime.max, "", "")


class Payer:
    """Pays the due referrals. Each pass reads up to PAGES pages of the open ones."""

    def __init__(self) -> None:
        self._after: dict[str, _Key] = {}

    async def pay_all(self, engine: Engine) -> None:
        """A pass of every tenant. One tenant's failure does not block the others."""
        for tenant_id in await engine.database.tenants(_SQL["tenants"]):
            await attempt(JOB, at(tenant_id, self.pay_due(engine, tenant_id)), tenant_id=tenant_id)

    async def pay_due(self, engine: Engine, tenant_id: str) -> None:
        """Decides a tenant's due referrals, from where its last pass ended."""
        after = self._after.pop(tenant_id, _FIRST)
        for _ in range(PAGES):
            row = await engine.database.fetchrow(_SQL["next_page"], tenant_id, PAGE, *after)
            last = _LAST if row is None else _Key(*row)
            if row is not None:
                self._after[tenant_id] = last  # Before the page: a page that fails does not block the later ones.
            await _pay_page(engine, tenant_id, after, last)
            if row is None:
                return
            after = last


async def _pay_page(engine: Engine, tenant_id: str, after: _Key, last: _Key) -> None:
    decided = BATCH
    while decided == BATCH:
        rows = await engine.database.fetch(_SQL["due"], tenant_id, BATCH, *after, *last)
        decided = sum([await _decide(engine, tenant_id, row) for row in rows])


async def _decide(engine: Engine, tenant_id: str, row: asyncpg.Record) -> bool:
    """Pays a referral, or ends it without a payment. False: something changed meanwhile; the next pass decides."""
    own, known = hashes_of(engine, tenant_id, [tuple(one) for one in row["contacts"]])
    _, inviters = hashes_of(engine, tenant_id, [tuple(one) for one in row["inviter_contacts"] or ()])
    if row["player_id"] == row["inviter_id"] or set(known) & set(inviters):
        return await _end(engine, tenant_id, row, "own")
    if row["played_before"]:
        return await _end(engine, tenant_id, row, "played")
    if row["paid"] >= row["count"]:
        return await _end(engine, tenant_id, row, "limit")
    referral = (tenant_id, row["campaign_id"], row["player_id"], row["inviter_id"], row["quest_id"], row["turns"])
    new = (row["paid"] + 1, own, known, ids.make("entry"), ids.make("evt"))

    async def pay(connection: asyncpg.Connection) -> asyncpg.Record | None:
        await connection.execute(_SQL["lock_contacts"], tenant_id, row["campaign_id"], known)
        return await connection.fetchrow(_SQL["pay"], *referral, *new)

    try:
        paid = await engine.database.transaction(pay)
    except asyncpg.UniqueViolationError:
        return False
    if paid is not None:
        _emit(engine, tenant_id, row, paid)
        return True
    if await engine.database.fetchval(_SQL["is_paid_contact"], tenant_id, row["campaign_id"], known):
        return await _end(engine, tenant_id, row, "contact")
    return False


async def _end(engine: Engine, tenant_id: str, row: asyncpg.Record, outcome: str) -> bool:
    about = (tenant_id, row["campaign_id"], row["player_id"], outcome)
    return bool(await engine.database.execute(_SQL["decide"], *about))


def _emit(engine: Engine, tenant_id: str, row: asyncpg.Record, paid: asyncpg.Record) -> None:
    completed = QuestCompleted(
        quest_id=row["quest_id"],
        player_id=row["inviter_id"],
        turns_granted=paid["turns"],
        balance=paid["balance_after"],
        period=paid["period"],
    )
    event = event_of(
        completed,
        occurred_at=paid["completed_at"],
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        id=paid["event_id"],
    )
    engine.publisher.events([event])


# -- rows ------------------------------------------------------------------------------------

ROWS: Final = (
    Operation(
        "CreateReferralCode",
        "POST /campaigns/{id}/referral-code",
        run=create_referral_code,
        consumer=Consumer(Access.PLAYER),
        refusals=("QUEST_CLOSED",),
        example={},
    ),
    Operation(
        "AcceptReferral",
        "POST /campaigns/{id}/referrals",
        run=accept_referral,
        consumer=Consumer(Access.PLAYER),
        refusals=("QUEST_CLOSED", "REFERRAL_REFUSED", "UNKNOWN_REFERRAL"),
        example={"code": "k7q2m9xt4b"},
    ),
)
