"""Objects in a storage that speaks S3's protocol (ASSETS_URL). Needs the extra `s3`.

Requests obey the same rules as all outgoing calls: allowed addresses only, no redirects, one deadline.
"""

from __future__ import annotations

import asyncio
import hashlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import aiohttp
import structlog

from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.connector import Connector, Network
from runtime.settings.kinds import Bucket

if TYPE_CHECKING:
    from aiohttp_s3_client import S3Client

OBJECT_BYTES_MAX: Final = 4 * 1024 * 1024
SECONDS: Final = 5.0
"""The deadline of a request: connection, request and response."""

FAILURES_TO_OPEN: Final = 5
OPEN_SECONDS: Final = 5.0
"""While the breaker is open, requests fail at once instead of after the deadline."""

log = structlog.get_logger(__name__)


class ObjectsUnavailable(Exception):
    """A request failed. The reason is in the log, not in the message."""


def is_available() -> bool:
    """Whether the extra `s3` is installed."""
    return find_spec("aiohttp_s3_client") is not None


class Objects:
    """Reads and writes whole objects. One per process; call `close` at shutdown."""

    def __init__(self, bucket: Bucket, key_id: str, secret: str, *, allow: tuple[Network, ...]) -> None:
        self._bucket = bucket
        self._key_id = key_id
        self._secret = secret
        self._connector = Connector(allow)
        self._client: S3Client | None = None
        self._breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)

    async def put(self, key: str, body: bytes, content_type: str) -> None:
        """Writes an object. Raises ObjectsUnavailable; the object may exist then."""
        await self._request("PUT", key, body, content_type)

    async def get(self, key: str) -> bytes | None:
        """An object; None if it does not exist. Raises ObjectsUnavailable."""
        return await self._request("GET", key)

    async def delete(self, key: str) -> None:
        """Deletes an object, if it exists. Raises ObjectsUnavailable."""
        await self._request("DELETE", key)

    async def close(self) -> None:
        await self._connector.close()

    async def _request(self, method: str, key: str, body: bytes = b"", content_type: str = "") -> bytes | None:
        now = asyncio.get_running_loop().time
        if not self._breaker.admits(now()):
            raise ObjectsUnavailable
        try:
            found = await self._send(method, key, body, content_type)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, ObjectsUnavailable) as error:
            self._breaker.record(True, now())
            # Without the client's text: it may quote the request's signature.
            reason = str(error) if isinstance(error, ObjectsUnavailable | OSError) else ""
            log.warning("objects_unavailable", method=method, key=key, error=reason[:300] or type(error).__name__)
            raise ObjectsUnavailable from None
        self._breaker.record(False, now())
        return found

    async def _send(self, method: str, key: str, body: bytes, content_type: str) -> bytes | None:
        headers = {"Content-Type": content_type} if content_type else {}
        async with asyncio.timeout(SECONDS):
            async with self._open().request(
                method,
                key,
                headers=headers,
                data=body if method == "PUT" else None,
                content_sha256=hashlib.sha256(body).hexdigest(),
                allow_redirects=False,
            ) as response:
                if response.status == 404 and method != "PUT":
                    return None
                if response.status >= 300:
                    raise ObjectsUnavailable(f"HTTP {response.status}")
                return await _read(response)

    def _open(self) -> S3Client:
        if self._client is None:
            from aiohttp_s3_client import S3Client

            self._client = S3Client(
                self._connector.session,
                self._bucket.url,
                access_key_id=self._key_id,
                secret_access_key=self._secret,
                region=self._bucket.region,
            )
        return self._client


async def _read(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for piece in response.content.iter_any():
        found += piece
        if len(found) > OBJECT_BYTES_MAX:
            raise ObjectsUnavailable("the object is too large")
    return bytes(found)
