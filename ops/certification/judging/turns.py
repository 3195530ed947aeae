"""What a player's plays, caps, turns and quests must be: a sequential model, and the history as operations on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ops.certification.catalogue import BOUNDED, TURNS
from ops.certification.judging.reading import Reading, closed
from ops.simulation.judging.checker import Op

GAMES = tuple(BOUNDED)
QUESTS = ("once", "daily quest")


class State(NamedTuple):
    """turns left, plays by game in the order of GAMES, quests completed."""

    turns: int = 0
    plays: tuple[int, ...] = tuple(0 for _ in GAMES)
    quests: frozenset[str] = frozenset()

    def count(self, game: str) -> int:
        return self.plays[GAMES.index(game)]

    def played(self, game: str) -> State:
        place = GAMES.index(game)
        return self._replace(plays=(*self.plays[:place], self.plays[place] + 1, *self.plays[place + 1 :]))


Step = Callable[[State], Iterable[State]]


def things(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each player's, of a history of one day."""
    if not reading.one_day:
        return
    turns = {row["player_id"]: row["balance"] for row in reading.tables["turn_balances"]}
    counted = {
        (row["player_id"], reading.names.get(row["game_id"], "")): row["plays"]
        for row in reading.tables["game_players"]
    }
    for player in reading.players:
        ops = list(_ops(reading, player))
        if ops:
            end = (turns.get(player, 0), tuple(counted.get((player, game), 0) for game in GAMES))
            yield f"plays and turns of {player}", closed(ops, _is(end), str(end)), State()


def _ops(reading: Reading, player: str) -> Iterator[Op[Any]]:
    for done in reading.plays.get(player, ()):
        game = reading.names.get(done.row["game_id"], "")
        if game in BOUNDED:
            yield Op(done.began, done.ended, _play(game), f"plays {game} ({done.row['play_id']})")
    for asked, attempt in reading.refused(player, "Start", "Play"):
        if asked.of in BOUNDED and attempt.reason in ("CAP_USER", "CAP_DAY", "NO_TURNS"):
            told = f"is told {attempt.reason} of {asked.of} (#{asked.number})"
            yield Op(attempt.began, attempt.ended, _refused(asked.of, attempt.reason), told)
    for asked in reading.of(player, "GetEligibility"):
        if asked.ok:
            left = asked.data["remaining_turns"]
            yield Op(asked.began, asked.ended, _has(left), f"is told of {left} turns (#{asked.number})")
    kept = {row["idempotency_key"] for row in reading.tables["quest_completions"] if row["player_id"] == player}
    for asked in reading.of(player, "CompleteQuest"):
        if asked.ok or asked.key in kept:
            balance = asked.data["balance"] if asked.ok else None
            told = f"completes {asked.of}, so {balance} turns (#{asked.number})"
            yield Op(asked.began, asked.ended, _complete(asked.of, balance), told)
    for asked, attempt in reading.refused(player, "CompleteQuest"):
        if attempt.reason == "ALREADY_COMPLETED":
            yield Op(attempt.began, attempt.ended, _completed(asked.of), f"had completed {asked.of} (#{asked.number})")


def _play(game: str) -> Step:
    cap, daily, paid = BOUNDED[game]

    def step(state: State) -> Iterator[State]:
        count = state.count(game)
        spends = paid or bool(daily and count >= daily)
        if not (cap and count >= cap) and not (spends and not state.turns):
            yield state.played(game)._replace(turns=state.turns - spends)

    return step


def _refused(game: str, reason: str) -> Step:
    cap, daily, paid = BOUNDED[game]

    def step(state: State) -> Iterator[State]:
        holds = {
            "CAP_USER": bool(cap) and state.count(game) >= cap,
            "CAP_DAY": bool(daily) and state.count(game) >= daily and not state.turns,
            "NO_TURNS": paid and not state.turns,
        }
        if holds[reason]:
            yield state

    return step


def _has(turns: int) -> Step:
    return lambda state: [state] if state.turns == turns else []


def _complete(quest: str, balance: int | None) -> Step:
    def step(state: State) -> Iterator[State]:
        after = state.turns + TURNS
        if quest not in state.quests and balance in (after, None):
            yield state._replace(turns=after, quests=state.quests | {quest})

    return step


def _completed(quest: str) -> Step:
    return lambda state: [state] if quest in state.quests else []


def _is(end: tuple[int, tuple[int, ...]]) -> Step:
    return lambda state: [state] if (state.turns, state.plays) == end else []
