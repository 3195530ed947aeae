"""A campaign copied: a draft with its games, prizes, quests, boards and integrations.

Prizes are copied with full stock and without codes; the copies are named wherever the games and boards
named the originals. Copied are the campaign's own prizes, and those that its games and boards name and
that belong to no campaign; another campaign's prize stays shared, and so does one of no campaign where a merchant's
staff asks, whose own it would become. What is archived is left behind; everything else keeps its status, and a
finalized board is open again.

Where the original has begun, the copy and all that is dated in it is moved by whole days of its time zone, so that it
begins at the next such hour; where a start is asked for, to the day of that. What began or ended with the campaign does
so still, and what is redeemed after the end is for as long. What has no date gets none: an original without a start has
a copy without one, whose other dates stay while the original's end is ahead; else they move by whole days since it was
made. The answer says by how many days (`shift_days`). Its own integrations come along, paused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, forbidden, invalid
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import analytics
from runtime.operations.campaigns.campaign_admin import from_row
from runtime.operations.checks import NAME_LENGTH_MAX, Checks
from runtime.operations.games.definitions import prizes_named, with_prizes_replaced
from runtime.outgoing.vault import VaultError, integration_context, prize_context, vault_of
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("campaigns")
_REVISE: Final = sql.load("games")["insert_revision"]
_GET_PRIZE: Final = sql.load("prizes")["get"]


async def duplicate_campaign(engine: Engine, request: m.DuplicateCampaignRequest) -> m.DuplicateCampaignReply:
    """The copy, named `name` or the original's name with " (copy)". NOT_FOUND UNKNOWN_CAMPAIGN.

    Where the original has begun and no start is given, the copy begins at the next such hour: all dates in it move by
    the whole days of `shift_days`. With a `start_date` they move to the day of that. No start stays no start.

    INVALID_ARGUMENT where it, or a quest or leaderboard in it, would end before it begins, by the dates that are asked
    for or the original's moved ones.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.times(request.start_date, request.end_date)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.DuplicateCampaignReply:
        original = await reading.to_write(connection, _SQL["get"], request, "campaign", request.id)
        later = _days_later(original, request.start_date, engine.clock.now())
        copy = _Copy(engine, connection, tenant_id, original, later, ids.make("camp"))
        await copy.campaign(_name(request.name, original["name"]))
        await copy.everything(merchant_of(request))
        if request.start_date or request.end_date:
            await connection.execute(_SQL["date"], tenant_id, copy.new_id, request.start_date, request.end_date)
        made = await connection.fetchrow(_SQL["get"], tenant_id, copy.new_id, "", False)
        assert made is not None
        checks.times(made["start_date"], made["end_date"])
        for row in await connection.fetch(_SQL["inverted"], tenant_id, copy.new_id):
            field = "end_date" if request.end_date else "start_date"
            checks.problem(field, f"{row['kind']} {row['name']!r} would end before it begins")
        checks.raise_found()
        after = {**made, "copied_from": request.id, **copy.counts}
        await audit.record(connection, tenant_id, "campaign.duplicate", copy.new_id, after=after)
        return m.DuplicateCampaignReply(campaign=from_row(made), shift_days=later)

    return await catalog.create(engine, request, m.DuplicateCampaignReply, work)


def _name(wanted: str, original: str) -> str:
    return wanted.strip() or f"{original[: NAME_LENGTH_MAX - 7]} (copy)"


def _days_later(original: asyncpg.Record, wanted: int, now: float) -> int:
    """By how many days the copy is moved: to the day that is wanted, in the original's zone; else (0) to the next hour
    that the original began at, or was made at where it has no start, unless its end is ahead.
    """
    begun: int = original["start_date"] or original["created_at"]
    if not wanted:
        if not original["start_date"] and original["end_date"] > now:
            return 0
        return max(0, math.ceil((now - begun) / 86_400))
    zone = ZoneInfo(original["timezone"])
    try:
        there, here = (datetime.fromtimestamp(at, zone).date() for at in (begun, wanted))
    except (OverflowError, ValueError):
        raise invalid("start_date", "is too far away") from None
    return (here - there).days


class _Copy:
    """One copying, within a transaction. `counts` says how much was copied."""

    def __init__(
        self,
        engine: Engine,
        connection: asyncpg.Connection,
        tenant_id: str,
        original: asyncpg.Record,
        later: int,
        new_id: str,
    ) -> None:
        self.new_id = new_id
        self.counts: dict[str, int] = {}
        self._engine = engine
        self._connection = connection
        self._tenant_id = tenant_id
        self._old_id = original["id"]
        self._later = (later, original["timezone"])

    async def campaign(self, name: str) -> None:
        """The campaign itself, a draft."""
        await self._copy_dated("copy_campaign", self._old_id, campaign_id=self.new_id, name=name, status="draft")
        await analytics.begin(self._connection, self._tenant_id, self.new_id)

    async def everything(self, merchant_id: str) -> None:
        """All that belongs to it, for this merchant's staff ("" the tenant's own)."""
        games = await self._fetch("games_to_copy", self._old_id)
        if merchant_id and any(game["definition"]["wallet_scope"] == "tenant" for game in games):
            raise forbidden("wallet", self._tenant_id)  # Which its staff would have credited once more.
        game_ids = {row["game_id"]: ids.make("game") for row in games}
        boards = await self._fetch("boards_to_copy", self._old_id, list(game_ids))
        quests = await self._fetch("quests_to_copy", self._old_id)
        named = {prize_id for game in games for _, prize_id in prizes_named(game["definition"])}
        named |= {prize["prize_id"] for board in boards for prize in board["prizes"]}
        prize_ids = await self._prizes(sorted(named), merchant_id)
        for game in games:
            await self._game(game, game_ids[game["game_id"]], prize_ids)
        for board in boards:
            await self._board(board, game_ids, prize_ids)
        for quest in quests:
            await self._quest(quest, game_ids)
        integrations = await self._fetch("integrations_to_copy", self._old_id)
        for integration in integrations:
            await self._integration(integration, ids.make("integration"))
        self.counts = {
            "games": len(games),
            "prizes": len(prize_ids),
            "quests": len(quests),
            "leaderboards": len(boards),
            "integrations": len(integrations),
        }

    async def _prizes(self, named: list[str], merchant_id: str) -> dict[str, str]:
        """Copies the prizes that go along; new id by old id."""
        rows = await self._fetch("prizes_to_copy", self._old_id, named, merchant_id)
        new_ids = {row["prize_id"]: ids.make("prize") for row in rows}
        for old_id, new_id in new_ids.items():
            config = await self._config_of_copy(old_id, new_id)
            await self._copy("copy_prize", old_id, prize_id=new_id, campaign_id=self.new_id, channel_config=config)
            await self._connection.execute(_SQL["copy_stock"], self._tenant_id, old_id, new_id)
        return new_ids

    async def _config_of_copy(self, old_id: str, new_id: str) -> dict[str, Any]:
        """The prize's channel config, its secrets sealed anew: what is sealed for one prize opens for no other."""
        row = await self._connection.fetchrow(_GET_PRIZE, self._tenant_id, old_id, "", False)
        config: dict[str, Any] = dict(row["channel_config"]) if row else {}
        contexts = (prize_context(self._tenant_id, old_id), prize_context(self._tenant_id, new_id))
        return self._sealed_anew(f"prize {old_id}", config, *contexts)

    def _sealed_anew(self, whose: str, config: Mapping[str, Any], context: str, to: str) -> dict[str, Any]:
        try:
            return vault_of(self._engine.keyring.code).moved(config, context, to)
        except VaultError as error:
            message = f"what is sealed of the receiver of {whose} cannot be copied: {error}"
            raise Fault(Status.FAILED_PRECONDITION, "SECRET_UNAVAILABLE", message) from None

    async def _game(self, game: Any, new_id: str, prize_ids: dict[str, str]) -> None:
        await self._copy("copy_game", game["game_id"], game_id=new_id, campaign_id=self.new_id)
        definition = with_prizes_replaced(game["definition"], prize_ids)
        await self._connection.execute(_REVISE, self._tenant_id, new_id, 1, definition)

    async def _board(self, board: Any, game_ids: dict[str, str], prize_ids: dict[str, str]) -> None:
        prizes = [
            {**prize, "prize_id": prize_ids.get(prize["prize_id"], prize["prize_id"])} for prize in board["prizes"]
        ]
        await self._copy_dated(
            "copy_board",
            board["board_id"],
            board_id=ids.make("board"),
            campaign_id=self.new_id,
            game_id=game_ids.get(board["game_id"], ""),
            prizes=prizes,
        )

    async def _quest(self, quest: Any, game_ids: dict[str, str]) -> None:
        # No secret goes along: who knows the one of the original is not to be believed of the copy.
        fields: dict[str, Any] = {"quest_id": ids.make("quest"), "campaign_id": self.new_id, "signing": {}}
        if (condition := quest["condition"]) is not None:
            # A game that was archived has no copy: the whole campaign's count then.
            fields["condition"] = {**condition, "game_id": game_ids.get(condition["game_id"], "")}
        await self._copy_dated("copy_quest", quest["quest_id"], **fields)

    async def _integration(self, integration: Any, new_id: str) -> None:
        old_id = integration["integration_id"]
        contexts = (integration_context(self._tenant_id, old_id), integration_context(self._tenant_id, new_id))
        config = self._sealed_anew(f"integration {old_id}", integration["config"], *contexts)
        fields = {"integration_id": new_id, "campaign_id": self.new_id, "config": config}
        await self._copy("copy_integration", old_id, **fields)

    async def _copy_dated(self, statement: str, old_id: str, **fields: Any) -> None:
        await self._connection.execute(_SQL[statement], self._tenant_id, old_id, fields, *self._later)

    async def _copy(self, statement: str, old_id: str, **fields: Any) -> None:
        await self._connection.execute(_SQL[statement], self._tenant_id, old_id, fields)

    async def _fetch(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        return await self._connection.fetch(_SQL[statement], self._tenant_id, *args)
