"""Prizes: what can be won, how much of it there is, and how it is delivered.

`stock.total` 0 is unlimited; a points prize takes no stock whatever it says, and its value is the
whole number of points that one unit credits. A turns prize gives as many turns of the campaign that it is won in
as its value says, and is delivered by its win. `fulfillment.config.secret` is write-only: it is stored
sealed, reads back as `secret_set: true`, stays when an update leaves it out, and goes when it is ""; an update
that names another receiver must give it anew. A webhook or workflow that has none and is given none gets one,
which that answer alone shows, as `secret_once`.
Lists leave archived prizes out unless asked for them by status.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors import answers
from runtime.actors.engine import Engine
from runtime.actors.game.state import POINTS, TURNS
from runtime.errors import invalid
from runtime.operations import audit, catalog, reading
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import Held, id_of_new, is_approved, may_wait, pinned_id, settle
from runtime.operations.budget_alerts import usage
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import TYPE_LENGTH_MAX, Checks, given, search_pattern, set_fields
from runtime.operations.currencies import CURRENCIES
from runtime.operations.games import game_admin as games
from runtime.operations.prizes import claim_fields
from runtime.operations.prizes.stock import COUNT_MAX, set_stock
from runtime.outgoing.channels import CHANNELS, as_given, moved_secrets, to_check, with_kept, with_secret
from runtime.outgoing.vault import MASKED, SECRET_FIELDS, prize_context, shown_config, vault_of
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("prizes")

SETTABLE: Final = frozenset(
    {"name", "type", "value", "campaign_id", "stock", "constraints", "fulfillment", "expires_after_days", "status"}
    | {"description", "image_url", "terms", "currency", "low_stock_at", "claim_fields"}
)
TURNS_MAX: Final = 1000
"""Of one unit."""
VALUE_MAX: Final = 1e12
EXPIRES_AFTER_DAYS_MAX: Final = 36_500
_IMAGE: Final = re.compile(r"https://[A-Za-z0-9_.\-]+(:[0-9]{1,5})?([/?#][^\s\"'<>\\^`{|}]*)?")
"""As of a game's ui (runtime/rules/ui/schema.json)."""


@may_wait
async def create_prize(engine: Engine, request: m.CreatePrizeRequest) -> m.PrizeReply:
    """A new prize. Without a channel it is `none`, without a redemption mode `on_win`.

    One of more points than DUAL_ADJUSTMENT_ABOVE waits for a second person: 202 APPROVAL_NEEDED.
    """

    async def work(connection: asyncpg.Connection) -> m.PrizeReply:
        return m.PrizeReply(prize=await make(engine, connection, request))

    return await catalog.create(engine, request, m.PrizeReply, work)


async def make(
    engine: Engine, connection: asyncpg.Connection, request: m.CreatePrizeRequest, *, told: bool = True
) -> m.Prize:
    """`create_prize` within a change of the catalogue. Raises Held.

    told: whether somebody is answered what is returned: else no secret is made, for nobody would know it.
    """
    tenant_id, wanted = tenant_of(request), _as_given(request.prize)
    prize = m.Prize(id=pinned_id(wanted.id), status=m.PrizeStatus.ACTIVE)
    set_fields(prize, wanted, (), SETTABLE - {"status"})
    _fill_defaults(prize)
    checks = _checked(prize)
    prize_id = id_of_new("prize", wanted.id)
    await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
    checks.raise_found()
    given_config, once = _signed(prize, _config(prize), {}) if told else (_config(prize), {})
    config = _stored_config(engine, tenant_id, prize_id, given_config, {})
    total = prize.stock.total if prize.stock else 0
    await connection.execute(_SQL["insert"], tenant_id, prize_id, *_columns(prize, config), total)
    made = await _load(connection, tenant_id, prize_id)
    await audit.record(connection, tenant_id, "prize.create", prize_id, after=_shown(made))
    pinned = m.CreatePrizeRequest.parse(bytes(request))
    assert pinned.prize is not None
    pinned.prize.id = prize_id
    await settle(connection, policy.points(engine.settings, None, made), lambda: _held(None, made, pinned))
    return await _marked(connection, tenant_id, made, once)


async def get_prize(engine: Engine, request: m.GetPrizeRequest) -> m.PrizeReply:
    """One prize, archived or not. NOT_FOUND UNKNOWN_PRIZE."""
    row = await reading.one(engine, _SQL["get"], request, "prize")
    return m.PrizeReply(prize=(await _to_read(engine, request, [row]))[0])


async def list_prizes(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizesReply:
    """The tenant's prizes, newest first."""
    rows, pagination = await reading.page(engine, _SQL["list"], request, *_filters(request))
    return m.ListPrizesReply(items=await _to_read(engine, request, rows), pagination=pagination)


async def _to_read(engine: Engine, request: Scoped, rows: list[asyncpg.Record]) -> list[m.Prize]:
    prizes = [from_row(row) for row in rows]
    await usage.fill_low(engine.database, tenant_of(request), prizes)
    return prizes


async def list_prize_summary(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizeSummaryReply:
    """Stock, and how many units were claimed and delivered, of each prize; revoked rewards count in neither."""
    rows, pagination = await reading.page(engine, _SQL["summary"], request, *_filters(request), key="prize_id")
    low = await usage.low_of(engine.database, tenant_of(request), [row["prize_id"] for row in rows])
    items = [
        m.PrizeSummary(**{**row, "status": enum(m.PrizeStatus, row["status"])}, low=row["prize_id"] in low)
        for row in rows
    ]
    return m.ListPrizeSummaryReply(items=items, pagination=pagination)


@may_wait
async def update_prize(engine: Engine, request: m.UpdatePrizeRequest) -> m.PrizeReply:
    """Sets the fields that are given.

    FAILED_PRECONDITION: STOCK_BELOW_AWARDED (`awarded`), or IN_USE where it archives what is named. More points than
    DUAL_ADJUSTMENT_ABOVE wait for a second person, also those that one play of a game that names it may then give, and
    so does, with DUAL_ODDS, what it is worth where it can be won: 202 APPROVAL_NEEDED.
    """

    async def work(connection: asyncpg.Connection) -> m.Prize:
        return await alter(engine, connection, request)

    return m.PrizeReply(prize=await catalog.change(engine, tenant_of(request), work))


async def alter(
    engine: Engine, connection: asyncpg.Connection, request: m.UpdatePrizeRequest, *, told: bool = True
) -> m.Prize:
    """`update_prize` within a change of the catalogue. Raises Held. told: as of `make`."""
    tenant_id = tenant_of(request)
    update = _as_given(request.prize)
    before = await reading.to_write(connection, _SQL["get"], request, "prize", request.id)
    prize = from_row(before)
    if update.low:
        await usage.fill_low(connection, tenant_id, [prize])
    named = set_fields(prize, update, request.update_mask, SETTABLE)
    _fill_defaults(prize)
    stored, given_config = before["channel_config"], _config(prize)
    assert prize.fulfillment is not None
    # Another object than the request's, which is kept as it came where it waits.
    prize.fulfillment = replace(prize.fulfillment, config=to_check(stored, given_config))
    checks = _checked(prize)
    if given_config:
        moved = moved_secrets(stored, given_config)
        checks.problems((f"fulfillment.config.{name}", wrong) for name, wrong in moved)
    if prize.campaign_id != before["campaign_id"]:
        await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
    checks.raise_found()
    if prize.status is m.PrizeStatus.ARCHIVED and before["status"] != "archived":
        await _refuse_in_use(connection, tenant_id, request.id)
    once: dict[str, str] = {}
    if told and "fulfillment" in named:
        given_config, once = _signed(prize, given_config, stored)
    config = _stored_config(engine, tenant_id, request.id, given_config, stored)
    await connection.execute(_SQL["update"], tenant_id, request.id, *_columns(prize, config))
    total = prize.stock.total if prize.stock else 0
    if "stock" in named and total != before["total"]:
        await set_stock(connection, tenant_id, request.id, total=total)
    after = await _load(connection, tenant_id, request.id)
    await audit.record(connection, tenant_id, "prize.update", request.id, before=_shown(before), after=_shown(after))
    games = await policy.games_of(connection, engine.settings, tenant_id, before, after)
    waits = await policy.prize(connection, engine.settings, tenant_id, before, after, games)
    await settle(connection, waits, lambda: _held(before, after, request, games))
    return await _marked(connection, tenant_id, after, once)


async def delete_prize(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes a prize that was never used, archives one that has history.

    FAILED_PRECONDITION IN_USE while an active game, one of its rungs, or an active board names it.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        before = await reading.to_write(connection, _SQL["get"], request, "prize", request.id)
        await _refuse_in_use(connection, tenant_id, request.id)
        await connection.execute(_SQL["hold"], tenant_id, request.id)
        archived = bool(await connection.fetchval(_SQL["has_history"], tenant_id, request.id))
        await connection.execute(_SQL["archive" if archived else "remove"], tenant_id, request.id)
        after = _shown(before) | {"status": "archived"} if archived else None
        await audit.record(connection, tenant_id, "prize.delete", request.id, before=_shown(before), after=after)
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change(engine, tenant_id, work))


def _config(prize: m.Prize) -> dict[str, Any]:
    return (prize.fulfillment.config if prize.fulfillment else None) or {}


def _as_given(prize: m.Prize | None) -> m.Prize:
    """The prize of a request, without what its config only says when it is read: none of it is kept while it waits."""
    found = given(prize, "prize")
    if found.fulfillment is not None and found.fulfillment.config:
        found.fulfillment.config = as_given(found.fulfillment.config)
    return found


def _held(
    before: Any, after: Any, asked: m.CreatePrizeRequest | m.UpdatePrizeRequest, games: Sequence[Any] = ()
) -> Held:
    """What waits. INVALID_ARGUMENT for a secret in it, or what a header carries: what waits is kept as it came.

    games: one play of which may give more than the limits. Who decides sees them, and it rests on how much that is.
    """
    config = _config(asked.prize) if asked.prize else {}
    headers = config.get("headers")
    carried = isinstance(headers, Mapping) and any(value != MASKED for value in headers.values())
    for name, there in (("secret", any(config.get(name) for name in SECRET_FIELDS)), ("headers", carried)):
        if there and not is_approved():
            why = "waits for nobody: give it by itself, when the rest is approved"
            raise invalid(f"fulfillment.config.{name}", why)
    shown = {} if before is None else _shown(before)
    # What players win meanwhile is no change of the prize.
    rests_on = {name: value for name, value in shown.items() if name not in ("remaining", "awarded")}
    if not games:
        return Held(after["id"], before=shown, after=_shown(after), pinned=asked, rests_on=rests_on)
    # A game's name is shown, and rests on nothing.
    most = {"games": {one["id"]: one["most"] for one in games}}
    told = _shown(after) | {"games": list(games)}
    return Held(after["id"], before=shown, after=told, pinned=asked, rests_on=rests_on | most)


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
        description=row["description"],
        image_url=row["image_url"],
        terms=row["terms"],
        currency=row["currency"],
        low_stock_at=row["low_stock_at"],
        claim_fields=answers.fields_shown(row["claim_fields"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


async def _marked(source: usage.Source, tenant_id: str, row: Any, once: Mapping[str, str]) -> m.Prize:
    """The message of a row, which says whether the prize runs low. once: what its config shows this once."""
    prize = from_row(row)
    if once and prize.fulfillment is not None:
        prize.fulfillment.config = {**(prize.fulfillment.config or {}), **once}
    await usage.fill_low(source, tenant_id, [prize])
    return prize


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
    claim_fields.fill_kinds(prize.claim_fields)


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
    checks.between("low_stock_at", prize.low_stock_at, 0, COUNT_MAX)
    checks.between("expires_after_days", prize.expires_after_days, 0, EXPIRES_AFTER_DAYS_MAX)
    if prize.image_url and not _IMAGE.fullmatch(prize.image_url):
        checks.problem("image_url", "must be an https address")
    if prize.currency and prize.currency not in CURRENCIES:
        checks.problem("currency", "must be a currency of ISO 4217, such as EUR")
    fulfillment = prize.fulfillment or m.PrizeFulfillment()
    _check_fulfillment(checks, fulfillment)
    if prize.type == TURNS:
        _check_given_at_once(checks, fulfillment)
    claim_fields.check(checks, prize.claim_fields, fulfillment.redemption_mode)
    return checks


def _check_value(checks: Checks, prize: m.Prize) -> None:
    if not math.isfinite(prize.value) or not 0 <= prize.value <= VALUE_MAX:
        checks.problem("value", f"must be from 0 to {VALUE_MAX:.0f}")
    elif prize.type == POINTS and (prize.value < 1 or not prize.value.is_integer()):
        checks.problem("value", "must be a whole number of points, at least 1")
    elif prize.type == TURNS and not (prize.value.is_integer() and 1 <= prize.value <= TURNS_MAX):
        checks.problem("value", f"must be a whole number of turns, from 1 to {TURNS_MAX}")


def _check_fulfillment(checks: Checks, fulfillment: m.PrizeFulfillment) -> None:
    channel = CHANNELS.get(fulfillment.channel)
    if channel is None:
        shown = repr(fulfillment.channel[:TYPE_LENGTH_MAX])
        checks.problem("fulfillment.channel", f"unknown channel {shown}; registered: {', '.join(CHANNELS.names())}")
        return
    config = as_given(fulfillment.config)
    checks.small_object("fulfillment.config", config)
    for path, description in channel.config_problems(config):
        checks.problem(f"fulfillment.config.{path}", description)


def _check_given_at_once(checks: Checks, fulfillment: m.PrizeFulfillment) -> None:
    """Turns are the player's with the win: there is nothing to send, to claim or to wait for."""
    if fulfillment.channel != "none":
        checks.problem("fulfillment.channel", "must be none: a prize of turns is given by its win")
    if fulfillment.redemption_mode is not m.RedemptionMode.ON_WIN:
        checks.problem("fulfillment.redemption_mode", "must be REDEMPTION_MODE_ON_WIN: turns are given by their win")


def _signed(
    prize: m.Prize, config: Mapping[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The config with a secret, where its channel is to have one, and what shows a new one."""
    assert prize.fulfillment is not None
    channel = CHANNELS.get(prize.fulfillment.channel)
    # Who approves what waited is not who set it up, and is shown no secret.
    signed = channel is not None and channel.signed and not is_approved()
    return with_secret(config, before) if signed else (dict(config), {})


def _stored_config(
    engine: Engine, tenant_id: str, prize_id: str, given_config: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """The config to store: what is given sealed, the rest kept from `before` where the config has receivers."""
    given_config = as_given(given_config)
    sealed = vault_of(engine.keyring.code).seal_config(given_config, prize_context(tenant_id, prize_id))
    return with_kept(before if given_config.keys() - SECRET_FIELDS else {}, sealed)


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
        prize.description,
        prize.image_url,
        prize.terms,
        prize.currency,
        prize.low_stock_at,
        claim_fields.stored(prize.claim_fields),
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
    return {**row, "channel_config": shown_config(row["channel_config"])}
