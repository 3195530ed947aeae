"""A game's definition: its configured fields as stored in every revision.

    {"name", "type", "seed_generator", "reward_handler", "validator",
     "rules": {"max_plays_per_user", "max_plays_per_day", "requires_turn",
               "admits_guests", "verify_timing"},
     "handler_config": {...}, "ui": {...}, "wallet_scope": "campaign",
     "milestones": {"mode", "auto_grant", "rungs": [{"id", "name", "currency", "threshold", "prize_id"}]} or null,
     "access": "player", "on_unavailable": "lose", "fallback_prize_id": "", "start_date": 0, "end_date": 0}

Enums are stored tokens; every key is always present, except the dates in revisions of earlier versions. Status and
campaign are only in the games row.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any, TypeAlias

import structlog

from runtime import messages as m
from runtime.actors.game.snapshot import segments_of
from runtime.rules import REWARD_HANDLERS, Worth, winnable
from runtime.wire.enums import enum, token
from runtime.wire.schema import PATH_CHARACTERS_SHOWN

Definition: TypeAlias = dict[str, Any]

log = structlog.get_logger(__name__)


def definition_of(game: m.Game) -> Definition:
    rules = game.rules if game.rules is not None else m.GameRules()
    return {
        "name": game.name,
        "type": game.type,
        "seed_generator": game.seed_generator,
        "reward_handler": game.reward_handler,
        "validator": game.validator,
        "rules": {
            "max_plays_per_user": rules.max_plays_per_user,
            "max_plays_per_day": rules.max_plays_per_day,
            "requires_turn": rules.requires_turn,
            "admits_guests": rules.admits_guests,
            "verify_timing": rules.verify_timing,
        },
        "handler_config": game.handler_config or {},
        "ui": game.ui or {},
        "wallet_scope": token(game.wallet_scope),
        "milestones": None if game.milestones is None else _stored_milestones(game.milestones),
        "access": token(game.access),
        "on_unavailable": token(game.on_unavailable),
        "fallback_prize_id": game.fallback_prize_id,
        "start_date": game.start_date,
        "end_date": game.end_date,
    }


def game_from_row(row: Any) -> m.Game:
    stored: Definition = row["definition"]
    return m.Game(
        id=row["id"],
        name=stored["name"],
        type=stored["type"],
        campaign_id=row["campaign_id"],
        seed_generator=stored["seed_generator"],
        reward_handler=stored["reward_handler"],
        validator=stored["validator"],
        status=enum(m.GameStatus, row["status"]),
        rules=m.GameRules(**stored["rules"]),
        handler_config=stored["handler_config"],
        ui=stored["ui"],
        wallet_scope=enum(m.WalletScope, stored["wallet_scope"]),
        milestones=None if stored["milestones"] is None else _milestones(stored["milestones"]),
        access=enum(m.GameAccess, stored["access"]),
        on_unavailable=enum(m.OnUnavailable, stored["on_unavailable"]),
        fallback_prize_id=stored["fallback_prize_id"],
        start_date=stored.get("start_date", 0),
        end_date=stored.get("end_date", 0),
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def prizes_named(definition: Definition) -> list[tuple[str, str]]:
    """(path, prize_id) of every prize that a game can award: from its handler, fallback and rungs.

    If the handler cannot read its handler_config, that is searched for `prize_id` fields instead.
    """
    named = list(_prizes_of_handler(definition))
    if definition["fallback_prize_id"]:
        named.append(("fallback_prize_id", definition["fallback_prize_id"]))
    for index, rung in enumerate((definition["milestones"] or {}).get("rungs", ())):
        named.append((f"milestones.rungs[{index}].prize_id", rung["prize_id"]))
    return named


def prizes_drawn(definition: Definition) -> set[str]:
    """The prizes of the game's chances, without the consolation: the prize that it falls back to."""
    drawn = _winnable(definition)
    return drawn - {definition["fallback_prize_id"]} if definition["on_unavailable"] == "fallback" else drawn


def prizes_shown(definition: Definition) -> list[str]:
    """The prizes that players can get, in the order of `prizes_named`: those that a play may win, the fallback if the
    game falls back, and the rungs'."""
    drawn, falls_back = _winnable(definition), definition["on_unavailable"] == "fallback"
    shown = [
        prize_id
        for path, prize_id in prizes_named(definition)
        if prize_id in drawn or path.startswith("milestones.") or (path == "fallback_prize_id" and falls_back)
    ]
    return list(dict.fromkeys(shown))


def idle_segments(definition: Definition) -> list[tuple[str, str]]:
    """(path, problem) of each wheel segment that names a prize which the game cannot award."""
    segments, awarded = segments_of(definition) or (), {prize_id for _, prize_id in prizes_named(definition)}
    return [
        (f"ui.wheel.segments[{index}].prize_id", f"names {prize_id}, which the game cannot award")
        for index, prize_id in enumerate(segments)
        if prize_id and prize_id not in awarded
    ]


def currencies_credited(definition: Definition) -> frozenset[str]:
    """The currencies that the game's handler may credit; empty if its handler_config cannot be read."""
    handler = REWARD_HANDLERS.get(definition["reward_handler"])
    try:
        return frozenset(handler.currencies(handler.parse(definition["handler_config"]))) if handler else frozenset()
    except Exception:  # From another version of a plugin.
        return frozenset()


def max_worth_of_play(definition: Definition, worth: Worth) -> float:
    """The maximum that one play gives, measured by `worth`, if the game's handler has `most`.

    0 without `most` (then a play gives at most one unit of a prize), or if the handler_config cannot be read, since the
    game then cannot be played. Infinite if a plugin's `most` fails.
    """
    handler = REWARD_HANDLERS.get(definition["reward_handler"])
    if handler is None or not hasattr(handler, "most"):
        return 0.0
    try:
        config = handler.parse(definition["handler_config"])
    except Exception:  # From another version of a plugin.
        return 0.0
    try:
        return float(handler.most(config, worth))
    except Exception as error:
        log.error("most_unknown", reward_handler=definition["reward_handler"], exc_info=error)
        return inf


def with_prizes_replaced(definition: Definition, replacements: dict[str, str]) -> Definition:
    """A copy of the definition with prizes replaced in handler_config, rungs, fallback and the ui's segments."""
    return {
        **definition,
        "handler_config": _replaced(definition["handler_config"], replacements),
        "ui": _replaced(definition["ui"], replacements),
        "milestones": _replaced(definition["milestones"], replacements),
        "fallback_prize_id": replacements.get(definition["fallback_prize_id"], definition["fallback_prize_id"]),
    }


def _stored_milestones(milestones: m.Milestones) -> dict[str, Any]:
    return {
        "mode": token(milestones.mode, "cumulative_unlock"),
        "auto_grant": milestones.auto_grant,
        "rungs": [
            {
                "id": rung.id,
                "name": rung.name,
                "currency": rung.currency,
                "threshold": rung.threshold,
                "prize_id": rung.prize_id,
            }
            for rung in milestones.rungs
        ],
    }


def _milestones(stored: dict[str, Any]) -> m.Milestones:
    return m.Milestones(
        mode=enum(m.MilestoneMode, stored["mode"]),
        auto_grant=stored["auto_grant"],
        rungs=[m.Rung(**rung) for rung in stored["rungs"]],
    )


def _winnable(definition: Definition) -> set[str]:
    handler = REWARD_HANDLERS.get(definition["reward_handler"])
    try:
        if handler is not None:
            return winnable(handler, handler.parse(definition["handler_config"]))
    except Exception:  # From another version of a plugin.
        pass
    return {prize_id for _, prize_id in _prizes_of_handler(definition)}


def _prizes_of_handler(definition: Definition) -> Iterable[tuple[str, str]]:
    handler = REWARD_HANDLERS.get(definition["reward_handler"])
    if handler is not None:
        try:
            return list(handler.prizes(handler.parse(definition["handler_config"])))
        except Exception:
            pass
    return _prize_fields(definition["handler_config"], "handler_config")


def _prize_fields(value: Any, path: str) -> Iterable[tuple[str, str]]:
    path = path[:PATH_CHARACTERS_SHOWN]  # Long keys above thousands of prizes would make gigabytes of paths.
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "prize_id" and isinstance(item, str):
                if item:
                    yield f"{path}.prize_id", item
            else:
                yield from _prize_fields(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _prize_fields(item, f"{path}[{index}]")


def _replaced(value: Any, replacements: dict[str, str]) -> Any:
    """A copy with every `prize_id` field replaced according to `replacements`."""
    if isinstance(value, dict):
        return {
            key: replacements.get(item, item)
            if key == "prize_id" and isinstance(item, str)
            else _replaced(item, replacements)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_replaced(item, replacements) for item in value]
    return value
