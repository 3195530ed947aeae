"""Caps that change while there are plays: none of these is beyond each cap that it may have met, or refused below it.

A cap is in force from its change's commit to that of the next, both of them somewhere between a question and its
answer. So what a play can have met is every cap whose change had begun by the play's end, but for those that another
had followed for certain when it began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.model.crowd import CAPS, PLAYERS, Attempt
from tests.model.tenant import Tenant
from tests.support.invariants import Reads

BY_DAY = ("daily", "rare")
REFUSES = {"capped": "CAP_USER", "daily": "CAP_DAY"}


class Took(NamedTuple):
    """What counts by a cap: when it was first asked for, and when it was certain."""

    began: int
    ended: int


async def broken_caps(tenant: Tenant, database: Reads) -> list[str]:
    """Who has more than any cap of then allowed, and who was refused with less than every one."""
    rows = await database.fetch(
        "SELECT play_id, date_trunc('hour', played_at) AS hour, EXISTS (SELECT FROM turn_entries AS e"
        " WHERE e.tenant_id = $1 AND e.reason = 'play' AND e.reference_id = p.play_id) AS paid"
        " FROM plays AS p WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    return [*_beyond(tenant, {row["play_id"]: row for row in rows}), *_below(tenant)]


def _beyond(tenant: Tenant, plays: Mapping[str, Any]) -> Iterator[str]:
    zones = [attempt for attempt in tenant.history.asked("UpdateCampaign") if "timezone" in attempt.fields["campaign"]]
    for (capped, *whose), taken in _taken(tenant, plays).items():
        for took in taken:
            # A day is another one in another zone, and what was counted of it may be gone.
            before = [
                one
                for one in taken
                if one.ended < took.began
                and not (capped in BY_DAY and any(zone.began < took.ended and _end(zone) > one.began for zone in zones))
            ]
            caps = _in_force(tenant, capped, took)
            if len(before) >= max(caps):
                yield f"{len(before) + 1} of {capped} for {whose}, with caps of {sorted(caps)}: {took}"


def _taken(tenant: Tenant, plays: Mapping[str, Any]) -> Mapping[tuple[Any, ...], list[Took]]:
    """What counts together: of a game its player's, of a prize its winner's, by day of an hour: no zone's day ends in
    the midst of one."""
    asked: dict[str, int] = {}
    for attempt in tenant.history.asked("Play"):
        asked.setdefault(attempt.fields["session_id"], attempt.began)
    done: dict[str, Attempt] = {}
    for attempt in tenant.history.of("Play"):
        first = done.setdefault(attempt.fields["session_id"], attempt)
        done[attempt.fields["session_id"]] = min(first, attempt, key=_end)
    found = defaultdict[tuple[Any, ...], list[Took]](list)
    for session_id, attempt in done.items():
        owner, row = owner_of(session_id), plays[attempt.reply.play_id]
        took = Took(asked[session_id], attempt.ended)
        if attempt.fields["id"] == tenant.ids["capped"]:
            found["capped", owner].append(took)
        if attempt.fields["id"] == tenant.ids["daily"] and not row["paid"]:
            found["daily", owner, row["hour"]].append(took)
        for reward in attempt.reply.rewards:
            if reward.prize_id == tenant.ids["dear"]:
                found["dear", owner].append(took)
            if reward.prize_id == tenant.ids["rare"]:
                found["rare", row["hour"]].append(took)
    return found


def _below(tenant: Tenant) -> Iterator[str]:
    """Of players who are nobody's guests: what they had played is what they had asked for."""
    plays = tenant.history.asked("Play")
    for attempt in tenant.history.asked("Start", "Play"):
        for capped, reason in REFUSES.items():
            if (
                attempt.fields["id"] != tenant.ids[capped]
                or attempt.outcome != reason
                or attempt.act.who not in PLAYERS
            ):
                continue
            sessions = {
                other.fields["session_id"]
                for other in plays
                if other.began < attempt.ended and other.fields["id"] == attempt.fields["id"]
            }
            most = sum(owner_of(session_id) == attempt.fields["player_id"] for session_id in sessions)
            caps = _in_force(tenant, capped, Took(attempt.began, attempt.ended))
            if most < min(caps):
                yield f"refused at {most} of {capped}, with caps of {sorted(caps)}: {attempt}"


def _in_force(tenant: Tenant, capped: str, at: Took) -> set[int]:
    kind, part, limit = CAPS[capped]
    changes = [
        attempt
        for attempt in tenant.history.asked(f"Update{kind.title()}")
        if attempt.fields["id"] == tenant.ids[capped] and part in attempt.fields[kind]
    ]
    certain = [change for change in changes if change.ok and change.ended < at.began]
    caps = {
        change.fields[kind][part][limit]
        for change in changes
        if change.began < at.ended and not any(other.began > _end(change) for other in certain)
    }
    return caps if certain else {*caps, tenant.world[capped]}


def _end(attempt: Attempt) -> float:
    return attempt.ended or float("inf")


def owner_of(session_id: str) -> str:
    """Whom a session was made for."""
    return session_id.rpartition(".")[2]
