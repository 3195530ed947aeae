"""Each answer by itself: its code is known, one key has one answer, what was done has its row and exactly one."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from ops.history.reading import Reading, decoded
from ops.history.record import NOT_YET, UNKNOWN, Asked, History
from ops.history.tables import Tables

CAPS: Final = frozenset(("CAP_USER", "CAP_DAY", "NO_TURNS"))
REFUSALS: Final = {
    "Start": CAPS,
    "Play": CAPS | {"SESSION_PLAYED"},
    "ClaimReward": frozenset(("ALREADY_CLAIMED", "ILLEGAL_TRANSITION")),
    "Redeem": frozenset(("THRESHOLD_NOT_REACHED", "ALREADY_GRANTED", "OUT_OF_STOCK")),
    "CompleteQuest": frozenset(("ALREADY_COMPLETED",)),
    "AdjustBalance": frozenset(("INSUFFICIENT_BALANCE",)),
    "RevokeReward": frozenset(("ILLEGAL_TRANSITION",)),
    "FulfillReward": frozenset(("ILLEGAL_TRANSITION",)),
    "UpdatePrize": frozenset(("STOCK_BELOW_AWARDED",)),
}
"""What the load gives cause for; whatever else is refused is wrong. A request may bring more: facts["refusals"]."""


def problems(reading: Reading) -> list[str]:
    """What is wrong, a line each."""
    history, tables = reading.history, reading.tables
    return [*_codes(reading), *_sessions(reading), *_keys(history), *_kept(history, tables), *_only(history, tables)]


def _codes(reading: Reading) -> Iterator[str]:
    for asked in reading.history.asked:
        known = REFUSALS.get(asked.operation, frozenset()) | set(asked.facts.get("refusals", ()))
        if asked.operation == "Play" and reading.terms.session_seconds:
            known |= {"SESSION_EXPIRED"}
        for attempt in asked.attempts:
            if attempt.http >= 500 and not (attempt.http == 503 and attempt.retry_after):
                yield f"an error of the service ({attempt.http} {attempt.code} {attempt.reason}): {asked.told()}"
            elif 400 <= attempt.http < 500 and attempt.reason not in known | {"IDEMPOTENCY_IN_PROGRESS"}:
                yield f"refused without cause ({attempt.http} {attempt.reason or attempt.code}): {asked.told()}"


def _sessions(reading: Reading) -> Iterator[str]:
    """Who is told that a session was played, or is too old, is told the truth."""
    terms, history = reading.terms, reading.history
    played = reading.tables.by("plays", "session_id")
    begun = {asked.data["session_id"]: asked.began for asked in history.of("Start") if asked.ok}
    begun |= {asked.data["next"]["session_id"]: asked.began for asked in history.of("Play") if _next_of(asked)}
    players = {(row["player_id"], reading.name_of(row["game_id"])) for row in reading.tables["plays"]}
    for asked in history.of("Play"):
        session = (asked.body or {})["session_id"]
        is_planned = asked.of in terms.planned
        # A play of another session may have taken the place that this one's plan was drawn for.
        is_played = session in played or (is_planned and (asked.who, asked.of) in players)
        for attempt in asked.attempts:
            if attempt.reason == "SESSION_PLAYED" and not is_played:
                yield f"told of a play that is not there: {asked.told()}"
            lasts = terms.session_seconds - terms.slack_seconds
            is_late = is_planned or attempt.ended - begun.get(session, -lasts) >= lasts
            if attempt.reason == "SESSION_EXPIRED" and not is_late:
                yield f"a session ended too early: {asked.told()}"


def _next_of(asked: Asked) -> Any:
    """The session that a play was answered for the next one. None: it was not asked for."""
    return asked.data.get("next") if asked.ok else None


def _keys(history: History) -> Iterator[str]:
    """The same request under the same key has the same answer."""
    for asked in history.asked:
        if not asked.key:
            continue
        first = asked.answered
        for attempt in asked.attempts:
            if first is not None and attempt.ok and first.data != attempt.data:
                yield f"two answers under one key: {asked.told()}: {_short(first.data)} and {_short(attempt.data)}"
        known = min((one.ended for one in asked.attempts if one.ok), default=NOT_YET)
        later = (one.outcome for one in asked.attempts if one.began > known)
        if any(outcome not in ("ok", UNKNOWN, "IDEMPOTENCY_IN_PROGRESS") for outcome in later):
            yield f"done, and then refused under the same key: {asked.told()}"


def _kept(history: History, tables: Tables) -> Iterator[str]:
    """What was answered as done is in the tables, and as it was answered."""
    plays, rewards = tables.by("plays", "session_id"), tables.by("rewards", "reward_id")
    entries, grants = tables.by("ledger_entries", "entry_id"), tables.by("milestone_grants", "reward_id")
    completed = {(row["player_id"], row["idempotency_key"]): row for row in tables["quest_completions"]}
    for asked in history.asked:
        if not asked.ok:
            continue
        data = asked.data
        match asked.operation:
            case "Play":
                row = plays.get((asked.body or {})["session_id"])
                if row is None or row["play_id"] != data["play_id"]:
                    yield f"a play that was answered is not there: {asked.told()}"
                    continue
                outcome = decoded(row["outcome"])
                kept = sorted(one["reward_id"] for one in outcome["rewards"] if one.get("reward_id"))
                told = sorted(one["reward_id"] for one in data["rewards"] if one.get("reward_id"))
                balances = [{one["currency"]: one["balance"] for one in each["balances"]} for each in (data, outcome)]
                if balances[0] != balances[1]:
                    yield f"a play's balances are other ones than it was answered: {asked.told()}: {balances}"
                if kept != told:
                    yield f"a play's rewards are other ones than it was answered: {asked.told()}: {told}, kept {kept}"
                for reward in told:
                    if reward not in rewards:
                        yield f"a reward that was answered is not there: {asked.told()}: {reward}"
            case "ClaimReward":
                row = rewards.get(asked.of)
                if row is None or row["claimed_at"] is None:
                    yield f"a claim that was answered is not there: {asked.told()}"
            case "Redeem":
                if data["reward"]["id"] not in grants:
                    yield f"a grant that was answered is not there: {asked.told()}"
            case "AdjustBalance":
                row = entries.get(data["id"])
                if row is None or row["balance_after"] != data["balance_after"]:
                    yield f"an adjustment that was answered is not there: {asked.told()}"
            case "CompleteQuest":
                if (asked.who, asked.key) not in completed:
                    yield f"a quest that was answered as completed is not: {asked.told()}"
            case "RevokeReward":
                row = rewards.get(asked.of)
                if row is None or row["status"] != "revoked":
                    yield f"a revoke that was answered is not there: {asked.told()}"
            case "FulfillReward":
                row = rewards.get(asked.of)
                if row is None or row["fulfilled_at"] is None:
                    yield f"a delivery by hand that was answered is not there: {asked.told()}"


def _only(history: History, tables: Tables) -> Iterator[str]:
    """What is in the tables was asked for, and is there once a key."""
    sessions: dict[str, list[Asked]] = defaultdict(list)
    for asked in history.of("Play"):
        sessions[(asked.body or {})["session_id"]].append(asked)
    seen: Counter[str] = Counter()
    for row in tables["plays"]:
        seen[row["session_id"]] += 1
        asked_for = sessions.get(row["session_id"], [])
        keys = {asked.key for asked in asked_for}
        if not asked_for:
            yield f"a play that nobody asked for: {row['play_id']}"
        elif (row["idempotency_key"] or "") not in keys:
            yield f"a play under a key that nobody used: {row['play_id']} {row['idempotency_key']}"
        elif not any(asked.ok or asked.unknown or _is_maybe_own(asked) for asked in asked_for):
            yield f"a play that was refused: {row['play_id']}: {asked_for[0].told()}"
    yield from (f"a session with {count} plays: {session}" for session, count in seen.items() if count > 1)
    for what, rows in (
        ("play", ((row["player_id"], row["game_id"], row["idempotency_key"]) for row in tables["plays"])),
        ("quest", ((row["player_id"], row["quest_id"], row["idempotency_key"]) for row in tables["quest_completions"])),
    ):
        yield from (
            f"{count} effects of one key: {what} {key}" for key, count in Counter(rows).items() if count > 1 and key[2]
        )
    yield from _once_each(history)


def _is_maybe_own(asked: Asked) -> bool:
    """Without a key, a commit whose answer was lost is found to be a played session: its own play."""
    return not asked.key and asked.outcome == "SESSION_PLAYED"


def _once_each(history: History) -> Iterator[str]:
    """What is done once, under whatever key: of two that ask for it, one is told that it was done already."""
    done: dict[tuple[str, ...], Asked] = {}
    for asked in history.asked:
        body = asked.body or {}
        thing: tuple[str, ...]
        match asked.operation:
            case "Play":
                thing = (body["session_id"],)
            case "ClaimReward" | "RevokeReward" | "FulfillReward":
                thing = (asked.of,)
            case "Redeem":
                thing = (asked.who, asked.of, body["milestone_id"])
            case _:
                continue
        if asked.ok:
            first = done.setdefault((asked.operation, *thing), asked)
            if first is not asked and not (first.key == asked.key and first.data == asked.data):
                yield f"done twice: {first.told()}, {asked.told()}"


def _short(data: Any) -> str:
    return json.dumps(data, default=str)[:300]
