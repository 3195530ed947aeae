"""Clients of the servers that hold the streams, for blocking reads."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from runtime.settings import Settings

BLOCK_MS: Final = 1_000
"""How long a read waits for messages: also how long a stop may wait for a read."""

CONNECT_SECONDS: Final = 2.0

SOCKET_SECONDS: Final = 5.0
"""Beyond BLOCK, so that a read that has nothing to say is not taken for a dead server."""


class Servers:
    """Where the streams are: clients for blocking reads, one for each user of a stream.

    Nothing is retried inside them: the loop does that, and knows what is safe. On a cluster each is a plain
    client of the node that owns the stream's slot. redis-py's own cluster client closes every node's
    connections when one fails, and with them the reads of all other streams.
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
        """Whether a stream's server may be another one after a failure."""
        return self._cluster

    async def client(self, stream: str) -> Redis:
        """A client of the server that has `stream` now; the caller closes it. Raises RedisError, OSError."""
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
