"""Prizes: what can be won, how much of it there is, and how it is delivered.

`stock.total` 0 is unlimited; a points prize takes no stock whatever it says, and its value is the
whole number of points that one unit credits. `fulfillment.config.secret` is write-only: it is stored
sealed, reads back as `secret_set: true`, stays when an update leaves it out, and goes when it is ""; an update
that names another receiver must give it anew.
Lists leave archived prizes out unless asked for them by status.
"""

from __future__ import annotations

import math
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import records as campaigns
from runtime.operations.checks import TYPE_LENGTH_MAX, Checks, given, search_pattern, set_fields
from runtime.operations.games import records as games
from runtime.outgoing.channels import CHANNELS, moved_secrets
from runtime.outgoing.vault import SECRET_FIELDS, noted_config, prize_context, shown_config, vault_of
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("prizes")

SETTABLE: Final = frozenset(
    {"name", "type", "value", "campaign_id", "stock", "constraints", "fulfillment", "expires_after_days", "status"}
)
POINTS: Final = "points"
VALUE_MAX: Final = 1e12
COUNT_MAX: Final = 2**31 - 1
EXPIRES_AFTER_DAYS_MAX: Final = 36_500


async def create_prize(engine: Engine, request: m.CreatePrizeRequest) -> m.PrizeReply:
    """A new prize. Without a channel it is `none`, without a redemption mode `on_win`."""
    tenant_id = tenant_of(request)
    prize = m.Prize(status=m.PrizeStatus.ACTIVE)
    set_fields(prize, given(request.prize, "prize"), (), SETTABLE - {"status"})
    _fill_defaults(prize)
    checks = _checked(prize)
    prize_id = ids.make("prize")

    async def work(connection: asyncpg.Connection) -> m.Prize:
        await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
        checks.raise_found()
        config = _stored_config(engine, tenant_id, prize_id, prize, {})
        total = prize.stock.total if prize.stock else 0
        await connection.execute(_SQL["insert"], tenant_id, prize_id, *_columns(prize, config), total)
        made = await _load(connection, tenant_id, prize_id)
        await audit.record(connection, tenant_id, "prize.create", prize_id, after=_shown(made))
        return from_row(made)

    return m.PrizeReply(prize=await catalog.change(engine, tenant_id, work))


async def get_prize(engine: Engine, request: m.GetPrizeRequest) -> m.PrizeReply:
    """One prize, archived or not. NOT_FOUND UNKNOWN_PRIZE."""
    return m.PrizeReply(prize=from_row(await reading.one(engine, _SQL["get"], request, "prize")))


async def list_prizes(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizesReply:
    """The tenant's prizes, newest first."""
    rows, pagination = await reading.page(engine, _SQL["list"], request, *_filters(request))
    return m.ListPrizesReply(items=[from_row(row) for row in rows], pagination=pagination)


async def list_prize_summary(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizeSummaryReply:
    """Stock, and how many units were claimed and delivered, of each prize; revoked rewards count in neither."""
    rows, pagination = await reading.page(engine, _SQL["summary"], request, *_filters(request), key="prize_id")
    return m.ListPrizeSummaryReply(items=[m.PrizeSummary(**row) for row in rows], pagination=pagination)


async def update_prize(engine: Engine, request: m.UpdatePrizeRequest) -> m.PrizeReply:
    """Sets the fields that are given.

    FAILED_PRECONDITION: STOCK_BELOW_AWARDED (`awarded`), or IN_USE where it archives what is named.
    """
    tenant_id = tenant_of(request)
    update = given(request.prize, "prize")

    async def work(connection: asyncpg.Connection) -> m.Prize:
        before = await reading.to_write(connection, _SQL["get"], request, "prize", request.id)
        prize = from_row(before)
        named = set_fields(prize, update, request.update_mask, SETTABLE)
        _fill_defaults(prize)
        checks = _checked(prize)
        if config := (prize.fulfillment.config if prize.fulfillment else None):
            moved = moved_secrets(before["channel_config"], config)
            checks.problems((f"fulfillment.config.{name}", wrong) for name, wrong in moved)
        if prize.campaign_id != before["campaign_id"]:
            await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
        checks.raise_found()
        if prize.status is m.PrizeStatus.ARCHIVED and before["status"] != "archived":
            await _refuse_in_use(connection, tenant_id, request.id)
        stored = _stored_config(engine, tenant_id, request.id, prize, before["channel_config"])
        await connection.execute(_SQL["update"], tenant_id, request.id, *_columns(prize, stored))
        if "stock" in named:
            await _set_total_stock(connection, tenant_id, request.id, prize.stock.total if prize.stock else 0)
        after = await _load(connection, tenant_id, request.id)
        await audit.record(
            connection, tenant_id, "prize.update", request.id, before=_shown(before), after=_shown(after)
        )
        return from_row(after)

    return m.PrizeReply(prize=await catalog.change(engine, tenant_id, work))


async def delete_prize(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes a prize that was never used, archives one that has history.

    FAILED_PRECONDITION IN_USE while an active game, one of its rungs, or an active board names it.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        before = await reading.to_write(connection, _SQL["get"], request, "prize", request.id)
        await _refuse_in_use(connection, tenant_id, request.id)
        archived = bool(await connection.fetchval(_SQL["has_history"], tenant_id, request.id))
        await connection.execute(_SQL["archive" if archived else "remove"], tenant_id, request.id)
        after = _shown(before) | {"status": "archived"} if archived else None
        await audit.record(connection, tenant_id, "prize.delete", request.id, before=_shown(before), after=after)
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change(engine, tenant_id, work))


def from_row(row: Any) -> m.Prize:
    """The message of a row of `get` and its kin, without secrets."""
    return m.Prize(
        id=row["id"],
        name=row["name"],
        type=row["type"],
        value=row["value"],
        campaign_id=row["campaign_id"],
        stock=m.Stock(total=row["total"], remaining=row["remaining"], awarded=row["awarded"]),
        constraints=m.PrizeConstraints(max_per_user=row["max_per_user"], max_per_day=row["max_per_day"]),
        fulfillment=m.PrizeFulfillment(
            redemption_mode=enum(m.RedemptionMode, row["redemption_mode"]),
            channel=row["channel"],
            config=shown_config(row["channel_config"]),
        ),
        expires_after_days=row["expires_after_days"],
        status=enum(m.PrizeStatus, row["status"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _filters(request: m.ListPrizesRequest) -> tuple[str, ...]:
    stored = (token(request.status), request.campaign_id, request.type)
    return (tenant_of(request), *stored, search_pattern(request.q), merchant_of(request))


async def _load(connection: asyncpg.Connection, tenant_id: str, prize_id: str) -> asyncpg.Record:
    row = await connection.fetchrow(_SQL["get"], tenant_id, prize_id, "", False)
    assert row is not None, "the prize was written by this transaction"
    return row


def _fill_defaults(prize: m.Prize) -> None:
    """What a given object leaves out has its default: an object replaces the one before as a whole."""
    fulfillment = prize.fulfillment if prize.fulfillment is not None else m.PrizeFulfillment()
    prize.fulfillment = fulfillment
    fulfillment.channel = fulfillment.channel or "none"
    fulfillment.redemption_mode = fulfillment.redemption_mode or m.RedemptionMode.ON_WIN


def problems(prize: m.Prize) -> list[tuple[str, str]]:
    """(field, what is wrong) of a prize in itself, its defaults filled in. For tools that check before they ask."""
    _fill_defaults(prize)
    return _checked(prize).found


def _checked(prize: m.Prize) -> Checks:
    checks = Checks()
    checks.required("name", prize.name)
    _check_value(checks, prize)
    if prize.stock is not None:
        checks.between("stock.total", prize.stock.total, 0, COUNT_MAX)
    if prize.constraints is not None:
        checks.between("constraints.max_per_user", prize.constraints.max_per_user, 0, COUNT_MAX)
        checks.between("constraints.max_per_day", prize.constraints.max_per_day, 0, COUNT_MAX)
    checks.between("expires_after_days", prize.expires_after_days, 0, EXPIRES_AFTER_DAYS_MAX)
    _check_fulfillment(checks, prize.fulfillment or m.PrizeFulfillment())
    return checks


def _check_value(checks: Checks, prize: m.Prize) -> None:
    if not math.isfinite(prize.value) or not 0 <= prize.value <= VALUE_MAX:
        checks.problem("value", f"must be from 0 to {VALUE_MAX:.0f}")
    elif prize.type == POINTS and (prize.value < 1 or not prize.value.is_integer()):
        checks.problem("value", "must be a whole number of points, at least 1")


def _check_fulfillment(checks: Checks, fulfillment: m.PrizeFulfillment) -> None:
    channel = CHANNELS.get(fulfillment.channel)
    if channel is None:
        shown = repr(fulfillment.channel[:TYPE_LENGTH_MAX])
        checks.problem("fulfillment.channel", f"unknown channel {shown}; registered: {', '.join(CHANNELS.names())}")
        return
    config = {name: value for name, value in (fulfillment.config or {}).items() if name != "secret_set"}
    checks.small_object("fulfillment.config", config)
    for path, description in channel.config_problems(config):
        checks.problem(f"fulfillment.config.{path}", description)


def _stored_config(
    engine: Engine, tenant_id: str, prize_id: str, prize: m.Prize, before: dict[str, Any]
) -> dict[str, Any]:
    """The config to store: given secrets sealed, those left out kept from `before` where the config has receivers."""
    given_config = (prize.fulfillment.config if prize.fulfillment else None) or {}
    config = {name: value for name, value in given_config.items() if name not in (*SECRET_FIELDS, "secret_set")}
    for name in SECRET_FIELDS:
        secret = given_config.get(name, before.get(name) if config else None)
        if not secret:
            continue
        if name in given_config:
            secret = vault_of(engine.keyring.code).seal_secret(secret, prize_context(tenant_id, prize_id))
        config[name] = secret
    return config


def _columns(prize: m.Prize, config: dict[str, Any]) -> tuple[Any, ...]:
    """$3.. of `insert` and `update`."""
    constraints = prize.constraints if prize.constraints is not None else m.PrizeConstraints()
    fulfillment = prize.fulfillment if prize.fulfillment is not None else m.PrizeFulfillment()
    return (
        prize.name,
        prize.type,
        prize.value,
        prize.campaign_id,
        constraints.max_per_user,
        constraints.max_per_day,
        token(fulfillment.redemption_mode),
        fulfillment.channel,
        config,
        prize.expires_after_days,
        token(prize.status),
    )


async def _set_total_stock(connection: asyncpg.Connection, tenant_id: str, prize_id: str, total: int) -> None:
    if await connection.fetchval(_SQL["set_total_stock"], tenant_id, prize_id, total) is None:
        awarded = await connection.fetchval(_SQL["awarded"], tenant_id, prize_id)
        raise Fault(
            Status.FAILED_PRECONDITION,
            "STOCK_BELOW_AWARDED",
            f"{awarded} are awarded already; the total cannot be {total}",
            awarded=awarded,
        )


async def _refuse_in_use(connection: asyncpg.Connection, tenant_id: str, prize_id: str) -> None:
    used_by = []
    for row in await connection.fetch(_SQL["games_that_may_name"], tenant_id, prize_id):
        used_by += games.users_of_prize(row["game_id"], row["definition"], prize_id)
    for row in await connection.fetch(_SQL["boards_that_name"], tenant_id, prize_id):
        used_by.append({"type": "leaderboard", "id": row["board_id"]})
    if used_by:
        raise catalog.in_use("prize", prize_id, used_by)


def _shown(row: Any) -> dict[str, Any]:
    """The row as the audit log keeps it."""
    return {**row, "channel_config": noted_config(row["channel_config"])}
