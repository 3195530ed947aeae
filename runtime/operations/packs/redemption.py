"""Players enter codes, each of which is paid once.

One conditional statement marks a code as used. The payment follows in the same transaction: one entry of turns or of a
wallet, with the redemption as its reference. A rival with the same code waits for the row and finds it used.

A repeated Idempotency-Key of a player gets the first reply. An unknown code and a code of another campaign are the same
lookup and the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.eligibility import login_required
from runtime.actors.idempotency import KeyedRequest, first_answer, keyed, replayed
from runtime.errors import BALANCE_MAX, Fault, Status, suspended, unknown, violations
from runtime.events import CodeRedeemed, event_of
from runtime.operations import suspension
from runtime.operations.entries.submit import SECRET_KEY_MIN, TOKEN_SECONDS
from runtime.operations.packs import codes, guesses
from runtime.operations.packs.pack_admin import gift
from runtime.operations.players import merging
from runtime.outgoing.vault import vault_of
from runtime.rules.entry import EntryTerms
from runtime.wire.scope import tenant_of

SQL: Final = sql.load("redemptions")
_MEET: Final = sql.load("players")["create"]
_MOVE: Final = sql.load("wallet")["move"]
_GRANT_TURNS: Final = sql.load("desk")["grant_turns"]

ATTEMPTS: Final = 4
"""Attempts, in case of a concurrent redemption with the same key, or of a guest that logs in."""


class Merged(Exception):
    """The guest has become a player: redeem for it."""

    def __init__(self, player_id: str) -> None:
        super().__init__(player_id)
        self.player_id = player_id


async def redeem_code(engine: Engine, request: m.RedeemCodeRequest) -> m.RedemptionReply:
    """Gives the player what the code is for, once per code.

    Without a player, a guest is created if the campaign has a public game; `guest_token` identifies the guest later. A
    retry gets the guest's first reply only with a random Idempotency-Key of at least 22 characters. NOT_FOUND
    UNKNOWN_CODE, also if its pack is paused. ALREADY_EXISTS CODE_USED. FAILED_PRECONDITION CODE_ENDED (after the pack's
    `until`, or withdrawn) or CAMPAIGN_CLOSED; ENTRY_REQUIRED and NOT_ELIGIBLE as for a play. PERMISSION_DENIED
    LOGIN_REQUIRED for a guest if no game of the campaign admits guests. RESOURCE_EXHAUSTED RATE_LIMITED after wrong
    codes.
    """
    tenant_id = tenant_of(request)
    code = codes.canonical(request.code)
    if found := [(name, "is required") for name in ("campaign_id", "code") if not getattr(request, name)]:
        raise violations(found)
    guessers = guesses.guessers_of(engine, request)
    newcomer = "" if request.player_id else _new_guest(engine, request, code)
    player_id = request.player_id or newcomer
    for _ in range(ATTEMPTS):
        keyed_request = keyed(request, player_id=player_id)
        about = (tenant_id, request.campaign_id, player_id, keyed_request.key)
        row = await engine.database.fetchrow(SQL["campaign"], *about)
        if row is None:
            raise unknown("campaign", request.campaign_id)
        if row["merchant_suspended"]:
            raise suspended("merchant")
        if row["merged_into"] is not None:
            # The guest has logged in: continue as the player.
            player_id = row["merged_into"]
            await suspension.refuse(engine, request, player_id)
            continue
        if newcomer and not row["has_public_games"]:
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this campaign requires a player; set player_id")
        if (first := first_answer(row, keyed_request, answer_of)) is not None:
            replayed.set(True)
            recent = row["age"] < TOKEN_SECONDS
            return replace(first, guest_player_id=newcomer if player_id == newcomer and recent else "")
        is_guest = ids.is_guest(player_id) if row["is_guest"] is None else row["is_guest"]
        if is_guest and not row["admits_guests"]:
            raise login_required("campaign")
        check_open(row, row["status"], engine.clock.now())
        check_entry(row)
        await guesses.refuse_waiting(engine.database, request, guessers)
        key = codes.open_key(engine, tenant_id, request.campaign_id, row["sealed"])
        entered = _Entered(player_id, player_id == newcomer, codes.code_hash(key, code), keyed_request)
        try:
            work = partial(_redeem, request=request, entered=entered, guessers=guessers)
            made = await guesses.in_turn(engine, work)
        except Merged as merged:
            player_id = merged.player_id
            continue
        except asyncpg.UniqueViolationError:
            continue  # The key was used meanwhile.
        if isinstance(made, Fault):
            raise made
        if made is not None:
            announce(engine, tenant_id, row["merchant_id"], made)
            return replace(answer_of(made), guest_player_id=newcomer if player_id == newcomer else "")
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the player is being merged; try again", retry_after_seconds=1)


def _new_guest(engine: Engine, request: m.RedeemCodeRequest, code: str) -> str:
    """The id of the guest that this request creates. A retry with the same long key and code is the same guest's, so it
    gets the first reply. Otherwise a code whose reply was lost would be lost too.
    """
    if len(request.idempotency_key) < SECRET_KEY_MIN:
        return ids.make("guest")
    text = f"{request.idempotency_key}\0{code}"
    digest = vault_of(engine.keyring.code).fingerprints(text, f"guest/{tenant_of(request)}/{request.campaign_id}")[0]
    return ids.guest_of(digest, request.campaign_id)


class _Entered(NamedTuple):
    """A code that a player enters. newcomer: a guest without a row."""

    player_id: str
    newcomer: bool
    code_hash: bytes
    keyed_request: KeyedRequest


async def _redeem(
    connection: asyncpg.Connection, request: m.RedeemCodeRequest, entered: _Entered, guessers: guesses.Guessers
) -> Mapping[str, Any] | Fault | None:
    """Marks the code as used and pays it. Returns the Fault of `_refusal`: so the count of a wrong code commits."""
    tenant_id, player_id = tenant_of(request), entered.player_id
    redemption_id = ids.make("redemption")
    await guesses.begin(connection, request, guessers)
    if not entered.newcomer:
        await lock_player(connection, tenant_id, player_id)
    about = (tenant_id, request.campaign_id, entered.code_hash, redemption_id)
    row = await connection.fetchrow(SQL["take_code"], *about)
    if row is None:
        return await _refusal(connection, request, entered, guessers)
    if entered.newcomer:
        await connection.execute(_MEET, tenant_id, player_id)
    paid = Payment(redemption_id, row["pack_id"], request.campaign_id, player_id, code_hash=entered.code_hash)
    return await pay(connection, tenant_id, paid, row, entered.keyed_request)


async def lock_player(connection: asyncpg.Connection, tenant_id: str, player_id: str) -> None:
    """Creates the player if necessary, and locks a guest against merging. Raises Merged."""
    await connection.execute(_MEET, tenant_id, player_id)
    owner_id = await merging.lock_owner(connection, tenant_id, player_id)
    if owner_id != player_id:
        raise Merged(owner_id)


class Payment(NamedTuple):
    """What a payment is for: a code, or a receipt."""

    redemption_id: str
    pack_id: str
    campaign_id: str
    player_id: str
    code_hash: bytes | None = None
    receipt_id: str | None = None


async def pay(
    connection: asyncpg.Connection, tenant_id: str, paid: Payment, gives: Any, keyed_request: KeyedRequest
) -> Mapping[str, Any]:
    """Credits what the pack gives, with one entry, and records the redemption. Returns its row, without the key."""
    entry_id = ids.make("entry")
    if gives["turns"]:
        turns = (paid.campaign_id, gives["turns"], entry_id, paid.redemption_id, "code")
        entry = await connection.fetchrow(_GRANT_TURNS, tenant_id, paid.player_id, *turns)
    else:
        credit = (gives["scope_key"], gives["currency"], gives["amount"], entry_id, "code", paid.redemption_id, "")
        try:
            entry = await connection.fetchrow(_MOVE, tenant_id, paid.player_id, *credit)
        except asyncpg.NumericValueOutOfRangeError:
            message = f"the balance would exceed {BALANCE_MAX}"
            raise Fault(Status.FAILED_PRECONDITION, "BALANCE_FULL", message) from None
    assert entry is not None, "a credit always moves a balance"
    gave = {name: gives[name] for name in ("turns", "currency", "scope_key", "amount")}
    row = await connection.fetchrow(
        SQL["record"],
        tenant_id,
        *paid[:4],
        paid.code_hash,
        paid.receipt_id,
        *gave.values(),
        entry["balance_after"],
        keyed_request.key,
        keyed_request.request_hash,
    )
    assert row is not None, "INSERT returns its row"
    return {**paid._asdict(), **gave, **row}


def announce(engine: Engine, tenant_id: str, merchant_id: str, made: Mapping[str, Any]) -> None:
    """Publishes the redemption's event."""
    event = event_of(
        redeemed(made),
        occurred_at=made["redeemed_at"],
        tenant_id=tenant_id,
        merchant_id=merchant_id,
        campaign_id=made["campaign_id"],
    )
    engine.publisher.events([event])


def redeemed(row: Mapping[str, Any]) -> CodeRedeemed:
    """The data of the event of a redemption, from its row."""
    own = ("redemption_id", "pack_id", "player_id", "turns", "currency", "scope_key", "amount")
    return CodeRedeemed(
        **{name: row[name] for name in own}, receipt_id=row["receipt_id"] or "", balance=row["balance_after"]
    )


def check_open(row: Any, status: str, now: float) -> None:
    """FAILED_PRECONDITION CAMPAIGN_CLOSED unless the campaign of the row runs."""
    facts = {}
    if status == "ended" or 0 < row["end_date"] <= now:
        why, facts = "has ended", {"closed_at": row["end_date"]}
    elif status != "active":
        why = "is not active"
    elif now < row["start_date"]:
        why, facts = "has not begun", {"opens_at": row["start_date"]}
    else:
        return
    raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", f"the campaign {why}", **facts)


def check_entry(row: Any) -> None:
    """FAILED_PRECONDITION ENTRY_REQUIRED or PERMISSION_DENIED NOT_ELIGIBLE, unless the player's entry admits a play."""
    terms = EntryTerms.of(row["entry_needs"], row["entry_countries"])
    if terms is not None and (fault := terms.refusal(row["entry_given"])) is not None:
        raise fault


async def _refusal(
    connection: asyncpg.Connection, request: m.RedeemCodeRequest, entered: _Entered, guessers: guesses.Guessers
) -> Fault | None:
    """Why the code cannot be used. Counts it as wrong, unless the player itself has used it. None: a concurrent request
    with the same key used it, so this one gets its reply.

    A used code counts only for the player who enters it: many players behind one address may race for one code.
    """
    about = (tenant_of(request), request.campaign_id, entered.code_hash, entered.player_id, entered.keyed_request.key)
    row = await connection.fetchrow(SQL["code"], *about)
    if row is not None and row["own_key"]:
        return None
    if row is None or not row["own"]:
        used = row is not None and row["used"] and bool(request.player_id)
        await guesses.count_wrong(connection, request, guessers[:1] if used else guessers)
    if row is not None and row["used"]:
        return Fault(Status.ALREADY_EXISTS, "CODE_USED", "the code has been used", field="code", own=row["own"])
    if row is not None and row["ended"] and row["status"] == "active":
        return Fault(Status.FAILED_PRECONDITION, "CODE_ENDED", "the code is no longer valid", field="code")
    return Fault(Status.NOT_FOUND, "UNKNOWN_CODE", "there is no such code in this campaign", field="code")


def answer_of(row: Mapping[str, Any]) -> m.RedemptionReply:
    return m.RedemptionReply(
        redemption_id=row["redemption_id"],
        campaign_id=row["campaign_id"],
        granted=m.CodeGrant(turns=row["turns"], tickets=row["amount"]),
        gave=gift(row),
        balance=row["balance_after"],
    )
