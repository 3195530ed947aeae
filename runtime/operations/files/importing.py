"""Imports a campaign's file: campaign, prizes, games, quests, leaderboards, packs and draws, in one transaction.

Resources are matched by name: changed ones are updated, new ones created, with the checks and audit entries of the
single operations. The tenant's catalogue is locked meanwhile, so no other change comes in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown, violations
from runtime.operations import audit, reading
from runtime.operations.approvals.pending import NeedsApproval
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import VIOLATIONS_MAX, search_pattern
from runtime.operations.draws import draw_admin
from runtime.operations.files import parsing
from runtime.operations.files.kinds import (
    BOARDS,
    CAMPAIGN,
    DRAWS,
    GAMES,
    PACKS,
    PRIZES,
    QUESTS,
    Change,
    Found,
    Kind,
    join,
)
from runtime.operations.games import game_admin as games
from runtime.operations.games.definitions import game_from_row, prizes_named
from runtime.operations.idempotent_writes import once
from runtime.operations.leaderboards import board_admin as boards
from runtime.operations.packs import pack_admin
from runtime.operations.prizes import prize_admin as prizes
from runtime.operations.quests import quest_admin
from runtime.rules.ui import assets_of
from runtime.wire import codec
from runtime.wire.scope import merchant_of, tenant_of

_LISTS: Final = {kind: sql.load(kind.section)["list"] for kind in parsing.KINDS}
_GET_CAMPAIGN: Final = sql.load("campaigns")["get"]
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

_FROM_ROW: Final[dict[Kind, Callable[[Any], Any]]] = {
    PRIZES: prizes.from_row,
    GAMES: game_from_row,
    QUESTS: quest_admin.quest_from_row,
    BOARDS: boards.board_from_row,
    PACKS: pack_admin.pack_from_row,
    DRAWS: draw_admin.from_row,
}

_Resource = dict[str, Any]
"""A resource in the service's JSON form."""


async def import_campaign(engine: Engine, request: m.ImportCampaignRequest) -> m.ImportCampaignReply:
    """Creates a campaign with all its resources from a file, or with `into` updates that campaign; all or nothing.

    INVALID_ARGUMENT lists all problems by their paths in the file. Other refusals name the part of the file in their
    messages. FAILED_PRECONDITION ODDS_NEED_APPROVAL if a DUAL_* setting demands approval of a part, since the rest
    cannot wait for it. Games of a new campaign launch with it, and need approval only for what one play gives.
    """
    tenant_id = tenant_of(request)
    if not request.file:
        raise invalid("file", "is required")
    changes, found = parsing.read(assets_of(request.file, tenant_id))
    if found:
        raise violations(found[:VIOLATIONS_MAX])
    imports: list[_Import] = []

    async def work(connection: asyncpg.Connection) -> m.ImportCampaignReply:
        version = await connection.fetchval(_RAISE_VERSION, tenant_id)
        if version is None:
            raise unknown("tenant", tenant_id)
        imports.append(_Import(engine, connection, request, version))
        return await imports[-1].apply_all([change.copy() for change in changes])

    done = await once(engine, request, m.ImportCampaignReply, work)
    if not done.repeated:
        await imports[-1].publish()
    reply: m.ImportCampaignReply = done.reply
    return reply


class _Import:
    def __init__(
        self, engine: Engine, connection: asyncpg.Connection, request: m.ImportCampaignRequest, version: int
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._request = request
        self._version = version
        self._campaign_id = request.into
        self._ids: parsing.Names = {kind.section: {} for kind in parsing.REFERENCED}
        self._dropped_rankings: list[str] = []
        self._stale_rankings: list[str] = []
        self._steps: Final[dict[Kind, Callable[[Change, Any, list[str]], Awaitable[str]]]] = {
            CAMPAIGN: self._campaign,
            PRIZES: self._prize,
            GAMES: self._game,
            QUESTS: self._quest,
            BOARDS: self._board,
            PACKS: self._pack,
            DRAWS: self._draw,
        }

    async def apply_all(self, changes: list[Change]) -> m.ImportCampaignReply:
        """Applies all changes of the file, in the order of their references."""
        await self._compare(changes)
        reply = m.ImportCampaignReply()
        for change in changes:
            id_ = await self._apply(change)
            if change.kind is CAMPAIGN:
                self._campaign_id, reply.campaign_id, reply.name = id_, id_, change.name
            if change.kind.section in self._ids:
                self._ids[change.kind.section][change.name] = id_
            reply.created += change.action == "create"
            reply.changed += change.action == "change"
            reply.kept += change.action == "keep"
        after = {"created": reply.created, "changed": reply.changed, "kept": reply.kept}
        await audit.record(
            self._connection, tenant_of(self._request), "campaign.import", self._campaign_id, after=after
        )
        return reply

    async def publish(self) -> None:
        """After the commit: publishes the new catalogue version and resets rankings."""
        tenant_id, rankings = tenant_of(self._request), self._engine.rankings
        self._engine.catalog_changed(tenant_id, self._version)
        for board_id in self._dropped_rankings:
            await rankings.forget(tenant_id, board_id)
        for board_id in self._stale_rankings:
            rankings.rebuild_soon(tenant_id, board_id)

    # -- what is there ---------------------------------------------------------------------------

    async def _compare(self, changes: list[Change]) -> None:
        """Finds the current state and the differences of each resource. INVALID_ARGUMENT lists refused changes."""
        found: Found = []
        names: parsing.Names = {}
        current: dict[Kind, list[_Resource]] = {kind: [] for kind in parsing.KINDS}
        if self._request.into:
            changes[0].current = await self._current_campaign()
            current = {kind: await self._list(kind, campaign_id=self._request.into) for kind in parsing.KINDS}
            current[PRIZES] += await self._shared_prizes(current)
            names = {kind.section: {one["id"]: one["name"] for one in current[kind]} for kind in parsing.REFERENCED}
        for change in changes:
            if change.kind is not CAMPAIGN:
                items = await self._list(PRIZES, q=change.name) if change.shared else current[change.kind]
                change.current = parsing.match(change, items, found)
            if change.current is not None:
                change.current = parsing.with_references(change.current, names)
            change.compare()
            parsing.check_state(change, found)
        if found:
            raise violations(found[:VIOLATIONS_MAX])

    async def _current_campaign(self) -> _Resource:
        row = await reading.for_update(self._connection, _GET_CAMPAIGN, self._request, "campaign", self._request.into)
        return codec.view(m.Campaign, "number")(campaigns.from_row(row))

    async def _list(self, kind: Kind, *, campaign_id: str = "", q: str = "") -> list[_Resource]:
        """The resources of a kind that are not archived and whose name contains `q`, oldest first."""
        own_filters = {
            PRIZES: ("", campaign_id, ""),
            GAMES: ("", campaign_id, ""),
            QUESTS: (campaign_id, "", ""),
            BOARDS: (campaign_id, ""),
            PACKS: (campaign_id, ""),
            DRAWS: (campaign_id, ""),
        }
        filters = (tenant_of(self._request), *own_filters[kind], search_pattern(q), merchant_of(self._request))
        rows = await self._connection.fetch(_LISTS[kind], *filters, None, None)
        show = codec.view(kind.message, "number")
        return [show(_FROM_ROW[kind](row)) for row in rows[::-1] if row["status"] != "cancelled"]

    async def _shared_prizes(self, current: dict[Kind, list[_Resource]]) -> list[_Resource]:
        """The tenant's shared prizes that the campaign's games, leaderboards and draws refer to."""
        known = {prize["id"] for prize in current[PRIZES]}
        named = {prize["prize_id"] for one in (*current[BOARDS], *current[DRAWS]) for prize in one["prizes"]}
        for game in current[GAMES]:
            named |= {prize_id for _, prize_id in prizes_named(game)}
        shared = []
        for prize_id in sorted(named - known - {""}):
            row = await self._connection.fetchrow(
                _GET_PRIZE, tenant_of(self._request), prize_id, merchant_of(self._request), False
            )
            if row is not None and not row["campaign_id"] and row["status"] != "archived":
                shared.append(codec.view(m.Prize, "number")(prizes.from_row(row)))
        return shared

    # -- what is done ----------------------------------------------------------------------------

    async def _apply(self, change: Change) -> str:
        """Applies one change. Returns the resource's id. A refusal names the part of the file."""
        if change.action == "keep" and change.current is not None:
            unchanged: str = change.current["id"]
            return unchanged
        body = parsing.with_references(change.sent(), self._ids)
        if change.current is None and change.kind is not CAMPAIGN and not change.shared:
            body["campaign_id"] = self._campaign_id
        try:
            resource, _ = codec.read(change.kind.message, body)
            return await self._steps[change.kind](
                change, resource, [name for name, value in body.items() if value is not None]
            )
        except NeedsApproval:
            message = "this part needs a second person's approval; request it by itself, then import the rest"
            raise _of_part(Fault(Status.FAILED_PRECONDITION, "ODDS_NEED_APPROVAL", message), change.path) from None
        except Fault as fault:
            raise _of_part(fault, change.path) from None

    async def _campaign(self, change: Change, campaign: m.Campaign, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreateCampaignRequest(scope=scope, campaign=campaign)
            created: str = (await campaigns.make(self._connection, create))["id"]
            return created
        update = m.UpdateCampaignRequest(scope=scope, id=change.current["id"], campaign=campaign, update_mask=mask)
        _, withdrawn = await campaigns.alter(self._connection, update)
        self._dropped_rankings += [board["board_id"] for board in withdrawn]
        return update.id

    async def _prize(self, change: Change, prize: m.Prize, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreatePrizeRequest(scope=scope, prize=prize)
            # The reply cannot show a generated secret.
            return (await prizes.make(self._engine, self._connection, create, shows_secret=False)).id
        update = m.UpdatePrizeRequest(scope=scope, id=change.current["id"], prize=prize, update_mask=mask)
        return (await prizes.alter(self._engine, self._connection, update, shows_secret=False)).id

    async def _game(self, change: Change, game: m.Game, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreateGameRequest(scope=scope, game=game)
            return (await games.make(self._engine, self._connection, create, launches=not self._request.into)).id
        update = m.UpdateGameRequest(scope=scope, id=change.current["id"], game=game, update_mask=mask)
        return (await games.alter(self._engine, self._connection, update)).id

    async def _quest(self, change: Change, quest: m.Quest, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreateQuestRequest(scope=scope, quest=quest)
            row, _ = await quest_admin.make(self._connection, create, settings=self._engine.settings)
            created: str = row["id"]
            return created
        update = m.UpdateQuestRequest(scope=scope, id=change.current["id"], quest=quest, update_mask=mask)
        await quest_admin.alter(self._connection, update, settings=self._engine.settings)
        return update.id

    async def _board(self, change: Change, board: m.Leaderboard, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreateLeaderboardRequest(scope=scope, leaderboard=board)
            created: str = (await boards.make(self._connection, create))["id"]
            self._stale_rankings.append(created)
            return created
        update = m.UpdateLeaderboardRequest(scope=scope, id=change.current["id"], leaderboard=board, update_mask=mask)
        if (await boards.alter(self._connection, update)).recount:
            self._dropped_rankings.append(update.id)
            self._stale_rankings.append(update.id)
        return update.id

    async def _pack(self, change: Change, pack: m.Pack, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreatePackRequest(scope=scope, pack=pack)
            return (await pack_admin.make(self._engine, self._connection, create)).id
        update = m.UpdatePackRequest(scope=scope, id=change.current["id"], pack=pack, update_mask=mask)
        return (await pack_admin.alter(self._engine, self._connection, update)).id

    async def _draw(self, change: Change, draw: m.Draw, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            create = m.CreateDrawRequest(scope=scope, draw=draw)
            return (await draw_admin.make(self._engine, self._connection, create)).id
        update = m.UpdateDrawRequest(scope=scope, id=change.current["id"], draw=draw, update_mask=mask)
        await draw_admin.alter(self._engine, self._connection, update)
        return update.id


def _of_part(fault: Fault, path: str) -> Fault:
    if "violations" in fault.facts:
        return violations([(join(path, row["field"]), row["description"]) for row in fault.facts["violations"]])
    return Fault(
        fault.status,
        fault.reason,
        f"{path}: {fault.message}",
        retry_after_seconds=fault.retry_after_seconds,
        http_status=fault.http_status,
        **fault.facts,
    )
