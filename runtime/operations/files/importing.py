"""The import of a campaign's file: campaign, prizes, games, quests and boards in one transaction, all of them or none.

What is there of the file's names is changed where it differs, the rest is made, with the same checks and the same
entries in the audit log as one by one. The tenant's catalogue is held meanwhile, so nothing comes in between.
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
from runtime.operations.approvals.pending import Held
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import VIOLATIONS_MAX, search_pattern
from runtime.operations.files import wanted
from runtime.operations.files.kinds import BOARDS, CAMPAIGN, GAMES, PRIZES, QUESTS, Change, Found, Kind, join
from runtime.operations.games import game_admin as games
from runtime.operations.games.definitions import game_from_row, prizes_named
from runtime.operations.idempotent_writes import once
from runtime.operations.leaderboards import board_admin as boards
from runtime.operations.prizes import prize_admin as prizes
from runtime.operations.quests import quest_admin
from runtime.wire import codec
from runtime.wire.scope import merchant_of, tenant_of

_LISTS: Final = {kind: sql.load(kind.section)["list"] for kind in wanted.KINDS}
_GET_CAMPAIGN: Final = sql.load("campaigns")["get"]
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

_FROM_ROW: Final[dict[Kind, Callable[[Any], Any]]] = {
    PRIZES: prizes.from_row,
    GAMES: game_from_row,
    QUESTS: quest_admin.quest_from_row,
    BOARDS: boards.board_from_row,
}

_Shown = dict[str, Any]
"""A resource as the service shows it."""


async def import_campaign(engine: Engine, request: m.ImportCampaignRequest) -> m.ImportCampaignReply:
    """Makes all that a campaign's file has, or with `into` makes that campaign so; all of it, or nothing.

    INVALID_ARGUMENT names all that is wrong by its path in the file. Any other refusal of a part says in its message
    which part it is of. FAILED_PRECONDITION ODDS_NEED_APPROVAL where a DUAL_* setting has a part wait for a second
    person, since the rest would not wait; the games of a new campaign are launched with it, and do so only for how
    much a play gives.
    """
    tenant_id = tenant_of(request)
    if not request.file:
        raise invalid("file", "is required")
    changes, found = wanted.read(request.file)
    if found:
        raise violations(found[:VIOLATIONS_MAX])
    begun: list[_Import] = []

    async def work(connection: asyncpg.Connection) -> m.ImportCampaignReply:
        version = await connection.fetchval(_RAISE_VERSION, tenant_id)
        if version is None:
            raise unknown("tenant", tenant_id)
        begun.append(_Import(engine, connection, request, version))
        return await begun[-1].everything([change.anew() for change in changes])

    done = await once(engine, request, m.ImportCampaignReply, work)
    if not done.repeated:
        await begun[-1].told()
    reply: m.ImportCampaignReply = done.reply
    return reply


class _Import:
    """One import, within a transaction. boards: what is to be done with their rankings once it is committed."""

    def __init__(
        self, engine: Engine, connection: asyncpg.Connection, request: m.ImportCampaignRequest, version: int
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._request = request
        self._version = version
        self._campaign_id = request.into
        self._ids: wanted.Names = {"prizes": {}, "games": {}}
        self._forgotten: list[str] = []
        self._rebuilt: list[str] = []
        self._steps: Final[dict[Kind, Callable[[Change, Any, list[str]], Awaitable[str]]]] = {
            CAMPAIGN: self._campaign,
            PRIZES: self._prize,
            GAMES: self._game,
            QUESTS: self._quest,
            BOARDS: self._board,
        }

    async def everything(self, changes: list[Change]) -> m.ImportCampaignReply:
        """Does what the file wants, in the order of making."""
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

    async def told(self) -> None:
        """After the commit: what stands on the catalogue hears of it."""
        tenant_id, rankings = tenant_of(self._request), self._engine.rankings
        self._engine.catalog_changed(tenant_id, self._version)
        for board_id in self._forgotten:
            await rankings.forget(tenant_id, board_id)
        for board_id in self._rebuilt:
            rankings.rebuild_soon(tenant_id, board_id)

    # -- what is there ---------------------------------------------------------------------------

    async def _compare(self, changes: list[Change]) -> None:
        """Finds of each what is there, and what differs. INVALID_ARGUMENT with all that would be refused of it."""
        found: Found = []
        names: wanted.Names = {}
        there: dict[Kind, list[_Shown]] = {kind: [] for kind in wanted.KINDS}
        if self._request.into:
            changes[0].current = await self._campaign_there()
            there = {kind: await self._list(kind, campaign_id=self._request.into) for kind in wanted.KINDS}
            there[PRIZES] += await self._prizes_beside(there)
            names = {kind.section: {one["id"]: one["name"] for one in there[kind]} for kind in (PRIZES, GAMES)}
        for change in changes:
            if change.kind is not CAMPAIGN:
                items = await self._list(PRIZES, q=change.name) if change.shared else there[change.kind]
                change.current = wanted.matched(change, items, found)
            if change.current is not None:
                change.current = wanted.renamed(change.current, names)
            change.compare()
            wanted.check_state(change, found)
        if found:
            raise violations(found[:VIOLATIONS_MAX])

    async def _campaign_there(self) -> _Shown:
        row = await reading.to_write(self._connection, _GET_CAMPAIGN, self._request, "campaign", self._request.into)
        return codec.view(m.Campaign, "number")(campaigns.from_row(row))

    async def _list(self, kind: Kind, *, campaign_id: str = "", q: str = "") -> list[_Shown]:
        """All that are not archived, oldest first."""
        asked = {
            PRIZES: ("", campaign_id, ""),
            GAMES: ("", campaign_id, ""),
            QUESTS: (campaign_id, "", ""),
            BOARDS: (campaign_id, ""),
        }
        filters = (tenant_of(self._request), *asked[kind], search_pattern(q), merchant_of(self._request))
        rows = await self._connection.fetch(_LISTS[kind], *filters, None, None)
        show = codec.view(kind.message, "number")
        return [show(_FROM_ROW[kind](row)) for row in rows[::-1]]

    async def _prizes_beside(self, there: dict[Kind, list[_Shown]]) -> list[_Shown]:
        """The tenant's prizes that the campaign's games and boards name."""
        known = {prize["id"] for prize in there[PRIZES]}
        named = {prize["prize_id"] for board in there[BOARDS] for prize in board["prizes"]}
        for game in there[GAMES]:
            named |= {prize_id for _, prize_id in prizes_named(game)}
        made = []
        for prize_id in sorted(named - known - {""}):
            row = await self._connection.fetchrow(
                _GET_PRIZE, tenant_of(self._request), prize_id, merchant_of(self._request), False
            )
            if row is not None and not row["campaign_id"] and row["status"] != "archived":
                made.append(codec.view(m.Prize, "number")(prizes.from_row(row)))
        return made

    # -- what is done ----------------------------------------------------------------------------

    async def _apply(self, change: Change) -> str:
        """Makes one change so; the resource's id. A refusal names the part of the file."""
        if change.action == "keep" and change.current is not None:
            kept: str = change.current["id"]
            return kept
        body = wanted.renamed(change.sent(), self._ids)
        if change.current is None and change.kind is not CAMPAIGN and not change.shared:
            body["campaign_id"] = self._campaign_id
        try:
            made, _ = codec.read(change.kind.message, body)
            return await self._steps[change.kind](
                change, made, [name for name, value in body.items() if value is not None]
            )
        except Held:
            message = "it waits for a second person: ask for it by itself, and then import the rest"
            raise _of_part(Fault(Status.FAILED_PRECONDITION, "ODDS_NEED_APPROVAL", message), change.path) from None
        except Fault as fault:
            raise _of_part(fault, change.path) from None

    async def _campaign(self, change: Change, campaign: m.Campaign, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            asked = m.CreateCampaignRequest(scope=scope, campaign=campaign)
            made: str = (await campaigns.make(self._connection, asked))["id"]
            return made
        update = m.UpdateCampaignRequest(scope=scope, id=change.current["id"], campaign=campaign, update_mask=mask)
        _, withdrawn = await campaigns.alter(self._connection, update)
        self._forgotten += [board["board_id"] for board in withdrawn]
        return update.id

    async def _prize(self, change: Change, prize: m.Prize, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            asked = m.CreatePrizeRequest(scope=scope, prize=prize)
            # No file has a secret, and nobody would be told one that was made here.
            return (await prizes.make(self._engine, self._connection, asked, told=False)).id
        update = m.UpdatePrizeRequest(scope=scope, id=change.current["id"], prize=prize, update_mask=mask)
        return (await prizes.alter(self._engine, self._connection, update, told=False)).id

    async def _game(self, change: Change, game: m.Game, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            asked = m.CreateGameRequest(scope=scope, game=game)
            return (await games.make(self._engine, self._connection, asked, launches=not self._request.into)).id
        update = m.UpdateGameRequest(scope=scope, id=change.current["id"], game=game, update_mask=mask)
        return (await games.alter(self._engine, self._connection, update)).id

    async def _quest(self, change: Change, quest: m.Quest, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            asked = m.CreateQuestRequest(scope=scope, quest=quest)
            row, _ = await quest_admin.make(self._connection, asked, settings=self._engine.settings)
            made: str = row["id"]
            return made
        update = m.UpdateQuestRequest(scope=scope, id=change.current["id"], quest=quest, update_mask=mask)
        await quest_admin.alter(self._connection, update, settings=self._engine.settings)
        return update.id

    async def _board(self, change: Change, board: m.Leaderboard, mask: list[str]) -> str:
        scope = self._request.scope
        if change.current is None:
            asked = m.CreateLeaderboardRequest(scope=scope, leaderboard=board)
            made: str = (await boards.make(self._connection, asked))["id"]
            self._rebuilt.append(made)
            return made
        update = m.UpdateLeaderboardRequest(scope=scope, id=change.current["id"], leaderboard=board, update_mask=mask)
        if (await boards.alter(self._connection, update)).recount:
            self._forgotten.append(update.id)
            self._rebuilt.append(update.id)
        return update.id


def _of_part(fault: Fault, path: str) -> Fault:
    """The refusal of a part of the file, saying which."""
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
