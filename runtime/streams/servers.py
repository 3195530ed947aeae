"""Redis clients for blocking reads of streams."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from runtime.settings import Settings

BLOCK_MS: Final = 1_000
"""How long a read waits for messages, and therefore how long a stop may wait for a read."""

CONNECT_SECONDS: Final = 2.0

SOCKET_SECONDS: Final = 5.0
"""Longer than BLOCK_MS, so that a read without messages is not mistaken for a dead server."""


class Servers:
    """Creates clients for blocking reads, one for each reader of a stream.

    The clients never retry; the consumer loop does, since it knows what is safe to repeat. On a cluster each is a plain
    client of the node that owns the stream's slot: redis-py's cluster client closes every node's connections when one
    fails, and so interrupts the reads of all other streams.
    """

    def __init__(self, settings: Settings, *, timeout_seconds: float = BLOCK_MS / 1000 + SOCKET_SECONDS) -> None:
        self._url = settings.redis_url
        self._cluster = settings.redis_cluster
        self._options: dict[str, Any] = {
            "protocol": 2,
            "socket_timeout": timeout_seconds,
            "socket_connect_timeout": CONNECT_SECONDS,
            "retry": Retry(NoBackoff(), 0),
        }

    @property
    def may_move(self) -> bool:
        """Whether a stream may move to another server after a failure."""
        return self._cluster

    async def client(self, stream: str) -> Redis:
        """A client of the server that has `stream` now, not yet connected. The caller closes it.

        Raises RedisError or OSError if a cluster cannot be asked for the server. The client keeps its server when the
        stream moves: after an error, get another one.
        """
        if not self._cluster:
            return Redis.from_url(self._url, **self._options)
        cluster = RedisCluster.from_url(self._url, require_full_coverage=False, **self._options)
        try:
            await cluster.initialize()
            node = cluster.get_node_from_key(stream)
            if node is None:
                raise RedisError(f"no node owns the slot of {stream}")
            parts = urlsplit(self._url)
            host = f"[{node.host}]" if ":" in str(node.host) else str(node.host)
            credentials, at, _ = parts.netloc.rpartition("@")
            address = parts._replace(netloc=f"{credentials}{at}{host}:{node.port}")
            return Redis.from_url(urlunsplit(address), **self._options)
        finally:
            await cluster.aclose()
