"""Who is told of events in a run: the hub's work as it is, and the integrations that it tells.

Messages of the event streams come as a consumer group brings them: at least once, those of a process that died to
another. (The loop of the real group, runtime/streams/consumer.py, reads without end, which a world of hours cannot
afford.) What the streams lost is found in the rows, by gaps.py as it is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Final, cast

import msgspec

from ops.simulation.loop import INCARNATION, Incarnation
from ops.simulation.node import Work
from ops.simulation.world import TENANT, Violation, World
from runtime.actors.engine import Engine
from runtime.errors import Fault
from runtime.groups import event_stream
from runtime.outgoing.connector import Answer, Connector, Unreachable
from runtime.stores.publisher import shard_of
from runtime.streams import backfill
from runtime.streams.consumer import Message
from runtime.streams.hub import Hub

HUB_SECONDS: Final = 0.2
"""How often a process reads its streams while something goes on."""

SUBSCRIPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "crm": (
        "play_completed",
        "prize_won",
        "prize_claimed",
        "quest_completed",
        "leaderboard_finalized",
        "delivery_failed",
    ),
    "mail": ("play_completed", "prize_won"),
}
"""The integrations of a run, and what each is to hear of; `mail` of the campaign alone."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "play_completed": ("play_id",),
    "prize_won": ("reward_id",),
    "prize_claimed": ("reward_id",),
    "leaderboard_finalized": ("leaderboard_id",),
}
"""By what of its data an event is told apart from others of its type."""

SAME_TIME_MICROSECONDS: Final = 2_000_000


class Subscribers:
    """Whoever listens. heard: {(integration, type, what it is of): the ids under which it was told}"""

    def __init__(self, world: World, seed: str) -> None:
        self.heard: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._world = world
        self._dice = Random(f"{seed}/subscribers")
        self._away_until: dict[str, float] = {}
        self._bodies: dict[tuple[str, str], Any] = {}
        self._held: dict[tuple[str, bytes], Incarnation | None] = {}
        """Messages that were read, by whom; None: acknowledged."""

    # -- the hub of a process ----------------------------------------------------------------------

    def jobs(self, engine: Engine) -> list[tuple[Work, float]]:
        """What a process with a hub does."""
        engine.dispatcher._connector = cast(Connector, self)
        hub = Hub(engine.dispatcher)
        stream = event_stream(shard_of(TENANT, engine.settings.stream_shards))
        filling = backfill.Filling(engine, asyncio.Event())
        return [
            (partial(self._read, hub, stream), HUB_SECONDS),
            (filling.begin, backfill.EVERY_SECONDS),
            (engine.dispatcher.retry_due, backfill.RETRY_SECONDS),
        ]

    async def _read(self, hub: Hub, stream: str) -> None:
        """One batch of what nobody has read, or whose reader died; acknowledged once it is handled."""
        valkey, me = self._world.stores.valkey, INCARNATION.get()
        if not valkey.up:
            return
        batch = []
        for identifier, fields in valkey.entries(stream.encode()):
            holder = self._held.get((stream, identifier), _NOBODY)
            if holder is not None and not holder.alive:
                self._held[stream, identifier] = me
                batch.append(Message(stream, identifier.decode(), fields))
        if not batch:
            return
        try:
            await hub.handle(batch)
        except Fault:  # the database is away: they wait
            for message in batch:
                del self._held[stream, message.id.encode()]
        else:
            for message in batch:
                self._held[stream, message.id.encode()] = None

    # -- the integrations --------------------------------------------------------------------------

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """As Connector.post: an integration's answer. Unreachable."""
        name = url.removeprefix("https://").partition(".")[0]
        fate = self._fate(name)
        await asyncio.sleep(self._dice.uniform(2.0, 9.0) if fate == "slow" else self._dice.uniform(0.001, 0.05))
        if fate == "refuses":
            return Answer(503, 0.0, b"")
        self._hear(name, msgspec.json.decode(body))
        if fate == "lost":
            raise Unreachable("the connection was reset")
        return Answer(200, 0.0, b"")

    def _fate(self, name: str) -> str:
        """Mostly it takes what comes; now and then it takes nothing for a while, so that it is left alone."""
        world = self._world
        if world.over:
            return "takes"
        if world.loop.now < self._away_until.get(name, 0.0):
            return "refuses"
        fate = self._dice.choices(("takes", "lost", "slow", "refuses", "leaves"), (82, 6, 4, 6, 2))[0]
        if fate == "leaves":
            self._away_until[name] = world.loop.now + self._dice.choice((1.0, 60.0, 900.0))
            return "refuses"
        return fate

    def _hear(self, name: str, event: Mapping[str, Any]) -> None:
        kind, identifier = event["type"], event["id"]
        if event["tenant_id"] != TENANT or kind not in SUBSCRIPTIONS[name]:
            self._violated("nobody hears what is not for them", f"events of {SUBSCRIPTIONS[name]}", f"{name}: {event}")
        first = self._bodies.setdefault((name, identifier), event)
        if _about(first) != _about(event) and not self._world.restored_at:
            self._violated("an event is the same whenever it is told", str(first), f"{name}: {event}")
        self.heard[name, kind, _about(event)].add(identifier)

    def _violated(self, name: str, expected: str, found: str) -> None:
        # Raised where the run sees it: here it would be the hub's to catch.
        self._world.found.append(Violation(name, expected, found, at=self._world.loop.now))

    # -- what must come of it ----------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When the next try is due, in virtual seconds; None: nothing waits."""
        due = [row.next_attempt_at for row in self._world.tables().integration_deliveries if row.status == "retry"]
        return self._world.stores.virtual(min(due)) if due else None

    def judge(self) -> None:
        """Violation where somebody was not told of what happened, or of what did not."""
        world, tables = self._world, self._world.tables()
        integrations = {row.integration_id: row for row in tables.integrations}
        happened = dict(_happened(tables))
        undone = self._undone(happened) if world.restored_at else set()
        for name in SUBSCRIPTIONS:
            row = integrations[world.ids[name]]
            for (kind, about), (at, play_id) in happened.items():
                if kind not in SUBSCRIPTIONS[name] or (name, kind, about) in self.heard:
                    continue
                if (name, kind, play_id) in undone:
                    continue
                if at > row.heard_from + SAME_TIME_MICROSECONDS and not world.stores.was_set_back_over(at):
                    raise Violation(
                        "an integration hears of everything",
                        f"{kind} of {about} at {name}",
                        f"nothing, and its log says {_log(tables, row, play_id or about)}",
                        at=world.loop.now,
                    )
        if world.restored_at:
            return  # What was told before may never have been.
        for (name, kind, about), told in self.heard.items():
            if kind in KEYS and about and (kind, about) not in happened:
                raise Violation("nothing is told that did not happen", "its row", f"{kind} of {about}: {name}")
            if kind in KEYS and about and len(told) > 1:
                raise Violation("what happened once has one event id", "one id", f"{kind} of {about}: {sorted(told)}")

    def _undone(self, happened: Container[tuple[str, str]]) -> set[tuple[str, str, str]]:
        """(who, kind, play) that were told of a play which a restore took back.

        Its session may be played anew, and that play's events have the same ids: who has such an id already, from a
        stream that the restore did not reach, is not told under it again.
        """
        return {
            (name, event["type"], f"play_{identifier.removeprefix('evt_').partition('_')[0]}")
            for (name, identifier), event in self._bodies.items()
            if event["type"] in ("play_completed", "prize_won")
            and _about(event)
            and (event["type"], _about(event)) not in happened
        }


class _Nobody:
    alive = False


_NOBODY: Final[Any] = _Nobody()


def _about(event: Mapping[str, Any]) -> str:
    """What an event is of: "" of points that a play drew, which leave no reward."""
    data = event["data"]
    names = KEYS.get(event["type"])
    return " ".join(str(data[name]) for name in names) if names else str(event["id"])


def _happened(tables: Any) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
    """((type, what of), (when, by which play)) of each thing that the rows tell of; the play is "" where it is none."""
    for row in tables.plays:
        yield ("play_completed", row.play_id), (row.played_at, row.play_id)
    for row in tables.rewards:
        yield ("prize_won", row.reward_id), (row.won_at, row.play_id)
        if row.claimed_at is not None:
            yield ("prize_claimed", row.reward_id), (row.claimed_at, "")
    for row in tables.quest_completions:
        yield ("quest_completed", row.event_id), (row.completed_at, "")
    for row in tables.leaderboards:
        if row.finalized_at is not None:
            yield ("leaderboard_finalized", row.board_id), (row.finalized_at, "")
    for row in tables.tasks:
        if row.status == "dead":
            identifier = f"evt_{row.task_id.rpartition('_')[2]}_{row.updated_at}"
            yield ("delivery_failed", identifier), (row.updated_at, "")


def _log(tables: Any, integration: Any, about: str) -> str:
    part = about.rpartition("_")[2]
    rows = [
        f"{row.status} after {row.attempts}: {row.error}"
        for row in tables.integration_deliveries
        if row.integration_id == integration.integration_id and part in row.event_id
    ]
    return "; ".join(rows) or "nothing"
