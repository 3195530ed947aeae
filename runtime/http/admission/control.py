"""Admission of a gameplay request: its rates, its idempotency key and its session, asked in one script call.

Admissions that meet in one iteration of the event loop and belong to one tenant are one script call. Their
keys all have the tenant's hash tag, so that one call meets one cluster node.

The store is a convenience: with it gone everybody is admitted, without a session and without a
reservation, and the durable guards decide alone (spec.md, "Consistency rules" 3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from redis.exceptions import RedisError

from runtime.http.admission import idempotency, rates
from runtime.http.admission.idempotency import InProgress, Mismatch, Replay, Reservation
from runtime.http.admission.rates import Limited, Policy, Rates
from runtime.http.admission.session_cache import session_key
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import Arg, EphemeralDown

BATCH_MAX: Final = 64
"""Admissions in one script call: the store serves nobody else while it runs."""

log = structlog.get_logger(__name__)

_PLAYER, _IP, _KEY, _SESSION = 1, 2, 4, 8

_ADMIT: Final = Script(
    """
-- KEYS: per entry its player, ip, idempotency and session key, each only where the entry's mask has it.
-- ARGV: player interval us, player tolerance us, ip interval us, ip tolerance us, reservation ms,
--       then per entry: mask (1 player, 2 ip, 4 idempotency, 8 session), body hash.
-- Per entry: {verdict, policy or stored answer, player TAT - now us or -1, ip TAT - now us or -1, session}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""
    + rates.ADMIT_RATES
    + idempotency.RESERVE
    + """
local replies, at = {}, 1
for arg = 6, #ARGV, 2 do
  local mask, keys = tonumber(ARGV[arg]), {}
  for slot = 1, 4 do
    if math.floor(mask / 2 ^ (slot - 1)) % 2 == 1 then
      keys[slot] = KEYS[at]
      at = at + 1
    end
  end
  local reply = {0, '', -1, -1, ''}
  if admit_rates(keys, reply) and (not keys[3] or reserve(keys[3], ARGV[arg + 1], reply)) and keys[4] then
    reply[5] = redis.call('GET', keys[4]) or ''
  end
  replies[#replies + 1] = reply
end
return replies
"""
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go on. `session` is what the cache holds (None: unknown here); `reservation` is what `settle` needs."""

    session: bytes | None = None
    headers: dict[str, str] | None = None
    reservation: Reservation | None = None


Admission = Allowed | Limited | Replay | Mismatch | InProgress

_UNLIMITED: Final = Allowed()


@dataclass(slots=True)
class _Batch:
    """Admissions of one tenant that leave in one script call."""

    keys: list[Arg]
    args: list[Arg]
    waiters: list[asyncio.Future[list[int | bytes] | None]]


class AdmissionControl:
    """Admits gameplay requests; one per edge process."""

    def __init__(
        self,
        store: Ephemeral,
        *,
        player: Policy,
        ip: Policy,
        reservation_seconds: float = idempotency.RESERVATION_SECONDS,
    ) -> None:
        self._store = store
        self._rates = Rates(player, ip)
        self._common: list[Arg] = [*self._rates.args(), round(reservation_seconds * 1000)]
        self._open: dict[str, _Batch] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def admit(
        self,
        tenant_id: str,
        *,
        player_id: str = "",
        ip: str = "",
        route: str = "",
        idempotency_key: str = "",
        body_hash: bytes = b"",
        session_id: str = "",
    ) -> Admission:
        """Charge the rates, reserve the idempotency key and look the session up, in that order and in one call.

        `ip` is `client_ip`'s; without it the rates do not hold (claim, redeem). `route` is the method
        and the concrete path, so that one key on two games is two keys. `body_hash` is `hash_body`'s.
        """
        store = self._store
        if not store.up:
            return _UNLIMITED
        mask = 0
        keys: list[Arg] = []
        if ip:
            if player_id:
                keys.append(rates.player_key(tenant_id, player_id))
                mask = _PLAYER
            keys.append(rates.ip_key(tenant_id, ip))
            mask |= _IP
        reservation = None
        if idempotency_key:
            reservation = idempotency.reservation(tenant_id, player_id, ip, route, idempotency_key, body_hash)
            keys.append(reservation.key)
            mask |= _KEY
        if session_id:
            keys.append(session_key(tenant_id, session_id))
            mask |= _SESSION
        if not mask:
            return _UNLIMITED
        reply = await self._ask(tenant_id, keys, mask, body_hash)
        return _UNLIMITED if reply is None else self._read(reply, reservation)

    def settle(self, admission: Allowed, answer: bytes | None) -> None:
        """Keep the answer of a success for replays, or (None) free the key of a refusal, where there is one."""
        if admission.reservation is not None:
            idempotency.settle(self._store, admission.reservation, answer)

    async def _ask(self, tenant_id: str, keys: list[Arg], mask: int, body_hash: bytes) -> list[int | bytes] | None:
        """Join the tenant's next script call; None when the store could not be asked."""
        batch = self._open.get(tenant_id)
        loop = self._loop
        if loop is None:
            # Kept: asking for the running loop is a system call before Python 3.12.
            loop = self._loop = asyncio.get_running_loop()
        if batch is None:
            batch = self._open[tenant_id] = _Batch([], list(self._common), [])
            loop.call_soon(self._send, tenant_id, batch)
        batch.keys += keys
        batch.args.append(mask)
        batch.args.append(body_hash)
        waiter: asyncio.Future[list[int | bytes] | None] = loop.create_future()
        batch.waiters.append(waiter)
        if len(batch.waiters) >= BATCH_MAX:
            del self._open[tenant_id]
        return await waiter

    def _send(self, tenant_id: str, batch: _Batch) -> None:
        if self._open.get(tenant_id) is batch:
            del self._open[tenant_id]
        task = asyncio.get_running_loop().create_task(self._exchange(batch))
        self._sending.add(task)  # The loop keeps only weak references to tasks.
        task.add_done_callback(self._sending.discard)

    async def _exchange(self, batch: _Batch) -> None:
        replies: Sequence[list[int | bytes] | None] = [None] * len(batch.waiters)
        try:
            replies = await self._store.script(_ADMIT, batch.keys, batch.args)
        except EphemeralDown:
            pass
        except RedisError as exc:
            log.warning("admission_failed", why=str(exc), admissions=len(batch.waiters))
        finally:
            for waiter, reply in zip(batch.waiters, replies, strict=True):
                if not waiter.done():
                    waiter.set_result(reply)

    def _read(self, reply: list[int | bytes], reservation: Reservation | None) -> Admission:
        verdict, detail, player_us, ip_us, session = reply
        assert isinstance(player_us, int) and isinstance(ip_us, int)
        if verdict == rates.LIMITED:
            assert isinstance(detail, int)
            return self._rates.limited(detail, player_us, ip_us)
        if verdict == idempotency.MISMATCH:
            return Mismatch()
        if verdict == idempotency.IN_PROGRESS:
            return InProgress()
        headers = self._rates.headers(player_us, ip_us)
        if verdict == idempotency.REPLAY:
            assert isinstance(detail, bytes)
            return Replay(detail, headers)
        assert isinstance(session, bytes)
        return Allowed(session or None, headers, reservation)
