"""Games: configuration that is validated as a whole and versioned.

Every update creates a new revision; a play keeps the revision that decided it. A game cannot change its
campaign. Defaults: status draft, `seed_generator` none, `validator` basic, `wallet_scope` campaign,
`access` player, `on_unavailable` lose. Lists omit archived games unless the status filter asks for them.
Stored form: runtime.operations.games.definitions.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, forbidden
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
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import Checks, provided, search_pattern, set_fields
from runtime.operations.games import frozen, released
from runtime.operations.games.definitions import (
    Definition,
    currencies_credited,
    definition_of,
    game_from_row,
    idle_segments,
    prizes_named,
)
from runtime.rules import compose, ui
from runtime.wire.enums import token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("games")
_WORTH: Final = sql.load("approvals")["prizes"]

SETTABLE: Final = frozenset(
    {
        "name",
        "type",
        "status",
        "seed_generator",
        "reward_handler",
        "validator",
        "rules",
        "handler_config",
        "ui",
        "wallet_scope",
        "milestones",
        "access",
        "on_unavailable",
        "fallback_prize_id",
        "start_date",
        "end_date",
    }
)
COUNT_MAX: Final = 2**31 - 1
UI_BYTES_MAX: Final = 256 * 1024
THRESHOLD_MAX: Final = 2**53


@may_need_approval
async def create_game(engine: Engine, request: m.CreateGameRequest) -> m.GameReply:
    """Creates a game at revision 1. INVALID_ARGUMENT lists every invalid field.

    202 APPROVAL_NEEDED, a second person must approve, if one play may credit more than DUAL_ADJUSTMENT_ABOVE or give
    more turns than DUAL_TURNS_ABOVE. With DUAL_ODDS also for going live in a campaign that is live or was played.
    """

    async def work(connection: asyncpg.Connection) -> m.GameReply:
        return _reply(await make(engine, connection, request))

    return await catalog.create(engine, request, m.GameReply, work)


def _reply(written: m.Game) -> m.GameReply:
    """The written game, with a warning for each invalid part of its ui, and each segment of an unknown prize."""
    found = [*ui.problems("ui", written.ui), *idle_segments(definition_of(written))]
    return m.GameReply(game=written, warnings=[m.SaveWarning(*one) for one in found])


async def make(
    engine: Engine, connection: asyncpg.Connection, request: m.CreateGameRequest, *, launches: bool = False
) -> m.Game:
    """`create_game` within a catalogue change. Raises NeedsApproval.

    launches: the game is launched with its campaign, so that only the limits on what a play may give apply, not
    DUAL_ODDS.
    """
    tenant_id = tenant_of(request)
    wanted = provided(request.game, "game")
    game = m.Game(id=pinned_id(wanted.id), campaign_id=wanted.campaign_id)
    set_fields(game, wanted, (), SETTABLE)
    _fill_defaults(game)
    _name_rungs(game.milestones, None)
    definition = definition_of(game)
    checks = _checked(game, definition)
    game_id = id_of_new("game", wanted.id)
    if not game.campaign_id:
        checks.problem("campaign_id", "is required")
    elif campaign := await campaigns.check_campaign(connection, checks, request, game.campaign_id):
        _check_scope(checks, request, game, campaign)
    await _check_prizes(connection, checks, request, game, prizes_named(definition))
    checks.raise_found()
    row = (tenant_id, game_id, game.campaign_id, game.name, game.type, token(game.status), definition)
    await connection.execute(_SQL["insert"], *row)
    made = await _load(connection, tenant_id, game_id)
    await audit.record(connection, tenant_id, "game.create", game_id, after=dict(made))
    pinned = m.CreateGameRequest.parse(bytes(request))
    assert pinned.game is not None
    pinned.game.id = game_id
    await _settle(engine, connection, tenant_id, None, made, pinned, launches=launches)
    return game_from_row(made)


async def get_game(engine: Engine, request: m.GetGameRequest) -> m.GameReply:
    """One game, archived or not. NOT_FOUND UNKNOWN_GAME."""
    return m.GameReply(game=game_from_row(await reading.one(engine, _SQL["get"], request, "game")))


async def list_games(engine: Engine, request: m.ListGamesRequest) -> m.ListGamesReply:
    """The tenant's games, newest first."""
    filters = (
        token(request.status),
        request.campaign_id,
        request.type,
        search_pattern(request.q),
        merchant_of(request),
    )
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    return m.ListGamesReply(items=[game_from_row(row) for row in rows], pagination=pagination)


@may_need_approval
async def update_game(engine: Engine, request: m.UpdateGameRequest) -> m.GameReply:
    """Sets the fields of the request, and creates the next revision.

    ABORTED STALE_REVISION if the body's `revision` is not the current one. FAILED_PRECONDITION HAS_HISTORY if a game
    that was played would credit other wallets, drop a currency (set an item's weight to 0 to stop drawing it), or count
    a rung in another currency; FROZEN for other rules in a frozen campaign. Prizes are checked when they are added, or
    when the game is active: a paused game with an archived prize can still be renamed.

    202 APPROVAL_NEEDED, a second person must approve, if one play may then credit more than DUAL_ADJUSTMENT_ABOVE or
    give more turns than DUAL_TURNS_ABOVE. With DUAL_ODDS also for changes to the draws and rungs of a game that is live
    or was played, and for going live in such a campaign.
    """

    async def work(connection: asyncpg.Connection) -> m.Game:
        return await alter(engine, connection, request)

    return _reply(await catalog.change(engine, tenant_of(request), work))


async def alter(engine: Engine, connection: asyncpg.Connection, request: m.UpdateGameRequest) -> m.Game:
    """`update_game` within a catalogue change. Raises NeedsApproval."""
    tenant_id = tenant_of(request)
    update = provided(request.game, "game")
    before = await reading.for_update(connection, _SQL["get"], request, "game", request.id)
    _refuse_stale(update.revision, before["revision"])
    game = game_from_row(before)
    old_rungs = game_from_row(before).milestones
    set_fields(game, update, request.update_mask, SETTABLE)
    _fill_defaults(game)
    _name_rungs(game.milestones, old_rungs)
    definition = definition_of(game)
    checks = _checked(game, definition)
    campaign = await campaigns.check_campaign(connection, checks, request, before["campaign_id"])
    assert campaign is not None, "a campaign is never removed"
    _check_scope(checks, request, game, campaign)
    if update.campaign_id and update.campaign_id != before["campaign_id"]:
        checks.problem("campaign_id", "cannot be changed")
    named = set(prizes_named(definition)) - set(prizes_named(before["definition"]))
    if game.status is m.GameStatus.ACTIVE:
        named = set(prizes_named(definition))
    await _check_prizes(connection, checks, request, game, sorted(named))
    checks.raise_found()
    frozen.refuse_changed_game(campaign, before, game, definition)
    await _refuse_rekeyed(connection, tenant_id, before, game, definition)
    if game.status is m.GameStatus.ARCHIVED and before["status"] != "archived":
        await _refuse_in_use(connection, tenant_id, request.id, game.name)
    row = (tenant_id, request.id, before["revision"], game.name, game.type, token(game.status), definition)
    if await connection.fetchval(_SQL["revise"], *row) is None:
        raise catalog.stale("game", before["revision"])
    after = await _load(connection, tenant_id, request.id)
    await audit.record(connection, tenant_id, "game.update", request.id, before=dict(before), after=dict(after))
    pinned = m.UpdateGameRequest.parse(bytes(request))
    assert pinned.game is not None
    # Pin the revision that the requester saw. Otherwise approval would overwrite later changes.
    pinned.game.revision = before["revision"]
    await _settle(engine, connection, tenant_id, before, after, pinned)
    return game_from_row(after)


async def _settle(
    engine: Engine,
    connection: asyncpg.Connection,
    tenant_id: str,
    before: Any,
    after: Any,
    pinned: Any,
    *,
    launches: bool = False,
) -> None:
    """Last step: commit or request approval. The approver sees the prizes' worth; the approval depends on it."""
    waits = await policy.game(connection, engine.settings, tenant_id, before, after, launches=launches)
    if not waits and not is_approved():
        return
    rows = (before, after) if before is not None else (after,)
    named = sorted({prize_id for row in rows for _, prize_id in prizes_named(row["definition"]) if prize_id})
    prizes = {row["id"]: dict(row) for row in await connection.fetch(_WORTH, tenant_id, named)}

    def shown(row: Any) -> dict[str, Any]:
        return {**dict(row), "prizes": _worth(prizes, row["definition"])}

    shown_before = shown(before) if before is not None else {}
    approval = NeedsApproval(after["id"], before=shown_before, after=shown(after), pinned=pinned, rests_on=prizes)
    await settle(connection, waits, lambda: approval)


def _worth(prizes: dict[str, dict[str, Any]], definition: Definition) -> list[dict[str, Any]]:
    named = {prize_id for _, prize_id in prizes_named(definition)}
    return [prize for prize_id, prize in prizes.items() if prize_id in named]


async def delete_game(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes a game that was never played; archives any other.

    FAILED_PRECONDITION IN_USE while an active leaderboard counts it; FROZEN once launched in a frozen campaign.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        before = await reading.for_update(connection, _SQL["get"], request, "game", request.id)
        campaign = await campaigns.check_campaign(connection, Checks(), request, before["campaign_id"])
        frozen.refuse_removed_game(campaign, before)
        await _refuse_in_use(connection, tenant_id, request.id, before["definition"]["name"])
        archived = bool(await connection.fetchval(_SQL["has_history"], tenant_id, request.id))
        await connection.execute(_SQL["archive" if archived else "remove"], tenant_id, request.id)
        after = dict(before) | {"status": "archived"} if archived else None
        await audit.record(connection, tenant_id, "game.delete", request.id, before=dict(before), after=after)
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change(engine, tenant_id, work))


def users_of_prize(game_id: str, definition: Definition, prize_id: str, prize: str) -> list[dict[str, str]]:
    """The references to a prize: the game as `{type, id, name}`, and each rung as `{type, id, name, game_id}`.

    prize: its name, which names a rung without one.
    """
    if all(named_id != prize_id for _, named_id in prizes_named(definition)):
        return []
    rungs = [rung for rung in (definition["milestones"] or {}).get("rungs", ()) if rung["prize_id"] == prize_id]
    named = [
        {"type": "milestone", "id": rung["id"], "name": rung["name"] or prize, "game_id": game_id} for rung in rungs
    ]
    return [{"type": "game", "id": game_id, "name": definition["name"]}, *named]


def _fill_defaults(game: m.Game) -> None:
    game.seed_generator = game.seed_generator or "none"
    game.validator = game.validator or "basic"
    game.status = game.status or m.GameStatus.DRAFT
    game.wallet_scope = game.wallet_scope or m.WalletScope.CAMPAIGN
    game.access = game.access or m.GameAccess.PLAYER
    game.on_unavailable = game.on_unavailable or m.OnUnavailable.LOSE
    if game.milestones is not None and not game.milestones.rungs:
        game.milestones = None  # null in JSON means "omitted"; an empty block removes milestones.


def _name_rungs(milestones: m.Milestones | None, before: m.Milestones | None) -> None:
    """Gives each rung without an id the id of the old rung with its currency and threshold, else a new one.

    Grants are stored by rung id: a rung that lost its id in an editor must not become grantable again.
    """
    if milestones is None:
        return
    taken = {rung.id for rung in milestones.rungs if rung.id}
    old = {(rung.currency, rung.threshold): rung.id for rung in (before.rungs if before is not None else ())}
    for rung in milestones.rungs:
        if not rung.id:
            known = old.get((rung.currency, rung.threshold), "")
            rung.id = known if known and known not in taken else ids.make("rung")
            taken.add(rung.id)


def problems(game: m.Game) -> list[tuple[str, str]]:
    """(field, description) of each problem of a game with defaults filled in. References are not checked.

    For tools that validate a file before they send it.
    """
    _fill_defaults(game)
    return _checked(game, definition_of(game)).found


def _checked(game: m.Game, definition: Definition) -> Checks:
    checks = Checks()
    checks.required("name", game.name)
    rules = game.rules if game.rules is not None else m.GameRules()
    checks.between("rules.max_plays_per_user", rules.max_plays_per_user, 0, COUNT_MAX)
    checks.between("rules.max_plays_per_day", rules.max_plays_per_day, 0, COUNT_MAX)
    checks.small_object("ui", game.ui, UI_BYTES_MAX)
    checks.times(game.start_date, game.end_date)
    if game.on_unavailable is m.OnUnavailable.FALLBACK and not game.fallback_prize_id:
        checks.problem("fallback_prize_id", "is required if on_unavailable is ON_UNAVAILABLE_FALLBACK")
    try:
        compose(game.seed_generator, game.reward_handler, game.validator, definition["handler_config"])
    except Fault as fault:
        checks.problems((row["field"], row["description"]) for row in fault.facts["violations"])
    if game.milestones is not None:
        _check_milestones(checks, game.milestones)
    return checks


def _check_milestones(checks: Checks, milestones: m.Milestones) -> None:
    if milestones.mode is m.MilestoneMode.SPEND_EXCHANGE and milestones.auto_grant:
        checks.problem("milestones.auto_grant", "must be false for SPEND_EXCHANGE: players request an exchange")
    seen: set[str] = set()
    for index, rung in enumerate(milestones.rungs):
        path = f"milestones.rungs[{index}]"
        if rung.id and rung.id in seen:
            checks.problem(f"{path}.id", "is a duplicate")
        seen.add(rung.id)
        checks.required(f"{path}.currency", rung.currency)
        checks.between(f"{path}.threshold", rung.threshold, 1, THRESHOLD_MAX)
        if not rung.prize_id:
            checks.problem(f"{path}.prize_id", "is required")


def _check_scope(checks: Checks, request: Scoped, game: m.Game, campaign: asyncpg.Record) -> None:
    """Adds a problem for a merchant wallet without a merchant. FORBIDDEN if a merchant's staff uses the tenant's."""
    if game.wallet_scope is m.WalletScope.TENANT and merchant_of(request):
        raise forbidden("wallet", tenant_of(request))
    if game.wallet_scope is m.WalletScope.MERCHANT and not campaign["merchant_id"]:
        checks.problem("wallet_scope", "requires a campaign with a merchant")


async def _refuse_rekeyed(
    connection: asyncpg.Connection, tenant_id: str, row: asyncpg.Record, game: m.Game, definition: Definition
) -> None:
    """HAS_HISTORY if balances credited so far would become unreachable for the game."""
    before = game_from_row(row)
    old = {rung.id: rung.currency for rung in (before.milestones.rungs if before.milestones else ())}
    rungs = game.milestones.rungs if game.milestones else ()
    recounted = [at for at, rung in enumerate(rungs) if old.get(rung.id, rung.currency) != rung.currency]
    removed = currencies_credited(row["definition"]) - currencies_credited(definition)
    if game.wallet_scope is not before.wallet_scope:
        changed, what, instead = "wallet_scope", "", catalog.CHANGE_COPY
    elif removed:
        changed, what, instead = "handler_config", f"the currency {max(removed)}", "keep its item, with weight 0"
    elif recounted:
        at = recounted[-1]
        what, instead = f"the currency of the rung {_rung_name(rungs[at])!r}", "add another rung"
        changed = f"milestones.rungs[{at}].currency"
    else:
        return
    if await connection.fetchval(_SQL["has_moved"], tenant_id, before.id):
        why = "the game was played, or a milestone was granted"
        raise catalog.has_history("game", before.name, changed, why, instead=instead, what=what)


async def _check_prizes(
    connection: asyncpg.Connection, checks: Checks, request: Scoped, game: m.Game, named: list[tuple[str, str]]
) -> None:
    """Adds a problem for each (path, prize_id) whose prize is archived or unknown to the caller, and for too many
    prizes with a release.
    """
    if named:
        await released.check(connection, checks, tenant_of(request), definition_of(game))
    unusable = await catalog.unusable_prizes(connection, request, (prize_id for _, prize_id in named))
    rungs = game.milestones.rungs if game.milestones else ()
    names = {f"milestones.rungs[{i}].prize_id": _rung_name(rung) for i, rung in enumerate(rungs)}
    for path, prize_id in named:
        if why := unusable.get(prize_id):
            checks.problem(path, f"{why}: choose another prize for {names[path]!r}" if path in names else why)


def _rung_name(rung: m.Rung) -> str:
    return rung.name or f"{rung.threshold} {rung.currency}"


async def _load(connection: asyncpg.Connection, tenant_id: str, game_id: str) -> asyncpg.Record:
    row = await connection.fetchrow(_SQL["get"], tenant_id, game_id, "", False)
    assert row is not None, "the game was written by this transaction"
    return row


async def _refuse_in_use(connection: asyncpg.Connection, tenant_id: str, game_id: str, name: str) -> None:
    boards = await connection.fetch(_SQL["boards_that_count"], tenant_id, game_id)
    if boards:
        raise catalog.in_use(
            "game", name, [{"type": "leaderboard", "id": row["board_id"], "name": row["name"]} for row in boards]
        )


def _refuse_stale(sent: int, current: int) -> None:
    if sent and sent != current:
        raise catalog.stale("game", current)
