"""Checks single responses: the reason is expected, a key has one response, and a success has exactly one row."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from ops.history.reading import Reading, decoded
from ops.history.record import NOT_YET, UNKNOWN, History, Request
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
"""Refusals that the load provokes; any other is an error. A request may allow more: facts["refusals"]."""


_MOVES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "ClaimReward": ("claim", lambda row: row["claimed_at"] is not None),
    "FulfillReward": ("manual delivery", lambda row: row["fulfilled_at"] is not None),
    "RevokeReward": ("revoke", lambda row: row["status"] == "revoked"),
}
"""By operation on a reward: its name, and whether the reward's row has it."""


def problems(reading: Reading) -> list[str]:
    """What is wrong, one line each."""
    history, tables = reading.history, reading.tables
    return [
        *_codes(reading),
        *_sessions(reading),
        *_keys(history),
        *_confirmed(history, tables),
        *_stored(history, tables),
    ]


def _codes(reading: Reading) -> Iterator[str]:
    for request in reading.history.requests:
        known = REFUSALS.get(request.operation, frozenset()) | set(request.facts.get("refusals", ()))
        if request.operation == "Play" and reading.terms.session_seconds:
            known |= {"SESSION_EXPIRED"}
        for attempt in request.attempts:
            if attempt.http >= 500 and not (attempt.http == 503 and attempt.retry_after):
                yield f"a service error ({attempt.http} {attempt.code} {attempt.reason}): {request.describe()}"
            elif 400 <= attempt.http < 500 and attempt.reason not in known | {"IDEMPOTENCY_IN_PROGRESS"}:
                yield f"refused without cause ({attempt.http} {attempt.reason or attempt.code}): {request.describe()}"


def _sessions(reading: Reading) -> Iterator[str]:
    """A response that a session was played or has expired is true."""
    terms, history = reading.terms, reading.history
    played = reading.tables.by("plays", "session_id")
    begun = {request.data["session_id"]: request.began for request in history.of("Start") if request.ok}
    followed = [request for request in history.of("Play") if request.ok and request.data.get("next")]
    begun |= {request.data["next"]["session_id"]: request.began for request in followed}
    players = {(row["player_id"], reading.name_of(row["game_id"])) for row in reading.tables["plays"]}
    for request in history.of("Play"):
        session = (request.body or {})["session_id"]
        is_planned = request.of in terms.planned
        # Another session's play may have used the reserved play that this session's plan was drawn for.
        is_played = session in played or (is_planned and (request.who, request.of) in players)
        for attempt in request.attempts:
            if attempt.reason == "SESSION_PLAYED" and not is_played:
                yield f"SESSION_PLAYED without a play: {request.describe()}"
            lasts = terms.session_seconds - terms.slack_seconds
            is_late = is_planned or attempt.ended - begun.get(session, -lasts) >= lasts
            if attempt.reason == "SESSION_EXPIRED" and not is_late:
                yield f"a session ended too early: {request.describe()}"


def _keys(history: History) -> Iterator[str]:
    """The same request with the same key has the same response.

    Not a start's: its key is in Valkey alone, which counts as down when it stalls for 50 ms; then a retry opens another
    session, at no cost to the player.
    """
    for request in history.requests:
        if not request.key or request.operation == "Start":
            continue
        first = request.answered
        for attempt in request.attempts:
            if first is not None and attempt.ok and first.data != attempt.data:
                yield f"two responses for one key: {request.describe()}: {_short(first.data)}, {_short(attempt.data)}"
        known = min((one.ended for one in request.attempts if one.ok), default=NOT_YET)
        later = (one.outcome for one in request.attempts if one.began > known)
        if any(outcome not in ("ok", UNKNOWN, "IDEMPOTENCY_IN_PROGRESS") for outcome in later):
            yield f"done, then refused with the same key: {request.describe()}"


def _confirmed(history: History, tables: Tables) -> Iterator[str]:
    """Every success is in the tables, as the response said."""
    plays, rewards = tables.by("plays", "session_id"), tables.by("rewards", "reward_id")
    entries, grants = tables.by("ledger_entries", "entry_id"), tables.by("milestone_grants", "reward_id")
    completed = {(row["player_id"], row["idempotency_key"]): row for row in tables["quest_completions"]}
    for request in history.requests:
        if not request.ok:
            continue
        data = request.data
        match request.operation:
            case "Play":
                row = plays.get((request.body or {})["session_id"])
                if row is None or row["play_id"] != data["play_id"]:
                    yield f"a confirmed play is missing: {request.describe()}"
                    continue
                outcome = decoded(row["outcome"])
                stored = sorted(one["reward_id"] for one in outcome["rewards"] if one.get("reward_id"))
                reported = sorted(one["reward_id"] for one in data["rewards"] if one.get("reward_id"))
                balances = [{one["currency"]: one["balance"] for one in each["balances"]} for each in (data, outcome)]
                if balances[0] != balances[1]:
                    yield f"a play's balances differ from its response: {request.describe()}: {balances}"
                if stored != reported:
                    yield f"a play's rewards differ from its response: {request.describe()}: {reported}, {stored}"
                for reward in reported:
                    if reward not in rewards:
                        yield f"a confirmed reward is missing: {request.describe()}: {reward}"
            case "ClaimReward" | "FulfillReward" | "RevokeReward" as move:
                what, is_done = _MOVES[move]
                if (row := rewards.get(request.of)) is None or not is_done(row):
                    yield f"a confirmed {what} is missing: {request.describe()}"
            case "Redeem":
                if data["reward"]["id"] not in grants:
                    yield f"a confirmed grant is missing: {request.describe()}"
            case "AdjustBalance":
                row = entries.get(data["id"])
                if row is None or row["balance_after"] != data["balance_after"]:
                    yield f"a confirmed adjustment is missing: {request.describe()}"
            case "CompleteQuest":
                if (request.who, request.key) not in completed:
                    yield f"a confirmed quest completion is missing: {request.describe()}"


def _stored(history: History, tables: Tables) -> Iterator[str]:
    """Every row was requested, and has one row per key."""
    sessions: dict[str, list[Request]] = defaultdict(list)
    for request in history.of("Play"):
        sessions[(request.body or {})["session_id"]].append(request)
    seen: Counter[str] = Counter()
    for row in tables["plays"]:
        seen[row["session_id"]] += 1
        requests = sessions.get(row["session_id"], [])
        keys = {request.key for request in requests}
        if not requests:
            yield f"a play without a request: {row['play_id']}"
        elif (row["idempotency_key"] or "") not in keys:
            yield f"a play with an unknown key: {row['play_id']} {row['idempotency_key']}"
        elif not any(request.ok or request.unknown or _may_be_own_retry(request) for request in requests):
            yield f"a refused play is stored: {row['play_id']}: {requests[0].describe()}"
    yield from (f"a session with {count} plays: {session}" for session, count in seen.items() if count > 1)
    for what, rows in (
        ("play", ((row["player_id"], row["game_id"], row["idempotency_key"]) for row in tables["plays"])),
        ("quest", ((row["player_id"], row["quest_id"], row["idempotency_key"]) for row in tables["quest_completions"])),
    ):
        yield from (
            f"{count} effects of one key: {what} {key}" for key, count in Counter(rows).items() if count > 1 and key[2]
        )
    yield from _once_each(history)


def _may_be_own_retry(request: Request) -> bool:
    """Without a key, the retry of a commit whose response was lost gets SESSION_PLAYED for its own play."""
    return not request.key and request.outcome == "SESSION_PLAYED"


def _once_each(history: History) -> Iterator[str]:
    """Operations that can happen once under any key: of two requests, one is refused as already done."""
    done: dict[tuple[str, ...], Request] = {}
    for request in history.requests:
        body = request.body or {}
        thing: tuple[str, ...]
        match request.operation:
            case "Play":
                thing = (body["session_id"],)
            case "ClaimReward" | "RevokeReward" | "FulfillReward":
                thing = (request.of,)
            case "Redeem":
                thing = (request.who, request.of, body["milestone_id"])
            case _:
                continue
        if request.ok:
            first = done.setdefault((request.operation, *thing), request)
            if first is not request and not (first.key == request.key and first.data == request.data):
                yield f"done twice: {first.describe()}, {request.describe()}"


def _short(data: Any) -> str:
    return json.dumps(data, default=str)[:300]
