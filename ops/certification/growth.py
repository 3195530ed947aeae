"""What may grow in hours of load, read when it is quiet, and the ceilings that it is held to.

What a process holds is compared with what it held after its own warm-up: memory, open files, and blocks of memory,
which are about as many as its objects. Keys of Valkey are counted by their kind: of each there may be as many as were
asked for, or as there are tenants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from redis.asyncio import Redis

from ops.certification.node import Node
from ops.certification.row import Figure
from ops.certification.stack import DATABASE, Stack
from ops.history.record import History

WARM: Final = 0.2
"""Part of its life after which a process has the size that it keeps."""

MEBIBYTE: Final = 1 << 20
CEILINGS: Final = {"rss": 60.0, "files": 50.0, "blocks": 20_000.0, "wal": 2560.0, "valkey": 256.0}
"""MiB that a process may grow by, files that it may open beyond, blocks that its objects may have beyond, MiB of WAL
and of Valkey's memory at most.
"""
BLOCKS_A_REQUEST: Final = 0.1
"""And so many blocks more: caches fill up at first, and a process that keeps one object of each request is found."""


@dataclass
class Asked:
    """What was asked of the service: tenants, requests, those under a key, starts of a session,
    boards that were made, and players.
    """

    tenants: int = 0
    requests: int = 0
    keyed: int = 0
    starts: int = 0
    boards: int = 0
    players: int = 0


SHARDS: Final = 4
ADDRESSES: Final = 4
KINDS: Final[Mapping[str, Callable[[Asked], int]]] = {
    "k": lambda asked: asked.keyed,
    "s": lambda asked: asked.starts,
    "r": lambda asked: asked.players,
    "i": lambda asked: ADDRESSES,
    "fresh": lambda asked: asked.tenants,
    "tombola:board": lambda asked: asked.tenants + 3 * asked.boards,
    "tombola:events": lambda asked: SHARDS,
    "tombola:tasks": lambda asked: SHARDS,
    "tombola:dead": lambda asked: SHARDS,
    "tombola:history": lambda asked: 1,
}
"""How many keys of a kind there may be: idempotency keys, sessions, rates of players and of addresses, versions of what
edges cache, live rankings, streams and their dead letters, and which database it was. Others may not be there.
"""


def kind_of(key: str) -> str:
    """Its kind: `s` of `{tenant}s:session`, `tombola:board` of `tombola:board:{tenant}:...`."""
    found = re.match(r"tombola:[a-z]+|[a-z]+", re.sub(r"^\{[^}]*\}", "", key))
    return found.group() if found else key


@dataclass
class Growth:
    """What each process and store held after each chapter. lives: by process and its pid, in the order of time."""

    lives: dict[tuple[str, int], list[dict[str, int]]] = field(default_factory=dict)
    wal_mebibytes: list[float] = field(default_factory=list)
    valkey_mebibytes: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    total: Asked = field(default_factory=Asked)

    def asked(self, history: History) -> None:
        """Counts what a chapter asked, whose tenant is its own."""
        self.total.tenants += 1
        self.total.requests += len(history.attempts)
        self.total.keyed += sum(bool(asked.key) for asked in history.asked)
        self.total.starts += sum(attempt.ok for asked in history.of("Start") for attempt in asked.attempts)
        self.total.boards += sum(len(asked.attempts) for asked in history.of("CreateLeaderboard"))
        self.total.players += len({asked.who for asked in history.asked})

    async def read(self, stack: Stack) -> None:
        """What is held now."""
        for node in stack.nodes.values():
            held = {**node.resources(), "blocks": await _blocks(stack, node)}
            self.lives.setdefault((node.name, node.pid), []).append(held)
        wal = await stack.blocking(stack.postgres.psql, "SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()", DATABASE)
        self.wal_mebibytes.append(int(wal) / MEBIBYTE)
        client: Any = Redis.from_url(stack.valkey.url)
        async with client:
            self.valkey_mebibytes.append((await client.info("memory"))["used_memory"] / MEBIBYTE)
            # The greatest number of each: what Valkey lost, by a fault, is no proof of anything.
            self.kinds |= Counter([kind_of(key.decode()) async for key in client.scan_iter(count=1000)])

    def grown(self, what: str) -> tuple[float, str]:
        """By how much the process grew that grew most, after its own warm-up, and which it was."""
        most, who = 0.0, "none"
        for (name, _), readings in self.lives.items():
            values = [reading[what] for reading in readings[max(1, int(len(readings) * WARM)) :]]
            if len(values) > 1 and values[-1] - values[0] > most:
                most, who = float(values[-1] - values[0]), name
        return most, who

    def figures(self) -> list[Figure]:
        """Held to their ceilings."""
        (rss, fattest), (files, hoarder) = self.grown("rss_bytes"), self.grown("files")
        blocks, keeper = self.grown("blocks")
        blocks_most = CEILINGS["blocks"] + BLOCKS_A_REQUEST * self.total.requests
        told = [
            (f"growth of memory ({fattest})", rss / MEBIBYTE, "MiB", CEILINGS["rss"]),
            (f"growth of open files ({hoarder})", files, "", CEILINGS["files"]),
            (f"growth of objects ({keeper})", blocks, "blocks", blocks_most),
            ("WAL", max(self.wal_mebibytes), "MiB", CEILINGS["wal"]),
            ("Valkey's memory", max(self.valkey_mebibytes), "MiB", CEILINGS["valkey"]),
        ]
        for kind, count in sorted(self.kinds.items()):
            told.append((f"keys of Valkey: {kind}", count, "", KINDS[kind](self.total) if kind in KINDS else 0))
        return [Figure(name, value, unit, f"at most {most:.0f}", value <= most) for name, value, unit, most in told]


async def _blocks(stack: Stack, node: Node) -> int:
    """What the process counts of itself."""
    async with stack.http.get(f"{node.url('metrics')}/metrics") as answer:
        text = await answer.text()
    found = re.search(r"^tombola_python_blocks (\S+)$", text, re.MULTILINE)
    assert found is not None, f"{node.name} does not say how many blocks it has"
    return int(float(found.group(1)))
