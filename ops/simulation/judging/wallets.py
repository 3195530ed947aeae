"""What balances and rungs of a person must be: their sequential models, and the history as operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from ops.history.checker import FOREVER, Op
from ops.simulation.catalogue import RUNGS, THRESHOLD
from ops.simulation.judging.reading import Reading

CURRENCIES = ("coin", "points")


class Wallet(NamedTuple):
    """Balances of one currency: of the player, then of its guests. merged: those that have become the player."""

    balances: tuple[int, ...]
    merged: frozenset[int] = frozenset()

    def own(self, nth: int) -> int:
        return 0 if nth in self.merged else nth

    def of(self, nth: int) -> int:
        return self.balances[self.own(nth)]

    def moved(self, nth: int, amount: int) -> Wallet:
        place = self.own(nth)
        balances = list(self.balances)
        balances[place] += amount
        return self._replace(balances=tuple(balances))


Step = Callable[[Any], Iterable[Any]]


def wallets(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each person's balance of each currency."""
    ended_by_staff = {attempt.request["id"] for attempt in reading.of("RevokeReward")}
    for person in reading.persons:
        ids = reading.ids_of(person)
        place = {own: nth for nth, own in enumerate(ids)}
        for currency in CURRENCIES:
            ops = [
                *_plays(reading, place, currency),
                *_adjustments(reading, place, currency),
                *_redeems(reading, place, currency),
                *_refunds(reading, place, currency),
                *_looks(reading, place, currency),
            ]
            # What a merge took back, or paid back, of what was surplus.
            surplus = sum(
                row.amount
                for row in reading.tables.ledger_entries
                if row.player_id in place
                and row.currency == currency
                and row.reason == "reversal"
                and row.reward_id not in ended_by_staff
            )
            merges = list(reading.merges(person))
            if surplus and len(merges) > 1:
                continue  # Which of the merges moved it back is not to be told.
            for guest, done in merges:
                told = f"{reading.world.name_of(guest)} logs in"
                ops.append(Op(done.began, done.ended, _merge(place[guest], surplus), told, about=done.about))
            last = {row.player_id: row.balance for row in reading.tables.balances if row.currency == currency}
            end = tuple(last.get(own, 0) for own in ids)
            ops.append(Op(reading.world.loop.now, FOREVER, _is(end), "what the tables say in the end"))
            yield f"the {currency}s of {reading.world.name_of(person)}", ops, Wallet(tuple(0 for _ in ids))


def _plays(reading: Reading, place: dict[str, int], currency: str) -> Iterator[Op[Any]]:
    for row, done in reading.played:
        player_id = reading.player_of(done.attempts[0])
        if player_id not in place:
            continue
        outcome = msgspec.json.decode(row.outcome)
        after = next((one["balance"] for one in outcome["balances"] if one["currency"] == currency), None)
        amount = 0
        for reward in outcome["rewards"]:
            if reward.get("type") == "points" and currency == "points":
                amount += int(reward["value"]) * reward["quantity"]
            if reward.get("type") == "item" and reward["name"] == currency:
                amount += reward["quantity"]
        if amount or after is not None:
            who, game = reading.world.name_of(player_id), reading.world.name_of(row.game_id)
            told = f"{who}'s play of {game} gives {amount}, so {after}"
            yield Op(done.began, done.ended, _moves(place[player_id], amount, after), told, about=done.about)


def _adjustments(reading: Reading, place: dict[str, int], currency: str) -> Iterator[Op[Any]]:
    noted = {row.reference_id for row in reading.tables.ledger_entries}
    groups: dict[int, list[Any]] = {}
    for attempt in reading.of("AdjustBalance"):
        if attempt.request["player_id"] in place and attempt.request["currency"] == currency:
            groups.setdefault(attempt.step, []).append(attempt)
    for attempts in groups.values():
        request, done = attempts[0].request, reading.done(attempts)
        nth, amount = place[request["player_id"]], request["amount"]
        who = reading.world.name_of(request["player_id"])
        if done.reply is not None or request["reference_id"] in noted:
            after = done.reply.entry.balance_after if done.reply is not None else None
            told = f"staff adjust {who} by {amount}, so {after}"
            yield Op(done.began, done.ended, _moves(nth, amount, after), told, about=done.about)
        for attempt in attempts:
            if attempt.outcome == "INSUFFICIENT_BALANCE":
                told = f"staff cannot adjust {who} by {amount}"
                yield Op(attempt.began, attempt.ended, _less(nth, -amount), told, about=(attempt.number,))


def _redeems(reading: Reading, place: dict[str, int], currency: str) -> Iterator[Op[Any]]:
    if currency != "coin":
        return
    kept = {(row.game_id, row.milestone_id, row.idempotency_key): row for row in reading.tables.milestone_grants}
    rewards = {row.reward_id: row for row in reading.tables.rewards}
    told_of = set()
    for attempts in _by_step(reading, "Redeem"):
        request, done = attempts[0].request, reading.done(attempts)
        if request["player_id"] not in place:
            continue
        nth, game = place[request["player_id"]], reading.game_of(attempts[0])
        price = THRESHOLD if game == "exchange" else 0
        row = kept.get((request["id"], request["milestone_id"], request.get("idempotency_key")))
        who = reading.world.name_of(request["player_id"])
        if done.reply is not None:
            told_of.add(done.reply.reward.id)
            after = next((one.balance for one in done.reply.balances if one.currency == currency), None)
            told = f"{who} redeems {request['milestone_id']} for {price}, so {after}"
            yield Op(done.began, done.ended, _pays(nth, price, after), told, about=done.about)
        elif row is not None and request.get("idempotency_key"):
            told_of.add(row.reward_id)
            told = f"{who} redeems {request['milestone_id']} for {price}, unanswered"
            yield Op(done.began, done.ended, _pays(nth, price, None), told, about=done.about)
        for attempt in attempts:
            if attempt.outcome == "THRESHOLD_NOT_REACHED":
                told = f"{who} is told that {THRESHOLD} coins are not there"
                yield Op(attempt.began, attempt.ended, _less(nth, THRESHOLD), told, about=(attempt.number,))
    # Without a key nothing says whose attempt it was that bought a rung.
    for row in reading.tables.milestone_grants:
        game = reading.world.name_of(row.game_id)
        reward = rewards.get(row.reward_id)
        if game != "exchange" or row.reward_id in told_of or row.player_id not in place or reward is None:
            continue
        mine = [
            attempt
            for attempt in reading.of("Redeem")
            if attempt.request["player_id"] in place
            and attempt.request["milestone_id"] == row.milestone_id
            and reading.game_of(attempt) == game
        ]
        if mine:
            done = reading.done(mine)
            told = f"somebody's redeem of {row.milestone_id} for {THRESHOLD}, unanswered"
            yield Op(done.began, FOREVER, _pays_any(THRESHOLD), told, about=done.about)


def _refunds(reading: Reading, place: dict[str, int], currency: str) -> Iterator[Op[Any]]:
    """What a revoke by staff moved back."""
    for reward_id, attempts in _by(reading, "RevokeReward", "id"):
        moved = [
            row
            for row in reading.tables.ledger_entries
            if row.reward_id == reward_id
            and row.reason == "reversal"
            and row.currency == currency
            and row.player_id in place
        ]
        if moved:
            done = reading.done(attempts)
            amount = sum(row.amount for row in moved)
            nth = place[moved[0].player_id]
            told = f"staff revoke {reward_id}, which moves {amount}"
            yield Op(done.began, done.ended, _moves_any(nth, amount), told, about=done.about)


def _looks(reading: Reading, place: dict[str, int], currency: str) -> Iterator[Op[Any]]:
    campaign = reading.world.ids["campaign"]
    for attempt in reading.of("ListBalances"):
        if attempt.ok and attempt.request["player_id"] in place:
            items = reading.world.answers[attempt.number].items
            seen = next((one.balance for one in items if one.currency == currency and one.scope_key == campaign), 0)
            nth = place[attempt.request["player_id"]]
            told = f"{reading.world.name_of(attempt.request['player_id'])} sees {seen} {currency}s"
            yield Op(attempt.began, attempt.ended, _sees(nth, seen), told, about=(attempt.number,))


def _by_step(reading: Reading, operation: str) -> Iterator[list[Any]]:
    groups: dict[int, list[Any]] = {}
    for attempt in reading.of(operation):
        groups.setdefault(attempt.step, []).append(attempt)
    yield from groups.values()


def _by(reading: Reading, operation: str, name: str) -> Iterator[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for attempt in reading.of(operation):
        groups.setdefault(attempt.request[name], []).append(attempt)
    yield from groups.items()


def _moves(nth: int, amount: int, after: int | None) -> Step:
    def step(state: Wallet) -> Iterator[Wallet]:
        new = state.of(nth) + amount
        if new >= 0 and after in (None, new):
            yield state.moved(nth, amount)

    return step


def _moves_any(nth: int, amount: int) -> Step:
    """A movement of a reward that was a guest's, or is the player's by then."""
    return lambda state: [state.moved(own, amount) for own in dict.fromkeys((nth, *range(1, len(state.balances))))]


def _pays(nth: int, price: int, after: int | None) -> Step:
    def step(state: Wallet) -> Iterator[Wallet]:
        had = state.of(nth)
        if had >= THRESHOLD and after in (None, had - price):
            yield state.moved(nth, -price)

    return step


def _pays_any(price: int) -> Step:
    def step(state: Wallet) -> Iterator[Wallet]:
        for nth in range(len(state.balances)):
            if state.of(nth) >= price:
                yield state.moved(nth, -price)

    return step


def _less(nth: int, amount: int) -> Step:
    return lambda state: [state] if state.of(nth) < amount else []


def _sees(nth: int, balance: int) -> Step:
    # A guest's own rows are read as they are: after its merge there are none.
    return lambda state: [state] if state.balances[nth] == balance else []


def _is(balances: tuple[int, ...]) -> Step:
    return lambda state: [state] if state.balances == balances else []


def _merge(nth: int, surplus: int) -> Step:
    def step(state: Wallet) -> Iterator[Wallet]:
        balances = list(state.balances)
        balances[0] += balances[nth] + surplus
        balances[nth] = 0
        if balances[0] >= 0:
            yield Wallet(tuple(balances), state.merged | {nth})

    return step


# -- rungs -------------------------------------------------------------------------------------


class Grants(NamedTuple):
    """Who has the rung: the player (0), or a guest of its (1 and on). merged: those that have become the player."""

    has: frozenset[int] = frozenset()
    merged: frozenset[int] = frozenset()

    def own(self, nth: int) -> int:
        return 0 if nth in self.merged else nth


def rungs(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each person's grant of each rung."""
    for person in reading.persons:
        place = {own: nth for nth, own in enumerate(reading.ids_of(person))}
        for game, names in RUNGS.items():
            for rung in names:
                ops = list(_grants(reading, place, game, rung))
                for guest, done in reading.merges(person):
                    told = f"{reading.world.name_of(guest)} logs in"
                    ops.append(Op(done.began, done.ended, _joins(place[guest]), told, about=done.about))
                if ops:
                    yield f"rung {rung} of {game} of {reading.world.name_of(person)}", ops, Grants()


def _grants(reading: Reading, place: dict[str, int], game: str, rung: str) -> Iterator[Op[Any]]:
    for row, done in reading.played:
        player_id = reading.player_of(done.attempts[0])
        if player_id in place and reading.world.name_of(row.game_id) == game:
            outcome = msgspec.json.decode(row.outcome)
            if any(one["id"] == rung for one in outcome["milestones_granted"]):
                told = f"{reading.world.name_of(player_id)}'s play crosses it"
                yield Op(done.began, done.ended, _gets(place[player_id]), told, about=done.about)
    for attempts in _by_step(reading, "Redeem"):
        request = attempts[0].request
        if request["player_id"] not in place or request["milestone_id"] != rung or reading.game_of(attempts[0]) != game:
            continue
        done, nth, who = (
            reading.done(attempts),
            place[request["player_id"]],
            reading.world.name_of(request["player_id"]),
        )
        if done.reply is not None:
            yield Op(done.began, done.ended, _gets(nth), f"{who} redeems it", about=done.about)
        elif any(attempt.outcome == "unknown" for attempt in attempts):
            told = f"{who} perhaps redeems it"
            yield Op(done.began, FOREVER, _gets(nth), told, optional=True, about=done.about)
        for attempt in attempts:
            if attempt.outcome == "ALREADY_GRANTED":
                yield Op(
                    attempt.began,
                    attempt.ended,
                    _had(nth),
                    f"{who} is told that it was granted",
                    about=(attempt.number,),
                )
    for attempt in reading.of("ListMilestones"):
        if attempt.ok and attempt.request["player_id"] in place and reading.game_of(attempt) == game:
            items = reading.world.answers[attempt.number].items
            granted = any(one.id == rung and one.granted_at for one in items)
            nth, who = place[attempt.request["player_id"]], reading.world.name_of(attempt.request["player_id"])
            told = f"{who} sees it {'granted' if granted else 'open'}"
            yield Op(attempt.began, attempt.ended, _had(nth) if granted else _lacks(nth), told, about=(attempt.number,))


def _gets(nth: int) -> Step:
    def step(state: Grants) -> Iterator[Grants]:
        own = state.own(nth)
        if own not in state.has:
            yield state._replace(has=state.has | {own})

    return step


def _had(nth: int) -> Step:
    return lambda state: [state] if state.own(nth) in state.has else []


def _lacks(nth: int) -> Step:
    return lambda state: [state] if state.own(nth) not in state.has else []


def _joins(nth: int) -> Step:
    """The guest's grant is the player's, or, where the player has one too, stays behind."""

    def step(state: Grants) -> Iterator[Grants]:
        has = state.has | {0} if nth in state.has else state.has
        yield Grants(has - {nth}, state.merged | {nth})

    return step
