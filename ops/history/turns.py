"""A sequential model of a player's plays, caps, turns and quests, and the history as operations on it."""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

from ops.history.checker import Op
from ops.history.reading import Reading, closed
from ops.history.terms import Bounds

CAPS = ("CAP_USER", "CAP_DAY", "NO_TURNS")

ONCE = "once"
"""The period of a one-time quest."""


class State(NamedTuple):
    """turns left, plays per limited game in the order of the terms, free daily plays used, completed quests with
    their periods.
    """

    turns: int
    plays: tuple[int, ...]
    free: tuple[int, ...]
    quests: frozenset[tuple[str, str]] = frozenset()

    def played(self, nth: int) -> "State":
        return self._replace(plays=_more(self.plays, nth))

    def freed(self, nth: int) -> "State":
        return self._replace(free=_more(self.free, nth))


def _more(counts: tuple[int, ...], nth: int) -> tuple[int, ...]:
    return (*counts[:nth], counts[nth] + 1, *counts[nth + 1 :])


Step = Callable[[State], Iterable[State]]


def things(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """One model per player."""
    turns = {row["player_id"]: row["balance"] for row in reading.tables["turn_balances"]}
    counted = {
        (row["player_id"], reading.name_of(row["game_id"])): row["plays"] for row in reading.tables["game_players"]
    }
    none = tuple(0 for _ in reading.terms.bounds)
    for player in reading.players:
        ops = list(_ops(reading, player))
        if ops:
            end = (turns.get(player, 0), tuple(counted.get((player, game), 0) for game in reading.terms.bounds))
            yield f"plays and turns of {player}", closed(ops, _is(end), str(end)), State(0, none, none)


def _ops(reading: Reading, player: str) -> Iterator[Op[Any]]:
    bounds = reading.terms.bounds
    places = {game: nth for nth, game in enumerate(bounds)}
    since = min((request.began for request in reading.by_player.get(player, ())), default=0.0)
    for done in reading.plays.get(player, ()):
        game = reading.name_of(done.row["game_id"])
        given = sum(int(one["value"]) * one["quantity"] for one in done.outcome["rewards"] if one["type"] == "turns")
        label = f"plays {game} ({done.row['play_id']})"
        if game in bounds:
            days = reading.days(since, done.ended).begun
            yield Op(done.began, done.ended, _play(places[game], bounds[game], days, given), label)
        elif given:
            yield Op(done.began, done.ended, _gains(given), label)
    for request, attempt in reading.refused(player, "Start", "Play"):
        if request.of in bounds and attempt.reason in CAPS:
            label = f"{attempt.reason} for {request.of} (#{request.number})"
            yield Op(
                attempt.began, attempt.ended, _refused(places[request.of], bounds[request.of], attempt.reason), label
            )
    for request in reading.of(player, "GetEligibility"):
        if request.ok:
            turns_left, reason = request.data["remaining_turns"], request.data.get("reason", "")
            label = f"sees {turns_left} turns and {reason or 'no limit'} (#{request.number})"
            step = _has(turns_left)
            if reason in CAPS and request.of in bounds:
                step = _both(step, _refused(places[request.of], bounds[request.of], reason))
            yield Op(request.began, request.ended, step, label)
    stored = {
        row["idempotency_key"]: row["period"]
        for row in reading.tables["quest_completions"]
        if row["player_id"] == player
    }
    for request in reading.of(player, "CompleteQuest"):
        if request.ok or request.key in stored:
            balance = request.data["balance"] if request.ok else None
            period = stored.get(request.key, ONCE)
            periods = reading.days(since, request.ended).names if request.of == "daily quest" else {ONCE}
            label = f"completes {request.of} of {period}, so {balance} turns (#{request.number})"
            yield Op(
                request.began,
                request.ended,
                _complete(request.of, period, periods, balance, reading.terms.quest_turns),
                label,
            )
    for request, attempt in reading.refused(player, "CompleteQuest"):
        if attempt.reason == "ALREADY_COMPLETED":
            yield Op(
                attempt.began, attempt.ended, _completed(request.of), f"had completed {request.of} (#{request.number})"
            )


def _play(nth: int, bounds: Bounds, days: int, given: int) -> Step:
    """nth: the game's position in the terms. days: days that have begun, each with its free plays. given: turns won.

    On a single day it is certain whether a play is free or takes a turn; over several it may be either.
    """
    cap, daily, paid = bounds

    def step(state: State) -> Iterator[State]:
        count = state.plays[nth]
        if cap and count >= cap:
            return
        after = state.played(nth)._replace(turns=state.turns + given)
        if not paid and not (daily and state.free[nth] >= daily * days):
            yield after.freed(nth) if daily else after
        if (paid or (daily and count >= daily)) and state.turns:
            yield after._replace(turns=after.turns - 1)

    return step


def _refused(nth: int, bounds: Bounds, reason: str) -> Step:
    cap, daily, paid = bounds

    def step(state: State) -> Iterator[State]:
        holds = {
            "CAP_USER": bool(cap) and state.plays[nth] >= cap,
            "CAP_DAY": bool(daily) and state.plays[nth] >= daily and not state.turns,
            "NO_TURNS": paid and not state.turns,
        }
        if holds[reason]:
            yield state

    return step


def _gains(turns: int) -> Step:
    return lambda state: [state._replace(turns=state.turns + turns)]


def _both(one: Step, other: Step) -> Step:
    """Both hold; neither changes the state."""
    return lambda state: [state] if [*one(state)] and [*other(state)] else []


def _has(turns: int) -> Step:
    return lambda state: [state] if state.turns == turns else []


def _complete(quest: str, period: str, periods: Container[str], balance: int | None, turns: int) -> Step:
    """period: the stored one; periods: those possible by then. turns: the quest's reward."""

    def step(state: State) -> Iterator[State]:
        after = state.turns + turns
        if period in periods and (quest, period) not in state.quests and balance in (after, None):
            yield state._replace(turns=after, quests=state.quests | {(quest, period)})

    return step


def _completed(quest: str) -> Step:
    return lambda state: [state] if any(done == quest for done, _ in state.quests) else []


def _is(end: tuple[int, tuple[int, ...]]) -> Step:
    return lambda state: [state] if (state.turns, state.plays) == end else []
