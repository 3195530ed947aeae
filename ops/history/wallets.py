"""Sequential models of a player's balances and milestones, and the history as operations on them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ops.history.checker import FOREVER, Op
from ops.history.reading import Done, Reading, closed

CURRENCIES = ("coin", "points")
EXCHANGE = "exchange"
"""The game with milestones for sale."""

Step = Callable[[Any], Iterable[Any]]


def balances(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each player's balance of each currency."""
    rows = {(row["player_id"], row["currency"]): row["balance"] for row in reading.tables["balances"]}
    revokes = {request.of: request for request in reading.history.of("RevokeReward") if request.ok or request.unknown}
    for player in reading.players:
        for currency in CURRENCIES:
            ops = [
                *_plays(reading, player, currency),
                *_adjustments(reading, player, currency),
                *(_redeems(reading, player) if currency == "coin" else ()),
                *_refunds(reading, player, currency, revokes),
                *_reads(reading, player, currency),
            ]
            if ops:
                end = rows.get((player, currency), 0)
                yield f"the {currency}s of {player}", closed(ops, _sees(end), str(end)), 0


def _plays(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    for done in reading.plays.get(player, ()):
        amount = credited(done, currency)
        after = next((one["balance"] for one in done.outcome["balances"] if one["currency"] == currency), None)
        if amount or after is not None:
            label = f"{done.row['play_id']} gives {amount}, so {after}"
            yield Op(done.began, done.ended, _moves(amount, after), label)


def credited(done: Done, currency: str) -> int:
    """What a play credits in a currency, according to its rewards."""
    amount = 0
    for reward in done.outcome["rewards"]:
        if reward.get("type") == "points" and currency == "points":
            amount += int(reward["value"]) * reward["quantity"]
        if reward.get("type") == "item" and reward["name"] == currency:
            amount += reward["quantity"]
    return amount


def _adjustments(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    """Adjustments that were made, with a response or only in the ledger; and refusals, which bound the balance."""
    recorded = {row["reference_id"]: row for row in reading.tables["ledger_entries"] if row["player_id"] == player}
    for request in reading.of(player, "AdjustBalance"):
        body = request.body or {}
        if body["currency"] != currency:
            continue
        if request.ok or body["reference_id"] in recorded:
            after = request.data["balance_after"] if request.ok else None
            label = f"staff adjust by {body['amount']}, so {after} (#{request.number})"
            yield Op(request.began, request.ended, _moves(body["amount"], after), label)
    for request, attempt in reading.refused(player, "AdjustBalance"):
        body = request.body or {}
        if body["currency"] == currency and attempt.reason == "INSUFFICIENT_BALANCE":
            label = f"staff cannot adjust by {body['amount']} (#{request.number})"
            yield Op(attempt.began, attempt.ended, _less(-body["amount"]), label)


def _redeems(reading: Reading, player: str) -> Iterator[Op[Any]]:
    confirmed = set()
    thresholds = reading.terms.thresholds
    for request in reading.of(player, "Redeem"):
        threshold = thresholds[(request.body or {})["milestone_id"]]
        if request.ok:
            price = threshold if request.of == EXCHANGE else 0  # Elsewhere a milestone is not bought.
            after = next((one["balance"] for one in request.data["balances"] if one["currency"] == "coin"), None)
            confirmed.add(request.data["reward"]["id"])
            label = f"redeems for {price}, so {after} (#{request.number})"
            yield Op(request.began, request.ended, _pays(threshold, price, after), label)
        for attempt in request.attempts:
            if attempt.reason == "THRESHOLD_NOT_REACHED":
                yield Op(
                    attempt.began, attempt.ended, _less(threshold), f"has less than {threshold} (#{request.number})"
                )
    for row in reading.tables["milestone_grants"]:
        game, rung = reading.name_of(row["game_id"]), row["milestone_id"]
        if row["player_id"] == player and game == EXCHANGE and row["reward_id"] not in confirmed:
            mine = [one for one in reading.of(player, "Redeem") if (one.body or {})["milestone_id"] == rung]
            began = min((one.began for one in mine), default=0.0)
            yield Op(
                began, FOREVER, _pays(thresholds[rung], thresholds[rung], None), f"redeems {rung} without a response"
            )


def _refunds(reading: Reading, player: str, currency: str, revokes: dict[str, Any]) -> Iterator[Op[Any]]:
    """The movements that a revoke reversed."""
    for row in reading.tables["ledger_entries"]:
        if row["player_id"] == player and row["currency"] == currency and row["reason"] == "reversal":
            request = revokes.get(row["reward_id"])
            began, ended = (request.began, request.ended) if request is not None else (0.0, FOREVER)
            yield Op(began, ended, _shifts(row["amount"]), f"the revoke of {row['reward_id']} moves {row['amount']}")


def _reads(reading: Reading, player: str, currency: str) -> Iterator[Op[Any]]:
    for request in reading.of(player, "ListBalances"):
        if request.ok:
            items = [one for one in request.data["items"] if one["currency"] == currency]
            seen = next((one["balance"] for one in items if one["scope_key"] == reading.terms.campaign), 0)
            yield Op(request.began, request.ended, _sees(seen), f"sees {seen} (#{request.number})")


def rungs(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Whether each player has each milestone of a game: it is granted once, for good."""
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
    for request in reading.of(player, "Redeem"):
        if request.of == game and (request.body or {})["milestone_id"] == rung:
            if request.ok:
                yield Op(request.began, request.ended, _gets, f"redeems it (#{request.number})")
            elif request.unknown:
                yield Op(request.began, FOREVER, _gets, f"perhaps redeems it (#{request.number})", optional=True)
            for attempt in request.attempts:
                if attempt.reason == "ALREADY_GRANTED":
                    yield Op(
                        attempt.began, attempt.ended, _sees(True), f"is refused as granted already (#{request.number})"
                    )
    for request in reading.of(player, "ListMilestones"):
        if request.of == game and request.ok:
            seen = any(one["id"] == rung and one["granted_at"] for one in request.data["items"])
            yield Op(
                request.began,
                request.ended,
                _sees(seen),
                f"sees it {'granted' if seen else 'open'} (#{request.number})",
            )


# -- the steps ---------------------------------------------------------------------------------


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
