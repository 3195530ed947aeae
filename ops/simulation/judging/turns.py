"""What plays, caps, turns and quests of a person must be: their sequential model, and the history as operations on it.

A person is a player and the guests that became it. Before it becomes the player, each has counts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any, Final, NamedTuple

from ops.history.checker import FOREVER, Op
from ops.simulation.catalogue import QUESTS, TURNS
from ops.simulation.judging.reading import CAPPED, Reading

NO_DAY: Final = date.min


class Count(NamedTuple):
    """A player's plays of a game: in all, and on a day."""

    plays: int = 0
    day: date = NO_DAY
    of_day: int = 0

    def used(self, day: date) -> int:
        """How many count on that day; a day that is still to come counts as today (sql/commit.sql)."""
        return self.of_day if self.day >= day else 0

    def played(self, day: date) -> Count:
        return Count(self.plays + 1, day, self.used(day) + 1)


class Slot(NamedTuple):
    """One id's: turns, counts by game in the order of CAPPED, completed quests."""

    turns: int = 0
    counts: tuple[Count, ...] = tuple(Count() for _ in CAPPED)
    quests: frozenset[tuple[str, str]] = frozenset()

    def with_count(self, game: str, count: Count) -> Slot:
        place = CAPPED.index(game)
        return self._replace(counts=(*self.counts[:place], count, *self.counts[place + 1 :]))


class State(NamedTuple):
    """slots: of the player, then of its guests. merged: those that have become the player."""

    slots: tuple[Slot, ...]
    merged: frozenset[int] = frozenset()

    def own(self, nth: int) -> int:
        """Whose slot counts for an id."""
        return 0 if nth in self.merged else nth

    def of(self, nth: int) -> Slot:
        return self.slots[self.own(nth)]

    def with_slot(self, nth: int, slot: Slot) -> State:
        place = self.own(nth)
        return self._replace(slots=(*self.slots[:place], slot, *self.slots[place + 1 :]))


Step = Callable[[State], Iterable[State]]


class Terms(NamedTuple):
    """What bounds the plays of a game."""

    ever: int
    daily: int
    paid: bool


FREE: Final = Terms(0, 0, False)
OTHERS: Final = ("GAME_INACTIVE", "SUSPENDED")
"""Reasons that are not of caps or turns: refusals.py says when there is cause to them."""


def things(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each person's plays and turns."""
    given = reading.world.plan.world
    terms = {
        "wheel": Terms(0, given["wheel"], False),
        "capped": Terms(given["capped"], 0, False),
        "daily": Terms(0, given["daily"], False),
        "paid": Terms(0, 0, True),
    }
    ops: dict[str, list[Op[State]]] = {person: [] for person in reading.persons}
    places = {person: {own: nth for nth, own in enumerate(reading.ids_of(person))} for person in reading.persons}

    def add(
        player_id: str,
        began: float,
        ended: float,
        step: Step,
        told: str,
        about: tuple[int, ...],
        optional: bool = False,
    ) -> None:
        person = reading.person(player_id)
        if person in ops:
            ops[person].append(Op(began, ended, step, told, optional, about))

    def place(player_id: str) -> int:
        return places.get(reading.person(player_id), {}).get(player_id, 0)

    for row, done in reading.played:
        game = reading.world.name_of(row.game_id)
        if game in CAPPED:
            player_id = reading.player_of(done.attempts[0])
            days = reading.days_of(row, done)
            told = f"{reading.world.name_of(player_id)} plays {game}"
            add(player_id, done.began, done.ended, _play(place(player_id), game, terms[game], days), told, done.about)
    for attempt in reading.refusals("Play", "Start"):
        game, player_id = reading.game_of(attempt), reading.player_of(attempt)
        if game in CAPPED and player_id and attempt.outcome in ("CAP_USER", "CAP_DAY", "NO_TURNS"):
            days = reading.days(attempt.began, attempt.ended)
            step = _refused(place(player_id), game, terms[game], days, attempt.outcome)
            told = f"{reading.world.name_of(player_id)} is told {attempt.outcome} of {game}"
            add(player_id, attempt.began, attempt.ended, step, told, (attempt.number,))
    for attempt in reading.of("GetEligibility"):
        if attempt.ok:
            game, player_id, reply = reading.game_of(attempt), reading.player_of(attempt), attempt.answer
            told = f"{reading.world.name_of(player_id)} is told {reply} of {game}"
            days = reading.days(attempt.began, attempt.ended)
            step = _eligible(place(player_id), game, terms.get(game, FREE), days, reply)
            add(player_id, attempt.began, attempt.ended, step, told, (attempt.number,))
    _add_quests(reading, add, place)
    for attempt in reading.of("Start", "Play", "GetEligibility") if reading.of("UpdateCampaign") else ():
        game, player_id = reading.game_of(attempt), reading.player_of(attempt)
        if game in CAPPED and terms[game].daily and player_id:
            step = _set_back(place(player_id), game, reading.days(attempt.began, attempt.ended))
            told = f"a look at {reading.world.name_of(player_id)} sets the day back"
            add(player_id, attempt.began, attempt.ended, step, told, (attempt.number,), optional=True)
    for person in reading.persons:
        for guest, done in reading.merges(person):
            step = _merge(places[person][guest])
            add(person, done.began, done.ended, step, f"{reading.world.name_of(guest)} logs in", done.about)
        end = reading.world.loop.now
        ops[person].append(Op(end, FOREVER, _ends(reading, person), "what the tables say in the end"))
        yield (
            f"plays and turns of {reading.world.name_of(person)}",
            ops[person],
            State(tuple(Slot() for _ in reading.ids_of(person))),
        )


def _add_quests(reading: Reading, add: Callable[..., None], place: Callable[[str], int]) -> None:
    names = {reading.world.ids[f"quest {name}"]: name for name in QUESTS}
    groups: dict[tuple[str, str, int], list[Any]] = {}
    for attempt in reading.of("CompleteQuest"):
        groups.setdefault((attempt.request["player_id"], attempt.request["id"], attempt.step), []).append(attempt)
    for (player_id, quest_id, _), attempts in groups.items():
        quest, done = names[quest_id], reading.done(attempts)
        who = reading.world.name_of(player_id)
        if done.reply is not None:
            periods = reading.periods(quest, done.began, done.ended)
            step = _complete(place(player_id), quest, periods, done.reply.balance)
            add(player_id, done.began, done.ended, step, f"{who} completes {quest}", done.about)
        elif any(attempt.outcome == "unknown" for attempt in attempts):
            # Nobody was told: it may have been done, or never.
            step = _perhaps(place(player_id), quest, reading.periods(quest, done.began, FOREVER))
            add(player_id, done.began, FOREVER, step, f"{who} perhaps completes {quest}", done.about)
        for attempt in attempts:
            if attempt.outcome == "ALREADY_COMPLETED":
                periods = reading.periods(quest, attempt.began, attempt.ended)
                step = _was_completed(place(player_id), quest, periods)
                add(player_id, attempt.began, attempt.ended, step, f"{who} had completed {quest}", (attempt.number,))


# -- what each does ----------------------------------------------------------------------------


def _play(nth: int, game: str, terms: Terms, days: list[date]) -> Step:
    place = CAPPED.index(game)

    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        count = slot.counts[place]
        if terms.ever and count.plays >= terms.ever:
            return
        for day in days:
            spends = terms.paid or bool(terms.daily and count.used(day) >= terms.daily)
            if spends and not slot.turns:
                continue
            after = slot.with_count(game, count.played(day))
            yield state.with_slot(nth, after._replace(turns=slot.turns - spends))

    return step


def _refused(nth: int, game: str, terms: Terms, days: list[date], reason: str) -> Step:
    place = CAPPED.index(game)

    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        count = slot.counts[place]
        match reason:
            case "CAP_USER":
                holds = bool(terms.ever) and count.plays >= terms.ever
            case "CAP_DAY":
                holds = bool(terms.daily) and not slot.turns and any(count.used(day) >= terms.daily for day in days)
            case _:
                holds = terms.paid and not slot.turns
        if holds:
            yield state

    return step


def _set_back(nth: int, game: str, days: list[date]) -> Step:
    """Where the zone has moved west, a count of a day that is still to come is today's, once somebody has looked."""
    place = CAPPED.index(game)

    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        count = slot.counts[place]
        for day in days:
            if count.day > day:
                yield state.with_slot(nth, slot.with_count(game, count._replace(day=day)))

    return step


def _eligible(nth: int, game: str, terms: Terms, days: list[date], reply: dict[str, Any]) -> Step:
    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        count = slot.counts[CAPPED.index(game)] if game in CAPPED else Count()
        for day in days:
            free = [
                max(0, most - used)
                for most, used in ((terms.daily, count.used(day)), (terms.ever, count.plays))
                if most
            ]
            over = bool(terms.daily) and count.used(day) >= terms.daily
            if terms.ever and count.plays >= terms.ever:
                reason = "CAP_USER"
            elif slot.turns or not (over or terms.paid):
                reason = ""
            else:
                reason = "CAP_DAY" if over else "NO_TURNS"
            told = (slot.turns, 0 if terms.paid else min(free, default=-1))
            if told == (reply["remaining_turns"], reply["free_plays_remaining"]) and reply["reason"] in (
                reason,
                *OTHERS,
            ):
                yield state
                return

    return step


def _complete(nth: int, quest: str, periods: list[str], balance: int) -> Step:
    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        if slot.turns + TURNS != balance:
            return
        for period in periods:
            if (quest, period) not in slot.quests:
                yield state.with_slot(nth, slot._replace(turns=balance, quests=slot.quests | {(quest, period)}))

    return step


def _perhaps(nth: int, quest: str, periods: list[str]) -> Step:
    def step(state: State) -> Iterator[State]:
        slot = state.of(nth)
        yield state
        for period in periods:
            if (quest, period) not in slot.quests:
                yield state.with_slot(
                    nth, slot._replace(turns=slot.turns + TURNS, quests=slot.quests | {(quest, period)})
                )

    return step


def _was_completed(nth: int, quest: str, periods: list[str]) -> Step:
    return lambda state: [state] if any((quest, period) in state.of(nth).quests for period in periods) else []


def _merge(nth: int) -> Step:
    """operations/players/merging.py: counts add up; turns of quests that both completed in one period stay behind."""

    def step(state: State) -> Iterator[State]:
        player, guest = state.slots[0], state.slots[nth]
        kept = min(guest.turns, TURNS * len(player.quests & guest.quests))
        counts = tuple(_sum(own, other) for own, other in zip(player.counts, guest.counts, strict=True))
        both = Slot(player.turns + guest.turns - kept, counts, player.quests | guest.quests)
        slots = list(state.slots)
        slots[0], slots[nth] = both, Slot(kept)
        yield State(tuple(slots), state.merged | {nth})

    return step


def _sum(own: Count, other: Count) -> Count:
    day = max(own.day, other.day)
    return Count(own.plays + other.plays, day, sum(count.of_day for count in (own, other) if count.day == day))


def _ends(reading: Reading, person: str) -> Step:
    """What the rows say at the end: every play counted, every turn there."""
    tables, ids = reading.tables, reading.ids_of(person)
    turns = {row.player_id: row.balance for row in tables.turn_balances}
    counted = {(row.player_id, reading.world.name_of(row.game_id)): row.plays for row in tables.game_players}

    def step(state: State) -> Iterator[State]:
        for nth, own in enumerate(ids):
            slot = state.slots[nth]
            if slot.turns != turns.get(own, 0):
                return
            if any(count.plays != counted.get((own, game), 0) for game, count in zip(CAPPED, slot.counts, strict=True)):
                return
        yield state

    return step
