"""A model of Valkey for the simulation: the commands and scripts that Core's part of the request path uses.

`ModelEphemeral` is the service's own client, with its shared pipeline and its breaker; only its connections are
others. Commands of one connection are carried out in their order, those of several in any.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from copy import deepcopy
from typing import Any, Final, cast

from hiredis import Reader
from redis.asyncio import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from ops.simulation.network import Calm, Network
from runtime.stores import ranking_sets
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import Pipeline

Words = list[bytes]
"""A command: its name and its arguments."""

SERVER: Final = "valkey"


class ModelValkey:
    """All that one Valkey holds. clock: its time in seconds. What is not kept durably is lost with it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.up = True
        self._clock = clock
        self._values: dict[bytes, Any] = {}
        self._ends: dict[bytes, float] = {}
        self._scripts: set[bytes] = set()
        self._ids = 0
        self.connections: dict[_Connection, None] = {}

    def flush(self) -> None:
        """FLUSHALL: scripts stay."""
        self._values.clear()
        self._ends.clear()

    def replica(self) -> Callable[[], None]:
        """Remembers all that it holds, as a replica that hears no more; what is given back promotes that one."""
        values, ends = deepcopy(self._values), dict(self._ends)

        def promote() -> None:
            self._values, self._ends = values, ends

        return promote

    def stop(self) -> None:
        """It is away: every connection is cut."""
        self.up = False
        for connection in list(self.connections):
            connection.cut()

    def start(self, *, empty: bool = True) -> None:
        """It is back, as after a restart: `empty`, or with what it had."""
        self.up = True
        self._scripts.clear()
        if empty:
            self.flush()

    # -- what scripts and commands share -----------------------------------------------------------

    def value(self, key: bytes, kind: type) -> Any:
        """The value of a key, of its type; a new one, which is not kept, where there is none."""
        value = self._values[key] if self._has(key) else None
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def _has(self, key: bytes) -> bool:
        """Whether there is such a key: one whose time is over is none."""
        if self._ends.get(key, float("inf")) <= self._clock():
            self._forget(key)
        return key in self._values

    def keep(self, key: bytes, value: Any) -> None:
        """Keeps a value; an empty set, hash or list is none."""
        if value:
            self._values[key] = value
        else:
            self._forget(key)

    def _forget(self, key: bytes) -> bool:
        self._ends.pop(key, None)
        return self._values.pop(key, None) is not None

    def ranked(self, key: bytes) -> list[bytes]:
        """The members of a sorted set in their order."""
        scores = self.value(key, dict)
        return sorted(scores, key=lambda member: (scores[member], member))

    # -- commands ----------------------------------------------------------------------------------

    def carry_out(self, command: Words) -> Any:
        """The reply to a command, an exception where it is an error."""
        carry = _COMMANDS.get(command[0].upper())
        try:
            if carry is None:
                raise LookupError(f"there is no model of {command[0]!r}")
            return carry(self, command[1:])
        except ResponseError as error:
            return error

    def ping(self, words: Words) -> bytes:
        return b"PONG"

    def get(self, words: Words) -> bytes | None:
        return cast(bytes, self.value(words[0], bytes)) if self._has(words[0]) else None

    def set(self, words: Words) -> bytes | None:
        key, value, *options = words
        if b"NX" in options and self._has(key):
            return None
        self._ends.pop(key, None)
        self._values[key] = value
        for unit, seconds in ((b"PX", 0.001), (b"EX", 1.0)):
            if unit in options:
                self._ends[key] = self._clock() + int(options[options.index(unit) + 1]) * seconds
        return b"OK"

    def incr(self, words: Words) -> int:
        number = int(self.value(words[0], bytes) or b"0") + 1
        self._values[words[0]] = b"%d" % number
        return number

    def unlink(self, words: Words) -> int:
        return sum([self._has(key) and self._forget(key) for key in words])

    def expire(self, words: Words) -> int:
        if not self._has(words[0]):
            return 0
        self._ends[words[0]] = self._clock() + int(words[1])
        return 1

    def rename(self, words: Words) -> bytes:
        old, new = words
        if not self._has(old):
            raise ResponseError("no such key")
        end = self._ends.get(old)
        self._values[new] = self._values[old]
        self._forget(old)
        self._ends.pop(new, None)
        if end is not None:
            self._ends[new] = end
        return b"OK"

    def hget(self, words: Words) -> bytes | None:
        return cast("bytes | None", self.value(words[0], dict).get(words[1]))

    def hmget(self, words: Words) -> list[bytes | None]:
        fields = self.value(words[0], dict)
        return [fields.get(name) for name in words[1:]]

    def hset(self, words: Words) -> int:
        fields = self.value(words[0], dict)
        added = len(set(words[1::2]) - fields.keys())
        fields.update(zip(words[1::2], words[2::2], strict=True))
        self.keep(words[0], fields)
        return added

    def hdel(self, words: Words) -> int:
        fields = self.value(words[0], dict)
        gone = sum(fields.pop(name, None) is not None for name in words[1:])
        self.keep(words[0], fields)
        return gone

    def count(self, words: Words) -> int:
        """HLEN, ZCARD."""
        return len(self.value(words[0], dict))

    def zadd(self, words: Words) -> int:
        key, *rest = words
        only_new = rest[0] == b"NX"
        pairs = rest[1:] if only_new else rest
        scores = self.value(key, dict)
        added = 0
        for score, member in zip(pairs[::2], pairs[1::2], strict=True):
            added += member not in scores
            if not (only_new and member in scores):
                scores[member] = float(score)
        self.keep(key, scores)
        return added

    def zrem(self, words: Words) -> int:
        return self.hdel(words)

    def zrank(self, words: Words) -> int | None:
        members = self.ranked(words[0])
        return members.index(words[1]) if words[1] in members else None

    def zrange(self, words: Words) -> list[bytes]:
        first, last = int(words[1]), int(words[2])
        return self.ranked(words[0])[first : last + 1 if last != -1 else None]

    def xadd(self, words: Words) -> bytes:
        place = words.index(b"*")
        longest = int(words[place - 1]) if b"MAXLEN" in words[:place] else None
        entries = self.value(words[0], list)
        self._ids += 1
        identifier = b"%d-%d" % (int(self._clock() * 1000), self._ids)
        entries.append((identifier, dict(zip(words[place + 1 :: 2], words[place + 2 :: 2], strict=True))))
        self.keep(words[0], entries[-longest:] if longest is not None else entries)
        return identifier

    def xlen(self, words: Words) -> int:
        return len(self.value(words[0], list))

    def entries(self, key: bytes) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """What a stream holds, the oldest first."""
        return list(self.value(key, list))

    def evalsha(self, words: Words) -> Any:
        if words[0] not in self._scripts:
            raise NoScriptError("No matching script. Please use EVAL.")
        count = int(words[1])
        return _SCRIPTS[words[0]](self, words[2 : 2 + count], words[2 + count :])

    def eval(self, words: Words) -> Any:
        sha = Script(words[0].decode()).sha.encode()
        self._scripts.add(sha)
        return self.evalsha([sha, *words[1:]])

    def flushall(self, words: Words) -> bytes:
        self.flush()
        return b"OK"


_COMMANDS: Final[dict[bytes, Callable[[ModelValkey, Words], Any]]] = {
    b"PING": ModelValkey.ping,
    b"GET": ModelValkey.get,
    b"SET": ModelValkey.set,
    b"INCR": ModelValkey.incr,
    b"DEL": ModelValkey.unlink,
    b"UNLINK": ModelValkey.unlink,
    b"EXPIRE": ModelValkey.expire,
    b"RENAME": ModelValkey.rename,
    b"HGET": ModelValkey.hget,
    b"HMGET": ModelValkey.hmget,
    b"HSET": ModelValkey.hset,
    b"HDEL": ModelValkey.hdel,
    b"HLEN": ModelValkey.count,
    b"ZADD": ModelValkey.zadd,
    b"ZREM": ModelValkey.zrem,
    b"ZCARD": ModelValkey.count,
    b"ZRANK": ModelValkey.zrank,
    b"ZRANGE": ModelValkey.zrange,
    b"XADD": ModelValkey.xadd,
    b"XLEN": ModelValkey.xlen,
    b"EVALSHA": ModelValkey.evalsha,
    b"EVAL": ModelValkey.eval,
    b"FLUSHALL": ModelValkey.flushall,
    b"FLUSHDB": ModelValkey.flushall,
}


# -- scripts: those of runtime/stores/ranking_sets.py ----------------------------------------------


def _read(db: ModelValkey, keys: Words, args: Words) -> list[Any]:
    order, places, meta = keys
    count, as_of = db.hmget([meta, b"count", b"as_of"])
    if count is None or db.count([order]) != int(count) or db.count([places]) != int(count):
        return [0]
    start = 0
    if args[0] != b"":
        added = db.zadd([order, b"NX", args[1], args[0]])
        start = db.ranked(order).index(args[0])
        if added:
            db.zrem([order, args[0]])
        else:
            start += 1
    members = db.ranked(order)[start : start + int(args[2])]
    found = db.hmget([places, *(member[32:] for member in members)])
    place, rank = b"", -1
    if args[3] != b"":
        place = db.hget([places, args[3]]) or b""
        if place:
            rank = db.ranked(order).index(place[:32] + args[3])
    return [1, as_of, start, members, found, rank, place]


def _write(db: ModelValkey, keys: Words, args: Words) -> int:
    order, places, meta = keys
    config, version, count = db.hmget([meta, b"config", b"version", b"count"])
    if config is None:
        return 0
    if db.count([order]) != int(count or 0) or db.count([places]) != int(count or 0):
        db.unlink([meta])
        return 0
    if config != args[0]:
        return 3
    if args[1] < (version or b""):
        return 2
    for player, score, standing, name in zip(args[2::4], args[3::4], args[4::4], args[5::4], strict=True):
        place = db.hget([places, player]) or b""
        was = place[:32]
        if was and was != standing:
            db.zrem([order, was + player])
        if standing == b"":
            db.hdel([places, player])
        else:
            if was != standing:
                db.zadd([order, score, standing + player])
            db.hset([places, player, standing + name])
    db.hset([meta, b"version", args[1], b"count", b"%d" % db.count([order])])
    return 1


def _swap(db: ModelValkey, keys: Words, args: Words) -> int:
    order, places, meta, new_order, new_places = keys
    config, version, as_of, count, seconds = args
    if db.count([new_order]) != int(count) or db.count([new_places]) != int(count):
        return 0
    db.unlink([order, places, meta])
    db.hset([meta, b"config", config, b"version", version, b"as_of", as_of, b"count", count])
    db.expire([meta, seconds])
    if int(count) > 0:
        for new, key in ((new_order, order), (new_places, places)):
            db.rename([new, key])
            db.expire([key, seconds])
    return 1


def _mark(db: ModelValkey, keys: Words, args: Words) -> int:
    if db.hget([keys[2], b"config"]) != args[0]:
        return 0
    db.hset([keys[2], b"as_of", args[1]])
    for key in keys:
        db.expire([key, args[2]])
    return 1


_SCRIPTS: Final[dict[bytes, Callable[[ModelValkey, Words, Words], Any]]] = {
    script.sha.encode(): model
    for script, model in (
        (ranking_sets._READ, _read),
        (ranking_sets._WRITE, _write),
        (ranking_sets._SWAP, _swap),
        (ranking_sets._MARK, _mark),
    )
}


# -- the client ------------------------------------------------------------------------------------


class _Connection:
    """A connection, with what the pipeline uses of redis-py's."""

    def __init__(self, server: ModelValkey, network: Network) -> None:
        self._server = server
        self._network = network
        self._open = False
        self._replies: deque[Any] = deque()
        self._reader = Reader()
        self._work: asyncio.Task[list[Any]] | None = None

    async def connect(self) -> None:
        try:
            await self._network.before(SERVER, "connect")
        except OSError as error:
            raise RedisConnectionError("the store is away") from error
        if not self._server.up:
            raise RedisConnectionError("the store is away")
        self._open = True
        self._server.connections[self] = None

    async def send_packed_command(self, data: bytes, check_health: bool = True) -> None:
        if not self._open:
            raise RedisConnectionError("the connection is closed")
        self._reader.feed(data)
        commands = []
        while (command := self._reader.gets()) is not False:
            commands.append(command)
        loop = asyncio.get_running_loop()
        self._work = loop.create_task(self._carry_out(commands), context=Context())
        self._work.add_done_callback(_seen)

    async def _carry_out(self, commands: Sequence[Words]) -> list[Any]:
        what = commands[0][0].decode()
        await self._network.before(SERVER, what)
        replies = []
        for command in commands:
            if not self._open:
                raise ConnectionResetError("the store went away")
            replies.append(self._server.carry_out(command))
            if len(commands) > 1:
                await asyncio.sleep(0)  # Others' commands come in between.
        await self._network.after(SERVER, what)
        return replies

    async def read_response(self, timeout: float | None = None, disconnect_on_error: bool = True) -> Any:  # noqa: ASYNC109
        if not self._replies:
            assert self._work is not None
            try:
                self._replies.extend(await asyncio.shield(self._work))
            except OSError as error:
                raise RedisConnectionError("the connection was lost") from error
        reply = self._replies.popleft()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def disconnect(self, nowait: bool = False) -> None:
        self.cut()

    def cut(self) -> None:
        """The connection is gone: what has arrived may be carried out, nothing is answered."""
        self._open = False
        self._server.connections.pop(self, None)


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


class _Pool:
    """Makes connections."""

    def __init__(self, server: ModelValkey, network: Network) -> None:
        self._server = server
        self._network = network

    def make_connection(self) -> _Connection:
        return _Connection(self._server, self._network)


class ModelEphemeral(Ephemeral):
    """The ephemeral store of one simulated process."""

    def __init__(self, server: ModelValkey, *, network: Network | None = None, **given: Any) -> None:
        super().__init__("", **given)
        self._server = server
        self._network = network or Calm()

    def _pipeline(self, url: str) -> Pipeline:
        pipeline = Pipeline(
            cast(ConnectionPool, _Pool(self._server, self._network)),
            timeout_seconds=self._timeout_seconds,
            connect_timeout_seconds=self._connect_timeout_seconds,
            lanes=self._lane_count,
            on_state=self._tell_state,
        )
        self._pipelines[url] = pipeline
        return pipeline
