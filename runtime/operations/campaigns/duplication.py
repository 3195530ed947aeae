"""Duplicates a campaign: a draft with its games, prizes, quests, boards, packs, draws and integrations.

Prizes are copied with full stock, prizes and packs without codes. The copied games and boards reference the copies.
Copied are the campaign's prizes, and referenced prizes that belong to no campaign. Another campaign's prize stays
shared. For a merchant's staff, so does a prize of no campaign: a copy would become the merchant's. Archived resources
and cancelled draws are skipped; all others keep their status, except that a finalized board or a closed draw is open
again and integrations are paused.

All dates move by the same number of whole days in the campaign's time zone (`shift_days` in the reply). If a start is
requested, they move to its day. Otherwise, if the original has begun, they move so that the copy begins at the next
same time of day. Missing dates stay missing, and a draw or board that would be past its end has none. Without a start,
dates move only once the original's end is past, by whole days since its creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import analytics
from runtime.operations.campaigns.campaign_admin import from_row
from runtime.operations.campaigns.messages import listen
from runtime.operations.checks import NAME_LENGTH_MAX, TIME_MAX, Checks
from runtime.operations.draws import randomness
from runtime.operations.games.definitions import prizes_named, with_prizes_replaced
from runtime.operations.packs.codes import SQL as PACKS
from runtime.operations.packs.codes import new_key, refuse_wallet
from runtime.operations.prizes import release
from runtime.outgoing.vault import VaultError, integration_context, prize_context, vault_of
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("campaigns")
_REVISE: Final = sql.load("games")["insert_revision"]
_GET_PRIZE: Final = sql.load("prizes")["get"]
_STORE_KEY: Final = PACKS["store_key"]
_DRAWS: Final = sql.load("draws")

DRAWS_MAX: Final = 1_000
"""The most draws that a copy contains, the newest."""


async def duplicate_campaign(engine: Engine, request: m.DuplicateCampaignRequest) -> m.DuplicateCampaignReply:
    """Copies a campaign, named `name` or the original's name with " (copy)". NOT_FOUND UNKNOWN_CAMPAIGN.

    All dates move by the whole days of `shift_days`: to the day of `start_date` if that is set, otherwise, if the
    original has begun, to the next same time of day. A missing start stays missing.

    INVALID_ARGUMENT if the copy, or a quest or leaderboard in it, would end before it begins, or if a release in it
    would have no open hours.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.times(request.start_date, request.end_date)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.DuplicateCampaignReply:
        original = await reading.for_update(connection, _SQL["get"], request, "campaign", request.id)
        later = days_later(dict(original), request.start_date, engine.clock.now())
        copy = _Copy(engine, connection, tenant_id, original, later, ids.make("camp"))
        await copy.copy_campaign(_name(request.name, original["name"]))
        await copy.copy_contents(request)
        if request.start_date or request.end_date:
            await connection.execute(_SQL["date"], tenant_id, copy.new_id, request.start_date, request.end_date)
        made = await connection.fetchrow(_SQL["get"], tenant_id, copy.new_id, "", False)
        assert made is not None
        checks.times(made["start_date"], made["end_date"])
        for row in await connection.fetch(_SQL["misdated"], tenant_id, copy.new_id, TIME_MAX):
            field = "end_date" if request.end_date else "start_date"
            would = "end before it begins" if row["inverted"] else "last past the year 9999"
            checks.problem(field, f"{row['kind']} {row['name']!r} would {would}")
        checks.raise_found()
        await connection.execute(_SQL["keep_boards_open"], tenant_id, copy.new_id)
        after = {**made, "copied_from": request.id, **copy.counts, "totals": copy.totals}
        await audit.record(connection, tenant_id, "campaign.duplicate", copy.new_id, after=after)
        return m.DuplicateCampaignReply(campaign=from_row(made), shift_days=later)

    return await catalog.create(engine, request, m.DuplicateCampaignReply, work)


def _replaced(prizes: list[dict[str, Any]], new_ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """The ranks' prizes, by their new ids."""
    return [{**prize, "prize_id": new_ids.get(prize["prize_id"], prize["prize_id"])} for prize in prizes]


def _name(wanted: str, original: str) -> str:
    return wanted.strip() or f"{original[: NAME_LENGTH_MAX - 7]} (copy)"


def days_later(original: Mapping[str, Any], wanted: int, now: float) -> int:
    """The local days by which the copy's dates move: to the `wanted` day in the original's zone. If `wanted` is 0, to
    the next time of day at which the original began, or was created if it has no start; 0 if its end is ahead.
    """
    begun: int = original["start_date"] or original["created_at"]
    if not wanted and not original["start_date"] and original["end_date"] > now:
        return 0
    zone = ZoneInfo(original["timezone"])
    there, here = (datetime.fromtimestamp(at, zone) for at in (begun, wanted or now))
    days = (here.date() - there.date()).days
    if wanted:
        return days
    return max(0, days + (here.time() > there.time()))


class _Copy:
    """One duplication, within a transaction. `counts` has the number of copied resources, `totals` the initial
    stock of the copied prizes, for the auditor.
    """

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
        self.totals: dict[str, int] = {}
        self._engine = engine
        self._connection = connection
        self._tenant_id = tenant_id
        self._old_id = original["id"]
        self._messages = original["messages"]
        self._later = (later, original["timezone"])

    async def copy_campaign(self, name: str) -> None:
        """Copies the campaign itself, as a draft."""
        await self._copy_dated("copy_campaign", self._old_id, campaign_id=self.new_id, name=name, status="draft")
        await analytics.begin(self._connection, self._tenant_id, self.new_id)
        await listen(self._connection, self._tenant_id, self.new_id, self._messages)

    async def copy_contents(self, request: Scoped) -> None:
        """Copies what belongs to the campaign.

        FORBIDDEN if a merchant's staff would copy a game, pack or draw of the tenant's wallet: the copy would let the
        merchant credit it.
        """
        merchant_id = merchant_of(request)
        games = await self._fetch("games_to_copy", self._old_id)
        if any(game["definition"]["wallet_scope"] == "tenant" for game in games):
            refuse_wallet(request, self._tenant_id)
        game_ids = {row["game_id"]: ids.make("game") for row in games}
        boards = await self._fetch("boards_to_copy", self._old_id, list(game_ids))
        quests = await self._fetch("quests_to_copy", self._old_id)
        named = {prize_id for game in games for _, prize_id in prizes_named(game["definition"])}
        found = await self._connection.fetch(_DRAWS["of_campaign"], self._tenant_id, self._old_id, DRAWS_MAX)
        draws = [draw for draw in found if draw["status"] != "cancelled"]
        packs = await self._fetch("packs_to_copy", self._old_id)
        refuse_wallet(request, *(one["scope_key"] for one in (*packs, *(draw["tickets"] for draw in draws))))
        named |= {prize["prize_id"] for one in (*boards, *draws) for prize in one["prizes"]}
        prize_ids = await self._prizes(sorted(named), merchant_id)
        for game in games:
            await self._game(game, game_ids[game["game_id"]], prize_ids)
        board_ids = {board["board_id"]: ids.make("board") for board in boards}
        for board in boards:
            await self._board(board, board_ids[board["board_id"]], game_ids, prize_ids)
        for quest in quests:
            await self._quest(quest, game_ids)
        for pack in packs:
            await self._pack(pack)
        for draw in draws:
            await self._draw(draw, board_ids, prize_ids)
        integrations = await self._fetch("integrations_to_copy", self._old_id)
        for integration in integrations:
            await self._integration(integration, ids.make("integration"))
        self.counts = {
            "games": len(games),
            "prizes": len(prize_ids),
            "quests": len(quests),
            "leaderboards": len(boards),
            "packs": len(packs),
            "draws": len(draws),
            "integrations": len(integrations),
        }

    async def _prizes(self, named: list[str], merchant_id: str) -> dict[str, str]:
        """Copies prizes. Returns new id by old id."""
        rows = await self._fetch("prizes_to_copy", self._old_id, named, merchant_id)
        new_ids = {row["prize_id"]: ids.make("prize") for row in rows}
        for old_id, new_id in new_ids.items():
            row = await self._connection.fetchrow(_GET_PRIZE, self._tenant_id, old_id, "", False)
            assert row is not None, "the transaction has locked the catalogue"
            fields: dict[str, Any] = {"prize_id": new_id, "campaign_id": self.new_id}
            fields["channel_config"] = self._config_of_copy(row, new_id)
            if row["release"] is not None:
                fields["release"] = release.moved(self._engine, self._tenant_id, new_id, row["release"], self._moved)
            await self._copy("copy_prize", old_id, **fields)
            await release.promise(self._connection, self._tenant_id, new_id, fields.get("release"))
            self.totals[new_id] = await self._connection.fetchval(_SQL["copy_stock"], self._tenant_id, old_id, new_id)
        return new_ids

    def _config_of_copy(self, prize: Any, new_id: str) -> dict[str, Any]:
        """The prize's channel config with its secrets re-encrypted, since a secret is bound to its prize."""
        contexts = (prize_context(self._tenant_id, prize["id"]), prize_context(self._tenant_id, new_id))
        return self._resealed(f"prize {prize['id']}", prize["channel_config"], *contexts)

    def _moved(self, at: int) -> int:
        """A time, later by the copy's days in the campaign's zone. INVALID_ARGUMENT if it has no valid date."""
        days, timezone = self._later
        zone = ZoneInfo(timezone)
        try:
            moved = int((datetime.fromtimestamp(at, zone) + timedelta(days=days)).timestamp())
        except OverflowError:
            moved = -1
        if not 0 <= moved <= TIME_MAX:
            raise invalid("start_date", "would move a date of the copy out of the years 1970 to 9999")
        return moved

    def _resealed(self, owner: str, config: Mapping[str, Any], context: str, to: str) -> dict[str, Any]:
        try:
            return vault_of(self._engine.keyring.code).moved(config, context, to)
        except VaultError as error:
            message = f"the receiver's secrets of {owner} cannot be copied: {error}"
            raise Fault(Status.FAILED_PRECONDITION, "SECRET_UNAVAILABLE", message) from None

    async def _game(self, game: Any, new_id: str, prize_ids: dict[str, str]) -> None:
        await self._copy("copy_game", game["game_id"], game_id=new_id, campaign_id=self.new_id)
        definition = with_prizes_replaced(game["definition"], prize_ids)
        dated = {name: at for name in ("start_date", "end_date") if (at := definition.get(name))}
        definition |= {name: self._moved(at) for name, at in dated.items()}
        await self._connection.execute(_REVISE, self._tenant_id, new_id, 1, definition)

    async def _board(self, board: Any, new_id: str, game_ids: dict[str, str], prize_ids: dict[str, str]) -> None:
        await self._copy_dated(
            "copy_board",
            board["board_id"],
            board_id=new_id,
            campaign_id=self.new_id,
            game_id=game_ids.get(board["game_id"], ""),
            prizes=_replaced(board["prizes"], prize_ids),
        )

    async def _quest(self, quest: Any, game_ids: dict[str, str]) -> None:
        # The secret is not copied: a holder of the original's secret must not be able to sign events of the copy.
        fields: dict[str, Any] = {"quest_id": ids.make("quest"), "campaign_id": self.new_id, "signing": {}}
        if (condition := quest["condition"]) is not None:
            # An archived game has no copy; the condition then covers the whole campaign.
            fields["condition"] = {**condition, "game_id": game_ids.get(condition["game_id"], "")}
        await self._copy_dated("copy_quest", quest["quest_id"], **fields)

    async def _pack(self, pack: Any) -> None:
        key = new_key(self._engine, self._tenant_id, self.new_id)
        await self._connection.execute(_STORE_KEY, self._tenant_id, self.new_id, key)
        own = pack["scope_key"] == self._old_id
        fields = {"pack_id": ids.make("pack"), "campaign_id": self.new_id}
        fields |= {"scope_key": self.new_id} if own else {}
        await self._copy_dated("copy_pack", pack["pack_id"], **fields)

    async def _draw(self, draw: Any, board_ids: dict[str, str], prize_ids: dict[str, str]) -> None:
        """Copies a draw as an open one, with a new seed or round."""
        tickets, kind, draw_id = draw["tickets"], draw["randomness"], ids.make("draw")
        scope_key = self.new_id if tickets["scope_key"] == self._old_id else tickets["scope_key"]
        ranking = board_ids.get(tickets["ranking"], tickets["ranking"])
        at = self._moved(kind["at"]) if kind["at"] else 0
        closes_at = self._moved(draw["closes_at"]) if draw["closes_at"] else 0
        terms = m.DrawRandomness(kind=kind["kind"], source=kind["source"], at=at)
        await self._connection.fetchval(
            _DRAWS["insert"],
            self._tenant_id,
            draw_id,
            self.new_id,
            draw["name"],
            {**tickets, "scope_key": scope_key, "ranking": ranking},
            _replaced(draw["prizes"], prize_ids),
            draw["alternates"],
            closes_at if closes_at > self._engine.clock.now() else 0,
            randomness.stored(self._engine, self._tenant_id, draw_id, terms),
            randomness.new_salt(),
            "",
        )

    async def _integration(self, integration: Any, new_id: str) -> None:
        """Copies an integration. Its secrets are encrypted again, because their context has its id."""
        old_id = integration["integration_id"]
        contexts = (integration_context(self._tenant_id, old_id), integration_context(self._tenant_id, new_id))
        config = self._resealed(f"integration {old_id}", integration["config"], *contexts)
        fields = {"integration_id": new_id, "campaign_id": self.new_id, "config": config}
        await self._copy("copy_integration", old_id, **fields)

    async def _copy_dated(self, statement: str, old_id: str, **fields: Any) -> None:
        await self._connection.execute(_SQL[statement], self._tenant_id, old_id, fields, *self._later)

    async def _copy(self, statement: str, old_id: str, **fields: Any) -> None:
        await self._connection.execute(_SQL[statement], self._tenant_id, old_id, fields)

    async def _fetch(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        return await self._connection.fetch(_SQL[statement], self._tenant_id, *args)
