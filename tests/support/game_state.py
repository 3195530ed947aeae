"""A game's state as its actor decides by it, made without an engine: of players, prizes and terms that a test names."""

from dataclasses import fields, replace
from datetime import date
from typing import Any, Final, cast

from runtime import messages as m
from runtime.actors.game.pending import PendingRequest
from runtime.actors.game.sessions import Session, issue
from runtime.actors.game.snapshot import read_rules
from runtime.actors.game.state import GameSnapshot, GameState, PlayerState, PrizeTerms, StaleRead, StockState
from runtime.actors.mailbox import Work
from runtime.errors import Fault
from runtime.settings import Key
from runtime.stores.clock import Days

NOW: Final = 1_790_000_000.0
TODAY: Final = date(2026, 9, 21)
ROUND: Final = 3
HASH: Final = "a" * 64
KEYS: Final = (Key("k1", b"k" * 32),)
GUEST: Final = "guest_01m85efpat00dkdjb2mbsyywrp"

NOBODY: Final = {"anonymous": True, "newcomer": True}

WHEEL: Final = {
    "seed_generator": "none",
    "reward_handler": "probability",
    "validator": "basic",
    "handler_config": {"prizes": [{"prize_id": "mug", "probability": 1.0}]},
}
COINS: Final = {
    **WHEEL,
    "reward_handler": "lucky_item",
    "handler_config": {"items": [{"item": "coin", "weight": 1, "quantity": 2, "slot_index": 3}]},
}


def mug(**named: Any) -> PrizeTerms:
    made = PrizeTerms("mug", "Mug", "goods", 0, 0, 0, "on_win", "none", instant=True, expires_after_days=0, active=True)
    return replace(made, **named)


def game(definition: dict[str, Any] = WHEEL, **named: Any) -> GameSnapshot:
    rules, rule = read_rules(definition)
    dates = ("start_date", "end_date", "redeem_until", "opens_at", "closes_at")
    zero = (*dates, "max_plays_per_user", "max_plays_per_day")
    no = ("shows_plan", "requires_turn", "admits_guests", "verify_timing", "spends", "auto_grant")
    known: dict[str, Any] = dict.fromkeys(zero, 0) | dict.fromkeys(no, False)
    known |= {"tenant_id": "t", "game_id": "g", "version": 7, "revision": 1, "revision_hash": HASH, "status": "active"}
    known |= {"access": "player", "campaign_id": "camp", "merchant_id": "shop", "suspended": "", "scope_key": "camp"}
    known |= {"campaign_status": "active", "days": Days("UTC"), "rules": rules, "game": rule, "rungs": ()}
    known |= {"prizes": {"mug": mug()}, "played": True, "entry": None}
    assert known.keys() == {field.name for field in fields(GameSnapshot)}
    return GameSnapshot(**{**known, **named})


def ann(name: str = "ann", *, read_in: int = ROUND, **named: Any) -> PlayerState:
    known: dict[str, Any] = {"plays": 0, "day_plays": 0, "turns": 0, "suspended": False, "prizes": {}, "balances": {}}
    return PlayerState(name, **{**known, "grants": {}, **named}, read_in=read_in)


def stock(remaining: int | None = None, day_awarded: int = 0, codes: int = 0, *, read_in: int = ROUND) -> StockState:
    return StockState(remaining, day_awarded, codes, read_in)


def state_of(
    *players: PlayerState, snapshot: GameSnapshot | None = None, stocks: dict[str, StockState] | None = None, **own: Any
) -> GameState:
    of = {"snapshot": snapshot or game(), "stock": {"mug": stock()} if stocks is None else stocks}
    of |= {"players": {player.player_id: player for player in players or (ann(),)}, "under_way": (), "compared": True}
    of |= {"day": TODAY, "resets_at": 99, "now": NOW, "round": ROUND, "keys": KEYS, "session_seconds": 100}
    return GameState(**{**of, **own})


def session(player_id: str = "ann", *, revision: str = HASH, ordinal: int = -1, age_seconds: float = 0) -> Session:
    return issue(KEYS, "t", "g", player_id, NOW - age_seconds, revision, ordinal=ordinal)


def pending(request: Any, player_id: str = "ann", **named: Any) -> PendingRequest:
    return PendingRequest(Work(request, cast(Any, None)), request, player_id, **named)


def play_of(opened: Session | None = None, **named: Any) -> PendingRequest:
    opened = opened or session()
    return pending(m.PlayRequest(**named), opened.player_id, session=opened)


def refusal_of(rule: Any, *args: Any, **named: Any) -> str:
    """The reason that a rule refuses by; STALE where it wants a fresh read; empty where it does not refuse."""
    try:
        rule(*args, **named)
    except Fault as fault:
        return fault.reason
    except StaleRead:
        return "STALE"
    return ""
