"""Prizes: value, stock, caps and delivery.

`stock.total` 0 is unlimited. A points prize uses no stock; its value is the number of points that one unit credits. A
turns prize gives as many turns of the campaign it is won in as its value, at the win.

`fulfillment.config.secret` is write-only: stored encrypted, and read back as `secret_set: true`. An update without it
leaves it unchanged, "" removes it, and a change of the receiver must provide it again. A webhook or workflow without
a secret gets one, shown once, as `secret_once`.

Lists omit archived prizes unless filtered by that status.
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
from runtime.operations.approvals.pending import (
    NeedsApproval,
    id_of_new,
    is_approved,
    may_need_approval,
    pinned_id,
    settle,
)
from runtime.operations.budget_alerts import usage
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import TYPE_LENGTH_MAX, Checks, provided, search_pattern, set_fields
from runtime.operations.currencies import CURRENCIES
from runtime.operations.games import frozen, released
from runtime.operations.games import game_admin as games
from runtime.operations.prizes import claim_fields, history, release
from runtime.operations.prizes.stock import COUNT_MAX, set_stock
from runtime.outgoing.channels import CHANNELS, as_input, for_validation, leaked_secrets, with_secret, with_stored
from runtime.outgoing.vault import MASKED, SECRET_FIELDS, prize_context, shown_config, vault_of
from runtime.rules.ui import ASSET
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("prizes")

SETTABLE: Final = frozenset(
    {"name", "type", "value", "campaign_id", "stock", "constraints", "fulfillment", "expires_after_days", "status"}
    | {"description", "image_url", "terms", "currency", "low_stock_at", "claim_fields", "release"}
)
TURNS_MAX: Final = 1000
VALUE_MAX: Final = 1e12
EXPIRES_AFTER_DAYS_MAX: Final = 36_500
_IMAGE: Final = re.compile(r"https://[A-Za-z0-9_.\-]+(:[0-9]{1,5})?([/?#][^\s\"'<>\\^`{|}]*)?|" + ASSET)
"""The same patterns as images in a game's ui (runtime/rules/ui/schema.json)."""


@may_need_approval
async def create_prize(engine: Engine, request: m.CreatePrizeRequest) -> m.PrizeReply:
    """Creates a prize. The default channel is `none`, and the default redemption mode `on_win`.

    More points than DUAL_ADJUSTMENT_ABOVE need a second person's approval: 202 APPROVAL_NEEDED. Its requester gets
    a generated secret by repeating the request with its Idempotency-Key, or the approval's id as key; no approver does.
    """

    async def work(connection: asyncpg.Connection) -> m.PrizeReply:
        return m.PrizeReply(prize=await make(engine, connection, request))

    return await catalog.create(engine, request, m.PrizeReply, work)


async def make(
    engine: Engine, connection: asyncpg.Connection, request: m.CreatePrizeRequest, *, shows_secret: bool = True
) -> m.Prize:
    """`create_prize` within a change of the catalogue. Raises NeedsApproval.

    shows_secret: whether the caller gets the reply. If not, no secret is generated, since it would never be shown.
    """
    tenant_id, wanted = tenant_of(request), _requested(request.prize)
    # A copy of the request as it came: a retry has this hash, and defaults are filled in below.
    pinned = m.CreatePrizeRequest.parse(bytes(request))
    prize = m.Prize(id=pinned_id(wanted.id), status=m.PrizeStatus.ACTIVE)
    set_fields(prize, wanted, (), SETTABLE)
    _fill_defaults(prize)
    checks = _checked(prize)
    prize_id = id_of_new("prize", wanted.id)
    await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
    checks.raise_found()
    config_input, shown_once = _signed(prize, _config(prize), {}) if shows_secret else (_config(prize), {})
    config = _stored_config(engine, tenant_id, prize_id, config_input, {})
    total = prize.stock.total if prize.stock else 0
    schedule = release.stored(engine, tenant_id, prize_id, prize.release, None)
    await connection.execute(_SQL["insert"], tenant_id, prize_id, *_columns(prize, config, schedule), total)
    await release.promise(connection, tenant_id, prize_id, schedule)
    created = await _load(connection, tenant_id, prize_id)
    await audit.record(connection, tenant_id, "prize.create", prize_id, after=_shown(created))
    assert pinned.prize is not None
    pinned.prize.id = prize_id
    await settle(
        connection, policy.points(engine.settings, None, created), lambda: _needs_approval(None, created, pinned)
    )
    return await _with_low_stock(connection, tenant_id, created, shown_once)


async def get_prize(engine: Engine, request: m.GetPrizeRequest) -> m.PrizeReply:
    """Returns one prize, archived or not. NOT_FOUND UNKNOWN_PRIZE."""
    row = await reading.one(engine, _SQL["get"], request, "prize")
    return m.PrizeReply(prize=(await _to_read(engine, request, [row]))[0])


async def list_prizes(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizesReply:
    """Lists the tenant's prizes, newest first."""
    rows, pagination = await reading.page(engine, _SQL["list"], request, *_filters(request))
    return m.ListPrizesReply(items=await _to_read(engine, request, rows), pagination=pagination)


async def _to_read(engine: Engine, request: Scoped, rows: list[asyncpg.Record]) -> list[m.Prize]:
    prizes = [from_row(row) for row in rows]
    now = engine.clock.now()
    for prize, row in zip(prizes, rows, strict=True):
        if prize.release is not None:
            prize.release.opening = release.opened(
                engine.keyring.server, tenant_of(request), prize.id, row["release"], now
            )
    await usage.fill_low(engine.database, tenant_of(request), prizes)
    return prizes


async def list_prize_summary(engine: Engine, request: m.ListPrizesRequest) -> m.ListPrizeSummaryReply:
    """Lists each prize's stock, and its claimed and delivered units. Revoked rewards count as neither."""
    rows, pagination = await reading.page(engine, _SQL["summary"], request, *_filters(request), key="prize_id")
    low = await usage.low_stock_of(engine.database, tenant_of(request), [row["prize_id"] for row in rows])
    items = [
        m.PrizeSummary(**{**row, "status": enum(m.PrizeStatus, row["status"])}, low=row["prize_id"] in low)
        for row in rows
    ]
    return m.ListPrizeSummaryReply(items=items, pagination=pagination)


@may_need_approval
async def update_prize(engine: Engine, request: m.UpdatePrizeRequest) -> m.PrizeReply:
    """Sets the provided fields.

    FAILED_PRECONDITION: STOCK_BELOW_AWARDED (`awarded`), IN_USE to archive a prize that is in use, HAS_HISTORY, FROZEN.
    202 APPROVAL_NEEDED for more points than DUAL_ADJUSTMENT_ABOVE, by one unit or by one play of a game with this
    prize, and, with DUAL_ODDS, to change the worth of a prize that can be won.
    """

    async def work(connection: asyncpg.Connection) -> m.Prize:
        return await alter(engine, connection, request)

    return m.PrizeReply(prize=await catalog.change(engine, tenant_of(request), work))


async def alter(
    engine: Engine, connection: asyncpg.Connection, request: m.UpdatePrizeRequest, *, shows_secret: bool = True
) -> m.Prize:
    """`update_prize` within a change of the catalogue. Raises NeedsApproval. shows_secret: see `make`."""
    tenant_id = tenant_of(request)
    update = _requested(request.prize)
    before = await reading.for_update(connection, _SQL["get"], request, "prize", request.id)
    prize = from_row(before)
    if update.low:
        await usage.fill_low(connection, tenant_id, [prize])
    named = set_fields(prize, update, request.update_mask, SETTABLE)
    _fill_defaults(prize)
    stored, config_input = before["channel_config"], _config(prize)
    assert prize.fulfillment is not None
    # A copy: the request is stored as it came if it needs approval.
    prize.fulfillment = replace(prize.fulfillment, config=for_validation(stored, config_input))
    checks = _checked(prize)
    if config_input:
        moved = leaked_secrets(stored, config_input)
        checks.problems((f"fulfillment.config.{name}", wrong) for name, wrong in moved)
    if prize.campaign_id != before["campaign_id"]:
        await campaigns.check_campaign(connection, checks, request, prize.campaign_id)
    checks.raise_found()
    await history.refuse_recounted(connection, tenant_id, before, prize)
    await history.refuse_redelivered(connection, tenant_id, before, prize.fulfillment.channel)
    if prize.status is m.PrizeStatus.ARCHIVED and before["status"] != "archived":
        await _refuse_in_use(connection, tenant_id, request.id, before["name"])
    shown_once: dict[str, str] = {}
    # An approved update has no stored reply, in which its requester would find a generated secret.
    if shows_secret and "fulfillment" in named and not is_approved():
        config_input, shown_once = _signed(prize, config_input, stored)
    config = _stored_config(engine, tenant_id, request.id, config_input, stored)
    schedule = release.stored(engine, tenant_id, request.id, prize.release, before["release"])
    await connection.execute(_SQL["update"], tenant_id, request.id, *_columns(prize, config, schedule))
    await release.promise(connection, tenant_id, request.id, schedule)
    if schedule is not None and before["release"] is None:
        await released.refuse(connection, tenant_id, request.id)
    total = prize.stock.total if prize.stock else 0
    if "stock" in named and total != before["total"]:
        await set_stock(connection, tenant_id, request.id, total=total)
    after = await _load(connection, tenant_id, request.id)
    await frozen.refuse_changed_prize(connection, tenant_id, before, after)
    await audit.record(connection, tenant_id, "prize.update", request.id, before=_shown(before), after=_shown(after))
    games = await policy.games_over_limit(connection, engine.settings, tenant_id, before, after)
    needs_approval = await policy.prize(connection, engine.settings, tenant_id, before, after, games)
    await settle(connection, needs_approval, lambda: _needs_approval(before, after, request, games))
    return await _with_low_stock(connection, tenant_id, after, shown_once)


async def delete_prize(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes a prize that was never used, and archives one with history.

    FAILED_PRECONDITION IN_USE while an active game, one of its rungs, an active leaderboard or an unconfirmed draw
    refers to it, or a rank is still owed it; FROZEN while a game of a frozen campaign refers to it.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        before = await reading.for_update(connection, _SQL["get"], request, "prize", request.id)
        await _refuse_in_use(connection, tenant_id, request.id, before["name"])
        await frozen.refuse_lowered(connection, tenant_id, request.id, "status")
        await connection.execute(_SQL["lock"], tenant_id, request.id)
        archived = bool(await connection.fetchval(_SQL["has_history"], tenant_id, request.id))
        await connection.execute(_SQL["archive" if archived else "remove"], tenant_id, request.id)
        after = _shown(before) | {"status": "archived"} if archived else None
        await audit.record(connection, tenant_id, "prize.delete", request.id, before=_shown(before), after=after)
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change(engine, tenant_id, work))


def _config(prize: m.Prize) -> dict[str, Any]:
    return (prize.fulfillment.config if prize.fulfillment else None) or {}


def _requested(prize: m.Prize | None) -> m.Prize:
    """The prize of a request, without its config's output-only fields, which an approval must not store."""
    found = provided(prize, "prize")
    if found.fulfillment is not None and found.fulfillment.config:
        found.fulfillment.config = as_input(found.fulfillment.config)
    return found


def _needs_approval(
    before: Any, after: Any, request: m.CreatePrizeRequest | m.UpdatePrizeRequest, games: Sequence[Any] = ()
) -> NeedsApproval:
    """The change to be approved. INVALID_ARGUMENT if it has a secret or header values: it would be stored unencrypted.

    games: those of which one play may give more than the limits. The approver sees them, and the approval is stale once
    those amounts change.
    """
    config = _config(request.prize) if request.prize else {}
    headers = config.get("headers")
    has_header_values = isinstance(headers, Mapping) and any(value != MASKED for value in headers.values())
    for name, present in (("secret", any(config.get(name) for name in SECRET_FIELDS)), ("headers", has_header_values)):
        if present and not is_approved():
            why = "must not be part of a change that needs approval; set it separately after the approval"
            raise invalid(f"fulfillment.config.{name}", why)
    shown = {} if before is None else _shown(before)
    # Wins in the meantime do not make the approval stale.
    rests_on = {name: value for name, value in shown.items() if name not in ("remaining", "awarded")}
    if not games:
        return NeedsApproval(after["id"], before=shown, after=_shown(after), pinned=request, rests_on=rests_on)
    # Games' names are shown, but a new name does not make the approval stale.
    most = {"games": {one["id"]: one["most"] for one in games}}
    shown_after = _shown(after) | {"games": list(games)}
    return NeedsApproval(after["id"], before=shown, after=shown_after, pinned=request, rests_on=rests_on | most)


def from_row(row: Any) -> m.Prize:
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
        claim_fields=answers.claim_fields_of(row["claim_fields"]),
        release=release.message(row["release"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


async def _with_low_stock(source: usage.Source, tenant_id: str, row: Any, shown_once: Mapping[str, str]) -> m.Prize:
    """Converts a row and marks low stock. shown_once: fields that its config shows only in this reply."""
    prize = from_row(row)
    if shown_once and prize.fulfillment is not None:
        prize.fulfillment.config = {**(prize.fulfillment.config or {}), **shown_once}
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
    """Fills defaults in: a provided object replaces the previous one as a whole."""
    fulfillment = prize.fulfillment if prize.fulfillment is not None else m.PrizeFulfillment()
    prize.fulfillment = fulfillment
    fulfillment.channel = fulfillment.channel or "none"
    fulfillment.redemption_mode = fulfillment.redemption_mode or m.RedemptionMode.ON_WIN
    claim_fields.fill_kinds(prize.claim_fields)
    release.fill_defaults(prize)


def problems(prize: m.Prize) -> list[tuple[str, str]]:
    """(field, problem) pairs of a prize with its defaults filled in, for tools that check before they send."""
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
        checks.problem("image_url", "must be an https address, or the URL of an uploaded picture")
    if prize.currency and prize.currency not in CURRENCIES:
        checks.problem("currency", "must be a currency of ISO 4217, such as EUR")
    fulfillment = prize.fulfillment or m.PrizeFulfillment()
    _check_fulfillment(checks, fulfillment)
    if prize.type == TURNS:
        _check_credited_at_win(checks, fulfillment)
    claim_fields.check(checks, prize.claim_fields, fulfillment.redemption_mode)
    release.check(checks, prize)
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
    config = as_input(fulfillment.config)
    checks.small_object("fulfillment.config", config)
    for path, description in channel.config_problems(config):
        checks.problem(f"fulfillment.config.{path}", description)


def _check_credited_at_win(checks: Checks, fulfillment: m.PrizeFulfillment) -> None:
    """Turns are credited at the win, so there is nothing to send or claim."""
    if fulfillment.channel != "none":
        checks.problem("fulfillment.channel", "must be none: turns are credited at the win")
    if fulfillment.redemption_mode is not m.RedemptionMode.ON_WIN:
        checks.problem("fulfillment.redemption_mode", "must be REDEMPTION_MODE_ON_WIN: turns are credited at the win")


def _signed(
    prize: m.Prize, config: Mapping[str, Any], before: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The config, with a secret if its channel signs, and the fields that show a newly generated one."""
    assert prize.fulfillment is not None
    channel = CHANNELS.get(prize.fulfillment.channel)
    return with_secret(config, before) if channel is not None and channel.signed else (dict(config), {})


def _stored_config(
    engine: Engine, tenant_id: str, prize_id: str, config_input: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """The config to store: provided secrets encrypted, the others taken from `before` if the config has a receiver."""
    config_input = as_input(config_input)
    sealed = vault_of(engine.keyring.code).seal_config(config_input, prize_context(tenant_id, prize_id))
    return with_stored(before if config_input.keys() - SECRET_FIELDS else {}, sealed)


def _columns(prize: m.Prize, config: dict[str, Any], schedule: dict[str, Any] | None) -> tuple[Any, ...]:
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
        schedule,
    )


async def _refuse_in_use(connection: asyncpg.Connection, tenant_id: str, prize_id: str, name: str) -> None:
    used_by = []
    for row in await connection.fetch(_SQL["games_that_may_name"], tenant_id, prize_id):
        used_by += games.users_of_prize(row["game_id"], row["definition"], prize_id, name)
    for row in await connection.fetch(_SQL["boards_that_name"], tenant_id, prize_id):
        used_by.append({"type": "leaderboard", "id": row["board_id"], "name": row["name"]})
    for row in await connection.fetch(_SQL["draws_that_name"], tenant_id, prize_id):
        used_by.append({"type": "draw", "id": row["draw_id"], "name": row["name"]})
    if used_by:
        raise catalog.in_use("prize", name, used_by)


def _shown(row: Any) -> dict[str, Any]:
    return {**row, "channel_config": shown_config(row["channel_config"])}
