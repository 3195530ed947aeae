"""What the play actor knows of a game: its rules, prizes and campaign, as of one catalogue version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import sql
from runtime.actors.game.terms import hash_terms, write_terms
from runtime.errors import Fault, Status, suspended, unknown
from runtime.outgoing.channels import CHANNELS
from runtime.rules import GameRule, Rules, compose
from runtime.stores.clock import Days
from runtime.stores.database import Database

QUERIES: Final = sql.load("play")
POINTS: Final = "points"
"""The prize type that credits this currency instead of being taken from stock (design.md, section 3)."""
TURNS: Final = "turns"
"""The prize type that gives turns of the campaign it is won in, as a reward that is delivered by the win's commit."""


@dataclass(frozen=True, slots=True)
class PrizeTerms:
    """A prize as a decision sees it. points, turns: what one unit credits, 0 for a prize of another type."""

    prize_id: str
    name: str
    type: str
    value: float
    max_per_user: int
    max_per_day: int
    redemption_mode: str
    channel: str
    instant: bool
    expires_after_days: int
    active: bool

    @property
    def points(self) -> int:
        return int(self.value) if self.type == POINTS else 0

    @property
    def turns(self) -> int:
        return int(self.value) if self.type == TURNS else 0

    @property
    def is_points(self) -> bool:
        return self.type == POINTS

    @property
    def takes_code(self) -> bool:
        """True where a unit needs a voucher code; it is taken at the win, whenever it is shown."""
        return self.channel == "voucher_code" and not self.is_points

    @property
    def due_at_win(self) -> bool:
        """True where the delivery of a reward falls due as it is won."""
        return self.redemption_mode == "on_win" and self.channel != "manual"

    @property
    def delivered_at_win(self) -> bool:
        """True where a reward is delivered by the commit of its win."""
        return self.instant and self.due_at_win


@dataclass(frozen=True, slots=True)
class RungTerms:
    """One rung of the milestones block, as a decision sees it."""

    id: str
    name: str
    currency: str
    threshold: int
    prize_id: str


@dataclass(slots=True)
class GameSnapshot:
    """A game as it was at one version of the catalogue: its rules, prizes and campaign, ready to decide by.

    revision_hash: of its terms (terms.py). shows_plan: whether a start shows what a play depends on.
    played: whether it is known to have a history, so that whose wallets it moves stays as it is.
    """

    tenant_id: str
    game_id: str
    version: int
    revision: int
    revision_hash: str
    shows_plan: bool
    status: str
    access: str
    campaign_id: str
    merchant_id: str
    suspended: str
    campaign_status: str
    start_date: int
    end_date: int
    redeem_until: int
    days: Days
    rules: Rules
    game: GameRule
    max_plays_per_user: int
    max_plays_per_day: int
    requires_turn: bool
    admits_guests: bool
    scope_key: str
    spends: bool
    auto_grant: bool
    rungs: tuple[RungTerms, ...]
    prizes: dict[str, PrizeTerms]
    played: bool

    @property
    def shown(self) -> bool:
        """Whether the public knows of the game, as games.sql's `on_show` has it (contract.md, "Campaign life")."""
        return self.status in ("active", "paused") and self.campaign_status != "draft"

    def refuse_unless_open(self, now: float) -> None:
        """PERMISSION_DENIED SUSPENDED; FAILED_PRECONDITION GAME_INACTIVE or CAMPAIGN_CLOSED."""
        self._refuse_unless_active()
        if self.campaign_status != "active":
            raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign is not active")
        if now < self.start_date:
            raise Fault(
                Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign has not begun", opens_at=self.start_date
            )
        if self.end_date and now >= self.end_date:
            raise Fault(
                Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign has ended", closed_at=self.end_date
            )

    def refuse_unless_redeemable(self, now: float) -> None:
        """As `refuse_unless_open`; but after the campaign's end, what was earned is redeemed until `redeem_until`."""
        if not self._has_ended(now):
            self.refuse_unless_open(now)
            return
        self._refuse_unless_active()
        if now >= self.redeem_until:
            # By the hand of staff it may have ended before its date: when, nothing says.
            dated = self.redeem_until or (self.end_date if now >= self.end_date else 0)
            when = f" at {datetime.fromtimestamp(dated, UTC).isoformat()}" if dated else ", with the campaign"
            facts = {"closed_at": dated} if dated else {}
            raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", f"redeeming has ended{when}", **facts)

    def _refuse_unless_active(self) -> None:
        if self.suspended:
            raise suspended(self.suspended)
        if self.status != "active":
            what = "paused" if self.status == "paused" else "closed"  # What staff make of it is no player's business.
            raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", f"this game is {what}")

    def _has_ended(self, now: float) -> bool:
        """As schema.sql's campaign_status() has it."""
        dated = self.campaign_status in ("active", "paused") and 0 < self.end_date <= now
        return dated or self.campaign_status == "ended"

    def today(self, now: float) -> tuple[date, int]:
        """The campaign's local day, and the unix seconds at which it ends."""
        return self.days.at(now)


async def load_game(database: Database, tenant_id: str, game_id: str) -> GameSnapshot:
    """The game as it is now; where it may be started, its terms are kept from now on. NOT_FOUND UNKNOWN_GAME."""
    row = await database.fetchrow(QUERIES["snapshot"], tenant_id, game_id)
    if row is None:
        raise unknown("game", game_id)
    definition: dict[str, Any] = row["definition"]
    rules, game = read_rules(definition)
    milestones = definition.get("milestones") or {}
    rungs = tuple(
        RungTerms(rung["id"], rung.get("name", ""), rung["currency"], int(rung["threshold"]), rung["prize_id"])
        for rung in milestones.get("rungs", ())
    )
    drawn = {prize_id for _, prize_id in rules.reward_handler.prizes(rules.config)}
    if game.fallback_prize_id:
        drawn.add(game.fallback_prize_id)
    prizes = await load_prizes(database, tenant_id, drawn | {rung.prize_id for rung in rungs})
    limits = definition.get("rules") or {}
    terms = write_terms(game_id, definition, [prizes[prize_id] for prize_id in sorted(drawn & prizes.keys())])
    revision_hash, version = hash_terms(terms), row["catalog_version"]
    if revision_hash not in row["kept"] and row["status"] == row["campaign_status"] == "active":
        # Before any start can name them: what nobody could ever look at would be no promise.
        await database.execute(QUERIES["keep_terms"], tenant_id, revision_hash, game_id, terms, version)
    return GameSnapshot(
        tenant_id=tenant_id,
        game_id=game_id,
        version=version,
        revision=row["revision"],
        revision_hash=revision_hash,
        shows_plan=definition["seed_generator"] != "none",
        status=row["status"],
        access=definition.get("access") or "player",
        campaign_id=row["campaign_id"],
        merchant_id=row["merchant_id"],
        suspended=row["suspended"],
        campaign_status=row["campaign_status"],
        start_date=row["start_date"],
        end_date=row["end_date"],
        redeem_until=row["redeem_until"],
        days=Days(row["timezone"]),
        rules=rules,
        game=game,
        max_plays_per_user=limits.get("max_plays_per_user", 0),
        max_plays_per_day=limits.get("max_plays_per_day", 0),
        requires_turn=limits.get("requires_turn", False),
        admits_guests=limits.get("admits_guests", False),
        scope_key=scope_key_of(definition, tenant_id, row["merchant_id"], row["campaign_id"]),
        spends=milestones.get("mode") == "spend_exchange",
        auto_grant=bool(milestones.get("auto_grant")) and milestones.get("mode") != "spend_exchange",
        rungs=rungs,
        prizes=prizes,
        played=row["played"],
    )


async def load_prizes(database: Database, tenant_id: str, prize_ids: set[str]) -> dict[str, PrizeTerms]:
    """The prizes of these ids, by id; one that does not exist is missing."""
    if not prize_ids:
        return {}
    rows = await database.fetch(QUERIES["prizes"], tenant_id, sorted(prize_ids))
    return {row["prize_id"]: _prize_terms(row) for row in rows}


def read_rules(definition: Mapping[str, Any]) -> tuple[Rules, GameRule]:
    """The rules of a stored definition, and what a decision needs of the game beside them."""
    rules = compose(
        definition["seed_generator"],
        definition["reward_handler"],
        definition["validator"],
        definition.get("handler_config") or {},
    )
    return rules, GameRule(
        definition.get("on_unavailable") or "lose", definition.get("fallback_prize_id") or "", _segments(definition)
    )


def _segments(definition: Mapping[str, Any]) -> tuple[str | None, ...] | None:
    """prize_id of each entry of ui.wheel.segments; None where the opaque ui has none of that shape."""
    wheel = (definition.get("ui") or {}).get("wheel")
    segments = wheel.get("segments") if isinstance(wheel, dict) else None
    if not isinstance(segments, list) or not segments:
        return None
    return tuple((segment.get("prize_id") or None) if isinstance(segment, dict) else None for segment in segments)


def scope_key_of(definition: Mapping[str, Any], tenant_id: str, merchant_id: str, campaign_id: str) -> str:
    """spec.md, Wallet 2. A campaign without a merchant keeps its own scope where the merchant's is asked for."""
    match definition.get("wallet_scope"):
        case "tenant":
            return tenant_id
        case "merchant":
            return merchant_id or campaign_id
        case _:
            return campaign_id


def _prize_terms(row: Any) -> PrizeTerms:
    channel = CHANNELS.get(row["channel"])
    return PrizeTerms(
        prize_id=row["prize_id"],
        name=row["name"],
        type=row["type"],
        value=row["value"],
        max_per_user=row["max_per_user"],
        max_per_day=row["max_per_day"],
        redemption_mode=row["redemption_mode"],
        channel=row["channel"],
        instant=channel is not None and channel.instant,
        expires_after_days=row["expires_after_days"],
        active=row["status"] == "active",
    )
