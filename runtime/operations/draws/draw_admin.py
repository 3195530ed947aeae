"""Draw management, for staff, and the public view of a draw."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors import rewards
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown, violations
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.campaigns.archives import refuse_archived
from runtime.operations.checks import Checks, provided, refuse_read_only, search_pattern, set_fields
from runtime.operations.draws import randomness
from runtime.rules.raffle.selection import RANKS_MAX
from runtime.stores.database import Database
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("draws")
_GET_BOARD: Final = sql.load("leaderboards")["get"]
_REWARDS: Final = sql.load("rewards")["list"]
_GET_CAMPAIGN: Final = sql.load("campaigns")["get"]

SETTABLE: Final = frozenset({"name", "tickets", "prizes", "alternates", "closes_at", "randomness"})

WINNERS_SHOWN: Final = 100
"""Winners in the reply of a draw; ListWinners returns all, page by page."""


async def create_draw(engine: Engine, request: m.CreateDrawRequest) -> m.DrawReply:
    """Creates an open draw. For kind INTERNAL its seed is committed to now: `randomness.commitment`."""

    async def work(connection: asyncpg.Connection) -> m.DrawReply:
        return m.DrawReply(draw=await make(engine, connection, request))

    return await catalog.create_dependent(engine, request, m.DrawReply, work)


async def make(engine: Engine, connection: asyncpg.Connection, request: m.CreateDrawRequest) -> m.Draw:
    """Creates the draw. The caller has locked the tenant's catalogue."""
    tenant_id, draw = tenant_of(request), provided(request.draw, "draw")
    refuse_read_only(draw, m.Draw(status=m.DrawStatus.OPEN))
    if draw.status not in (m.DrawStatus.UNSPECIFIED, m.DrawStatus.OPEN):
        raise invalid("status", "a new draw is open")
    await _check(engine, connection, request, draw)
    await _check_stock(connection, tenant_id, draw)
    draw_id = ids.make("draw")
    kind = randomness.stored(engine, tenant_id, draw_id, draw.randomness)
    columns = (draw.campaign_id, *_terms(draw), kind, randomness.new_salt(), merchant_of(request))
    if await connection.fetchval(_SQL["insert"], tenant_id, draw_id, *columns) is None:
        raise await campaigns.write_refusal(connection, request, draw.campaign_id)
    row = await reading_row(connection, tenant_id, draw_id)
    await audit.record(connection, tenant_id, "draw.create", draw_id, after=_audited(row))
    return (await _named(connection, tenant_id, [from_row(row)]))[0]


async def get_draw(engine: Engine, request: m.GetDrawRequest) -> m.DrawReply:
    """A draw with its first winners, and the part of the player who asks: tickets, rank and reward.

    Players see winners by their pseudonyms, and no draw of a draft campaign.
    """
    tenant_id = tenant_of(request)
    if request.for_players and await engine.database.fetchrow(_SQL["on_show"], tenant_id, request.id) is None:
        raise unknown("draw", request.id)
    reply = await shown(engine, request)
    if request.for_players:
        reply.winners = [_public(one) for one in reply.winners]
    if request.player_id:
        about = (tenant_id, request.id, player_id_of(request))
        statement = "open_share" if reply.draw and reply.draw.status is m.DrawStatus.OPEN else "share"
        share = await engine.database.fetchrow(_SQL[statement], *about)
        if share is not None:
            reply.me = m.DrawShare(**share)
            if reply.me.reward_id:
                only = (request.player_id, "", "", "", "", reply.me.reward_id, None, 1)
                row = await engine.database.fetchrow(_REWARDS, tenant_id, *only)
                reply.me.reward = None if row is None else rewards.message(row)
    return reply


async def shown(engine: Engine, request: reading.IdRequest) -> m.DrawReply:
    """The draw with its first winners."""
    row = await reading.one(engine, _SQL["get"], request, "draw")
    about = (tenant_of(request), request.id, merchant_of(request))
    winners = await engine.database.fetch(_SQL["winners"], *about, None, WINNERS_SHOWN)
    draws = await _named(engine.database, tenant_of(request), [from_row(row)])
    return m.DrawReply(draw=draws[0], winners=[m.DrawWinner(**one) for one in winners])


_PUBLIC_REASONS: Final = frozenset({"", "DRAWN", "PENDING", "ALTERNATE", "REPLACED"})


def _public(winner: m.DrawWinner) -> m.DrawWinner:
    """A winner as players see it: by the pseudonym, without the reason why there is no prize."""
    reason = winner.reason if winner.reason in _PUBLIC_REASONS else "NOT_AWARDED"
    return replace(winner, player_id="", display_name="", reward_id="", reason=reason)


async def public_draws(engine: Engine, tenant_id: str, campaign_id: str, most: int) -> list[m.Draw]:
    """The campaign's draws, newest first, with those that were cancelled after their close."""
    rows = await engine.database.fetch(_SQL["of_campaign"], tenant_id, campaign_id, most)
    return await _named(engine.database, tenant_id, [from_row(row) for row in rows])


async def _named(database: Database | asyncpg.Connection, tenant_id: str, draws: list[m.Draw]) -> list[m.Draw]:
    """The draws, with the names of their prizes."""
    prizes = [prize for draw in draws for prize in draw.prizes]
    if prizes:
        rows = await database.fetch(_SQL["prize_names"], tenant_id, [prize.prize_id for prize in prizes])
        names = {row["prize_id"]: row["name"] for row in rows}
        for prize in prizes:
            prize.name = names.get(prize.prize_id, "")
    return draws


async def list_draws(engine: Engine, request: m.ListDrawsRequest) -> m.ListDrawsReply:
    """The tenant's draws, newest first."""
    narrowed = (request.campaign_id, token(request.status), search_pattern(request.q))
    rows, pagination = await reading.page(
        engine, _SQL["list"], request, tenant_of(request), *narrowed, merchant_of(request)
    )
    draws = await _named(engine.database, tenant_of(request), [from_row(row) for row in rows])
    return m.ListDrawsReply(items=draws, pagination=pagination)


async def list_winners(engine: Engine, request: m.ListWinnersRequest) -> m.ListWinnersReply:
    """The drawn ranks of a draw, with the players. A merchant's staff sees no names in draws of the tenant itself."""
    await reading.one(engine, _SQL["get"], request, "draw")
    about = (tenant_of(request), request.id, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["winners"], request, *about, key="rank")
    return m.ListWinnersReply(items=[m.DrawWinner(**row) for row in rows], pagination=pagination)


async def update_draw(engine: Engine, request: m.UpdateDrawRequest) -> m.DrawReply:
    """Sets terms of an open draw; or cancels one that is not confirmed, by `status`.

    FAILED_PRECONDITION ILLEGAL_TRANSITION once the tickets are frozen.
    """

    async def work(connection: asyncpg.Connection) -> None:
        await alter(engine, connection, request)

    await catalog.change_dependent(engine, tenant_of(request), work)
    return await shown(engine, request)


async def alter(engine: Engine, connection: asyncpg.Connection, request: m.UpdateDrawRequest) -> None:
    """Changes the draw. The caller has locked the tenant's catalogue."""
    tenant_id, update = tenant_of(request), provided(request.draw, "draw")
    row = await lock(connection, request)
    draw, before = from_row(row), from_row(row)
    if update.status not in (m.DrawStatus.UNSPECIFIED, draw.status):
        if update.status is not m.DrawStatus.CANCELLED:
            raise invalid("status", "can only be set to DRAW_STATUS_CANCELLED; use close, draw and confirm")
        await _cancel(connection, tenant_id, request.id, row)
        return
    if update.campaign_id not in ("", draw.campaign_id):
        raise invalid("campaign_id", "cannot change")
    names = set_fields(draw, replace(update, status=draw.status), request.update_mask, SETTABLE)
    if not names or draw == before:
        return
    if found := problems(draw, 0):
        raise violations(found)
    if row["status"] != "open":
        raise illegal(request.id, row["status"], "its tickets are frozen")
    await _check(engine, connection, request, draw, before)
    if _prizes(draw) != row["prizes"]:
        await _check_stock(connection, tenant_id, draw)
    # Unchanged terms keep their seed: a rotated key would give another, and its commitment is published.
    kind = randomness.stored(engine, tenant_id, request.id, draw.randomness)
    if all(kind[name] == row["randomness"][name] for name in ("kind", "source", "at")):
        kind = row["randomness"]
    await connection.fetchval(_SQL["update"], tenant_id, request.id, *_terms(draw), kind)
    after = _audited(await reading_row(connection, tenant_id, request.id))
    await audit.record(connection, tenant_id, "draw.update", request.id, before=_audited(row), after=after)


async def delete_draw(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes a draw whose tickets were never frozen. FAILED_PRECONDITION ILLEGAL_TRANSITION for any other."""

    async def work(connection: asyncpg.Connection) -> None:
        row = await lock(connection, request)
        if await connection.fetchval(_SQL["remove"], tenant_of(request), request.id) is None:
            raise illegal(request.id, row["status"], "its tickets are published; cancel it instead")
        await audit.record(connection, tenant_of(request), "draw.delete", request.id, before=_audited(row))

    await catalog.change_dependent(engine, tenant_of(request), work)
    return m.DeleteReply(id=request.id)


async def _cancel(connection: asyncpg.Connection, tenant_id: str, draw_id: str, row: asyncpg.Record) -> None:
    if await connection.fetchval(_SQL["cancel"], tenant_id, draw_id) is None:
        raise illegal(draw_id, row["status"], "only a draw that is not confirmed can be cancelled")
    before, after = {"status": row["status"]}, {"status": "cancelled"}
    await audit.record(connection, tenant_id, "draw.cancel", draw_id, before=before, after=after)


async def lock(connection: asyncpg.Connection, request: reading.IdRequest) -> asyncpg.Record:
    """The draw that the request changes, with a row lock. NOT_FOUND; PERMISSION_DENIED FORBIDDEN."""
    return await reading.for_update(connection, _SQL["lock"], request, "draw", request.id)


async def reading_row(connection: asyncpg.Connection, tenant_id: str, draw_id: str) -> asyncpg.Record:
    """The draw's row, as this transaction sees it."""
    row = await connection.fetchrow(_SQL["get"], tenant_id, draw_id, "", False)
    assert row is not None, "the caller has locked or inserted it"
    return row


def illegal(draw_id: str, status: str, why: str) -> Fault:
    """FAILED_PRECONDITION ILLEGAL_TRANSITION."""
    return Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"draw {draw_id} is {status}: {why}")


# -- checks ----------------------------------------------------------------------------------


async def _check(
    engine: Engine, connection: asyncpg.Connection, request: Scoped, draw: m.Draw, before: m.Draw | None = None
) -> None:
    """Checks the terms, and that the caller may use each prize and the leaderboard. before: the draw until now.

    CAMPAIGN_ARCHIVED: the plays that determine the leaderboard's scores were deleted.
    """
    if found := problems(draw, engine.clock.now(), before):
        raise violations(found)
    checks, tickets = Checks(), provided(draw.tickets, "tickets")
    unusable = await catalog.unusable_prizes(connection, request, (prize.prize_id for prize in draw.prizes))
    for i, prize in enumerate(draw.prizes):
        if why := unusable.get(prize.prize_id):
            checks.problem(f"prizes[{i}].prize_id", why)
    campaign = await connection.fetchrow(_GET_CAMPAIGN, tenant_of(request), draw.campaign_id, "", False)
    owner = campaign["merchant_id"] if campaign is not None else ""
    wallets = {"", draw.campaign_id, owner, "" if merchant_of(request) else tenant_of(request)}
    if tickets.scope_key not in wallets:
        checks.problem("tickets.scope_key", "must be the id of the campaign, of its merchant or of the tenant")
    about = (tenant_of(request), tickets.ranking, merchant_of(request), False)
    board = await connection.fetchrow(_GET_BOARD, *about) if tickets.ranking else None
    if tickets.ranking and board is None:
        checks.problem("tickets.ranking", f"there is no leaderboard {tickets.ranking!r}")
    if board is not None and board["status"] == "archived":
        checks.problem("tickets.ranking", f"leaderboard {tickets.ranking} is archived; name another")
    checks.raise_found()
    if board is not None:
        await refuse_archived(connection, tenant_of(request), board["campaign_id"])


async def _check_stock(connection: asyncpg.Connection, tenant_id: str, draw: m.Draw) -> None:
    """INVALID_ARGUMENT if the draw has more winners of a prize than units are left now."""
    checks, winners = Checks(), Counter[str]()
    rows = await connection.fetch(_SQL["stock_left"], tenant_id, [prize.prize_id for prize in draw.prizes])
    left = {row["prize_id"]: row["remaining"] for row in rows}
    for i, prize in enumerate(draw.prizes):
        winners[prize.prize_id] += prize.count
        if winners[prize.prize_id] > left.get(prize.prize_id, sys.maxsize):
            checks.problem(f"prizes[{i}].count", f"only {left[prize.prize_id]} units are left; raise the prize's stock")
    checks.raise_found()


def problems(draw: m.Draw, now: float, before: m.Draw | None = None) -> list[tuple[str, str]]:
    """(field, description) of each problem of a draw's terms. References are not checked.

    now: 0 for any time. before: the draw until now; an unchanged closes_at may have passed.
    """
    checks, tickets = Checks(), draw.tickets or m.DrawTickets()
    checks.required("campaign_id", draw.campaign_id)
    checks.required("name", draw.name)
    if [bool(tickets.currency), bool(tickets.ranking), tickets.entries, tickets.imported].count(True) != 1:
        checks.problem("tickets", "must have one of currency, ranking, entries and imported")
    if tickets.scope_key and not tickets.currency:
        checks.problem("tickets.scope_key", "is only for currency")
    if not draw.prizes:
        checks.problem("prizes", "is required")
    for i, prize in enumerate(draw.prizes):
        if prize.count < 1:
            checks.problem(f"prizes[{i}].count", "must be at least 1")
    if draw.alternates < 0:
        checks.problem("alternates", "must be at least 0")
    ranks = sum(prize.count for prize in draw.prizes) + draw.alternates
    if ranks > RANKS_MAX:
        checks.problem("prizes", f"with the alternates, must be at most {RANKS_MAX} ranks")
    if 0 < draw.closes_at <= now and (before is None or draw.closes_at != before.closes_at):
        checks.problem("closes_at", "must be in the future, or 0: staff close the draw")
    checks.times(0, draw.closes_at)
    checks.found = [("closes_at" if field == "end_date" else field, text) for field, text in checks.found]
    checks.problems(randomness.problems(draw.randomness or m.DrawRandomness(), draw.closes_at, now))
    return checks.found


# -- messages --------------------------------------------------------------------------------


def _terms(draw: m.Draw) -> tuple[Any, ...]:
    """name, tickets, prizes, alternates and closes_at, as stored."""
    tickets = provided(draw.tickets, "tickets")
    scope_key = tickets.scope_key or (draw.campaign_id if tickets.currency else "")
    return (
        draw.name,
        {
            "currency": tickets.currency,
            "scope_key": scope_key,
            "ranking": tickets.ranking,
            "entries": tickets.entries,
            "imported": tickets.imported,
        },
        _prizes(draw),
        draw.alternates,
        draw.closes_at,
    )


def _prizes(draw: m.Draw) -> list[dict[str, Any]]:
    return [{"prize_id": prize.prize_id, "count": prize.count} for prize in draw.prizes]


def from_row(row: asyncpg.Record) -> m.Draw:
    fields = {name: value for name, value in row.items() if name != "result"}
    return m.Draw(
        **{
            **fields,
            "status": enum(m.DrawStatus, row["status"]),
            "tickets": m.DrawTickets(**row["tickets"]),
            "prizes": [m.DrawPrize(**prize) for prize in row["prizes"]],
            "randomness": randomness.message(row["randomness"]),
        }
    )


def _audited(row: asyncpg.Record) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "result"}
