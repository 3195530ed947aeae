"""What a player's balances and rungs must be: sequential models, and the history as operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ops.history.checker import FOREVER, Op
from ops.history.reading import Done, Reading, closed

CURRENCIES = ("coin", "points")
EXCHANGE = "exchange"
"""The game whose rungs are bought."""

Step = Callable[[Any], Iterable[Any]]


def balances(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each player's balance of each currency."""
    rows = {(row["player_id"], row["currency"]): row["balance"] for row in reading.tables["balances"]}
    revokes = {asked.of: asked for asked in reading.history.of("RevokeReward") if asked.ok or asked.unknown}
    for player in reading.players:
        for currency in CURRENCIES:
            ops = [
                *_plays(reading, player, currency),
                *_adjustments(reading, player, currency),
                *(_redeems(reading, player) if currency == "coin" else ()),
                *_refunds(reading, player, currency, revokes),
                *_looks(reading, player, currency),
            ]
            if ops:
                end = rows.get((player, currency), 0)
                yield f"the {currency}s of {player}", closed(ops, _sees(end), str(end)), 0


def _plays(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    for done in reading.plays.get(player, ()):
        amount = credited(done, currency)
        after = next((one["balance"] for one in done.outcome["balances"] if one["currency"] == currency), None)
        if amount or after is not None:
            told = f"{done.row['play_id']} gives {amount}, so {after}"
            yield Op(done.began, done.ended, _moves(amount, after), told)


def credited(done: Done, currency: str) -> int:
    """What a play gives of a currency, by what it won."""
    amount = 0
    for reward in done.outcome["rewards"]:
        if reward.get("type") == "points" and currency == "points":
            amount += int(reward["value"]) * reward["quantity"]
        if reward.get("type") == "item" and reward["name"] == currency:
            amount += reward["quantity"]
    return amount


def _adjustments(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    noted = {row["reference_id"]: row for row in reading.tables["ledger_entries"] if row["player_id"] == player}
    for asked in reading.of(player, "AdjustBalance"):
        body = asked.body or {}
        if body["currency"] != currency:
            continue
        if asked.ok or body["reference_id"] in noted:
            after = asked.data["balance_after"] if asked.ok else None
            told = f"staff adjust by {body['amount']}, so {after} (#{asked.number})"
            yield Op(asked.began, asked.ended, _moves(body["amount"], after), told)
    for asked, attempt in reading.refused(player, "AdjustBalance"):
        body = asked.body or {}
        if body["currency"] == currency and attempt.reason == "INSUFFICIENT_BALANCE":
            told = f"staff cannot adjust by {body['amount']} (#{asked.number})"
            yield Op(attempt.began, attempt.ended, _less(-body["amount"]), told)


def _redeems(reading: Reading, player: str) -> Iterator[Op[Any]]:
    told_of = set()
    thresholds = reading.terms.thresholds
    for asked in reading.of(player, "Redeem"):
        threshold = thresholds[(asked.body or {})["milestone_id"]]
        if asked.ok:
            price = _price(asked.of, threshold)
            after = next((one["balance"] for one in asked.data["balances"] if one["currency"] == "coin"), None)
            told_of.add(asked.data["reward"]["id"])
            told = f"redeems for {price}, so {after} (#{asked.number})"
            yield Op(asked.began, asked.ended, _pays(threshold, price, after), told)
        for attempt in asked.attempts:
            if attempt.reason == "THRESHOLD_NOT_REACHED":
                yield Op(attempt.began, attempt.ended, _less(threshold), f"has less than {threshold} (#{asked.number})")
    for row in reading.tables["milestone_grants"]:
        game, rung = reading.name_of(row["game_id"]), row["milestone_id"]
        if row["player_id"] == player and game == EXCHANGE and row["reward_id"] not in told_of:
            mine = [one for one in reading.of(player, "Redeem") if (one.body or {})["milestone_id"] == rung]
            began = min((one.began for one in mine), default=0.0)
            yield Op(began, FOREVER, _pays(thresholds[rung], thresholds[rung], None), f"redeems {rung} untold")


def _price(game: str, threshold: int) -> int:
    """What a rung takes: where it is exchanged, its threshold; else nothing."""
    return threshold if game == EXCHANGE else 0


def _refunds(reading: Reading, player: str, currency: str, revokes: dict[str, Any]) -> Iterator[Op[Any]]:
    """What a revoke moved back."""
    for row in reading.tables["ledger_entries"]:
        if row["player_id"] == player and row["currency"] == currency and row["reason"] == "reversal":
            asked = revokes.get(row["reward_id"])
            began, ended = (asked.began, asked.ended) if asked is not None else (0.0, FOREVER)
            yield Op(began, ended, _shifts(row["amount"]), f"the revoke of {row['reward_id']} moves {row['amount']}")


def _looks(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    for asked in reading.of(player, "ListBalances"):
        if asked.ok:
            items = [one for one in asked.data["items"] if one["currency"] == currency]
            seen = next((one["balance"] for one in items if one["scope_key"] == reading.terms.campaign), 0)
            yield Op(asked.began, asked.ended, _sees(seen), f"sees {seen} (#{asked.number})")


def rungs(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Whether each player has each rung of a game: it is granted once, and stays."""
    granted = {
        (row["player_id"], reading.name_of(row["game_id"]), row["milestone_id"])
        for row in reading.tables["milestone_grants"]
    }
    for player in reading.players:
        for game in ("unlock", EXCHANGE):
            for rung in reading.terms.thresholds:
                ops = list(_rung(reading, player, game, rung))
                if ops:
                    end = (player, game, rung) in granted
                    yield f"the rung {rung} of {game} of {player}", closed(ops, _sees(end), str(end)), False


def _rung(reading: Reading, player: str, game: str, rung: str) -> Iterator[Op[Any]]:
    for done in reading.plays.get(player, ()) if game == "unlock" else ():
        crossed = {one["id"] for one in done.outcome["milestones_granted"]}
        if reading.name_of(done.row["game_id"]) == game and rung in crossed:
            yield Op(done.began, done.ended, _gets, f"{done.row['play_id']} crosses it")
    for asked in reading.of(player, "Redeem"):
        if asked.of == game and (asked.body or {})["milestone_id"] == rung:
            if asked.ok:
                yield Op(asked.began, asked.ended, _gets, f"redeems it (#{asked.number})")
            elif asked.unknown:
                yield Op(asked.began, FOREVER, _gets, f"perhaps redeems it (#{asked.number})", optional=True)
            for attempt in asked.attempts:
                if attempt.reason == "ALREADY_GRANTED":
                    yield Op(
                        attempt.began, attempt.ended, _sees(True), f"is told that it was granted (#{asked.number})"
                    )
    for asked in reading.of(player, "ListMilestones"):
        if asked.of == game and asked.ok:
            seen = any(one["id"] == rung and one["granted_at"] for one in asked.data["items"])
            yield Op(
                asked.began, asked.ended, _sees(seen), f"sees it {'granted' if seen else 'open'} (#{asked.number})"
            )


# -- what each does ----------------------------------------------------------------------------


def _moves(amount: int, after: int | None) -> Step:
    return lambda state: [state + amount] if state + amount >= 0 and after in (None, state + amount) else []


def _shifts(amount: int) -> Step:
    return lambda state: [state + amount]


def _pays(threshold: int, price: int, after: int | None) -> Step:
    return lambda state: [state - price] if state >= threshold and after in (None, state - price) else []


def _less(amount: int) -> Step:
    return lambda state: [state] if state < amount else []


def _sees(value: Any) -> Step:
    return lambda state: [state] if state == value else []


def _gets(state: Any) -> list[bool]:
    return [] if state else [True]
