"""The ephemeral store (Valkey or Redis) on the request path: one server, or a cluster of them.

Each server has its own shared pipeline and breaker (runtime/stores/pipeline.py). Stream consumers do not use this:
a blocking read needs its own client (runtime/streams/servers.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import ConnectionPool, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)

from runtime.stores.pipeline import Arg, EphemeralDown, Pipeline

TOPOLOGY_SECONDS: Final = 0.5
"""How often the layout of a cluster with an unreachable node is refreshed."""

SLOT_MIGRATING: Final = (AskError, TryAgainError, ClusterDownError)
"""Errors while a slot migrates or has no owner (MovedError is an AskError): the command was not executed."""


BUCKETS: Final = 16
"""The hash tags of a tenant's players on a cluster. More would spread the keys over more nodes, but fewer concurrent
requests would share a script call."""


def _labels() -> tuple[str, ...]:
    """The buckets' labels: one for each sixteenth of the slots.

    CRC16 is linear: a prefix XORs the slots of all labels of one length with one number. So each tenant has a tag in
    every sixteenth, and nodes with equal parts of the slots get equal parts of the keys.
    """
    found: dict[int, str] = {}
    for number in range(256):
        label = f"{number:02x}"
        found.setdefault(key_slot(label.encode()) * BUCKETS // REDIS_CLUSTER_HASH_SLOTS, label)
    return tuple(found.values())


_LABELS: Final = _labels()


def tag_of(tenant_id: str, player_id: str) -> str:
    """The hash tag of a player's keys, which a request reads together. The tag of the tenant's other keys is its id."""
    return f"{tenant_id}:{_LABELS[zlib.crc32(player_id.encode('utf-8', 'surrogatepass')) % BUCKETS]}"


CONNECT_SECONDS: Final = 1.0
LANES: Final = 2
"""Connections of a server."""


class Script:
    """A Lua script and its digest on the server."""

    __slots__ = ("sha", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Ephemeral:
    """The store for the request path.

    `url` is redis://, rediss:// or unix://. With `cluster` the URL names any node of a Valkey or Redis Cluster; each
    command goes to the node of its first key, so keys used together share a hash tag. `timeout_seconds` limits what a
    frozen store costs a request. `on_state(up)` is called when the breaker opens or closes.

    Replies are plain RESP2: bytes, int, list, None.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: bool = False,
        timeout_seconds: float = 0.2,
        on_state: Callable[[bool], None] | None = None,
    ) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._on_state = on_state
        self._was_up = False
        self._pipelines: dict[str, Pipeline] = {}
        self._single: Pipeline | None = None
        self._cluster: RedisCluster | None = None
        self._is_cluster = cluster
        self._refresh: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._posts_lost = 0

    async def start(self) -> None:
        """Connects. A store that is down is not an error: the breaker stays open and the probe continues."""
        if self._is_cluster:
            self._cluster = RedisCluster.from_url(
                self._url,
                socket_timeout=CONNECT_SECONDS,
                socket_connect_timeout=CONNECT_SECONDS,
            )
            self._refresh = asyncio.get_running_loop().create_task(self._follow_topology(self._cluster))
            with suppress(RedisError, RedisClusterException, OSError):
                await self._read_topology(self._cluster)
        else:
            self._single = self._pipeline(self._url)
        for pipeline in list(self._pipelines.values()):
            await pipeline.probed()

    async def close(self) -> None:
        """Fails waiting commands and closes every connection."""
        if self._refresh is not None:
            self._refresh.cancel()
            with suppress(asyncio.CancelledError):
                await self._refresh
        if self._posting:
            await asyncio.wait(self._posting, timeout=self._timeout_seconds)
        for pipeline in self._pipelines.values():
            await pipeline.close()
        if self._cluster is not None:
            await self._cluster.aclose()

    @property
    def up(self) -> bool:
        """Whether calls are attempted: every breaker is closed."""
        if self._single is not None:
            return self._single.up
        return bool(self._pipelines) and all(pipeline.up for pipeline in self._pipelines.values())

    @property
    def sharded(self) -> bool:
        """Whether all keys of a script must share one hash tag."""
        return self._is_cluster

    @property
    def round_trips(self) -> int:
        """Pipelines sent; `commands / round_trips` is the average batch size."""
        return sum(pipeline.round_trips for pipeline in self._pipelines.values())

    @property
    def commands(self) -> int:
        """Commands sent."""
        return sum(pipeline.commands for pipeline in self._pipelines.values())

    @property
    def lost(self) -> int:
        """Posted commands that failed or have an unknown outcome."""
        return self._posts_lost + sum(pipeline.lost for pipeline in self._pipelines.values())

    @property
    def trips(self) -> int:
        """Times that a breaker opened."""
        return sum(pipeline.trips for pipeline in self._pipelines.values())

    def run(self, *command: Arg) -> Awaitable[Any]:
        """`await run("GET", key)` -> the reply.

        Raises EphemeralDown (here or when awaited), or redis' ResponseError for this command alone.
        """
        if self._single is not None:
            return self._single.call(command)
        return self._run_on_cluster(command)

    async def script(self, script: Script, keys: Sequence[Arg], args: Sequence[Arg]) -> Any:
        """Runs a script by its digest in the shared pipeline; sends the source once to a server without it."""
        try:
            return await self.run("EVALSHA", script.sha, len(keys), *keys, *args)
        except NoScriptError:  # Not executed, so sending it again is safe.
            return await self.run("EVAL", script.source, len(keys), *keys, *args)

    def post(self, *command: Arg) -> None:
        """Sends without waiting, in the same pipeline. Never raises; losses are counted."""
        if self._single is not None:
            self._single.post(command)
            return
        try:
            reply = self._route(command).call(command)
        except EphemeralDown:
            self._posts_lost += 1
            return
        reply.add_done_callback(partial(self._posted, command))

    async def flush(self) -> None:
        """Clears every server. Raises EphemeralDown, or RedisError if one refuses."""
        await asyncio.gather(*[pipeline.call(("FLUSHDB", "ASYNC")) for pipeline in self._pipelines.values()])

    async def delete_of(self, selected: Callable[[str], bool], prefix: str = "") -> None:
        """Deletes the keys of the tenants that `selected` accepts, by their hash tags: the tenant, or tenant:bucket.

        prefix: that of the keys to delete.
        """
        for pipeline in self._pipelines.values():
            cursor = b"0"
            while True:
                cursor, keys = await pipeline.call(("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 1000))
                tags = {key: key.partition(b"{")[2].partition(b"}")[0].partition(b":")[0].decode() for key in keys}
                found = [key for key, tag in tags.items() if tag and selected(tag)]
                await asyncio.gather(*[pipeline.call(("UNLINK", key)) for key in found])
                if cursor == b"0":
                    break

    async def ping(self, timeout_seconds: float = 0.2) -> bool:
        """Whether the breaker is closed and every server answers within the timeout (for /readyz)."""
        if not self.up:
            return False
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*[pipeline.call(("PING",)) for pipeline in self._pipelines.values()])
        except (EphemeralDown, RedisError, TimeoutError):
            return False
        return True

    # -- servers -----------------------------------------------------------------------------

    def _pipeline(self, url: str) -> Pipeline:
        pool: ConnectionPool = ConnectionPool.from_url(
            url,
            protocol=2,
            socket_timeout=None,  # The lane has one deadline: a timer per reply costs more than the reply.
            socket_connect_timeout=CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        pipeline = Pipeline(
            pool,
            timeout_seconds=self._timeout_seconds,
            connect_timeout_seconds=CONNECT_SECONDS,
            lanes=LANES,
            on_state=self._report_state,
        )
        self._pipelines[url] = pipeline
        return pipeline

    def _report_state(self) -> None:
        if self._on_state is not None and self.up != self._was_up:
            self._was_up = self.up
            self._on_state(self.up)

    # -- cluster -----------------------------------------------------------------------------

    async def _run_on_cluster(self, command: tuple[Arg, ...]) -> Any:
        try:
            try:
                return await self._route(command).call(command)
            except MovedError as moved:
                return await self._run_after_move(command, moved)
        except SLOT_MIGRATING as error:  # Degrade until the slot has moved.
            raise EphemeralDown("the slot is migrating or has no owner") from error

    async def _run_after_move(self, command: tuple[Arg, ...], moved: MovedError) -> Any:
        """Sends a command that was not executed to the slot's new node, and records that node."""
        assert self._cluster is not None
        await self._cluster.nodes_manager.move_slot(moved)
        return await self._route(command).call(command)

    def _posted(self, command: tuple[Arg, ...], reply: asyncio.Future[Any]) -> None:
        """Handles a posted command's reply. Follows a moved slot: otherwise all later commands would be lost."""
        error = reply.exception()
        if isinstance(error, MovedError):
            task = asyncio.get_running_loop().create_task(self._post_after_move(command, error))
            self._posting.add(task)  # The loop keeps only weak references to tasks.
            task.add_done_callback(self._posting.discard)
        elif error is not None:
            self._posts_lost += 1

    async def _post_after_move(self, command: tuple[Arg, ...], moved: MovedError) -> None:
        try:
            await self._run_after_move(command, moved)
        except (EphemeralDown, RedisError):
            self._posts_lost += 1

    def _route(self, command: tuple[Arg, ...]) -> Pipeline:
        """The pipeline to the node that owns the command's first key; any node for a command without keys."""
        if self._cluster is None or not self._pipelines:
            raise EphemeralDown("the cluster's nodes are unknown")
        place = 3 if command[0] in ("EVALSHA", "EVAL") else 1
        if len(command) <= place:
            return next(iter(self._pipelines.values()))
        try:
            node = self._cluster.nodes_manager.get_node_from_slot(self._cluster.keyslot(command[place]))
        except (RedisError, RedisClusterException) as exc:
            raise EphemeralDown("no node owns the slot") from exc
        return self._node_pipeline(node)

    def _node_pipeline(self, node: ClusterNode) -> Pipeline:
        parts = urlsplit(self._url)
        credentials = parts.netloc.rpartition("@")[0]
        address = f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
        url = urlunsplit(parts._replace(netloc=f"{credentials}@{address}" if credentials else address))
        return self._pipelines.get(url) or self._pipeline(url)

    async def _read_topology(self, cluster: RedisCluster) -> None:
        """Reads the nodes: opens a pipeline to each new primary and closes those to removed nodes."""
        await cluster.nodes_manager.initialize()
        current = {id(self._node_pipeline(node)) for node in cluster.get_primaries()}
        for url, pipeline in list(self._pipelines.items()):
            if id(pipeline) not in current:
                del self._pipelines[url]
                await pipeline.close()

    async def _follow_topology(self, cluster: RedisCluster) -> None:
        """While a node is down, asks the others who took its slots. MOVED replies report all other changes."""
        while True:
            await asyncio.sleep(TOPOLOGY_SECONDS)
            if not self.up:
                with suppress(RedisError, RedisClusterException, OSError):
                    await self._read_topology(cluster)
                    self._report_state()
