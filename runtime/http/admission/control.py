"""Admission of a gameplay request: its rates, its idempotency key and its session, asked in one script call.

Admissions that meet in one iteration of the event loop are one script call. On a cluster, where a call meets
one node, they are one for each tenant, whose keys have its hash tag; and since an address's bucket is of no
tenant, it is asked for beside them, at the same time.

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
from runtime.http.admission.idempotency import Asked, InProgress, Mismatch, Replay, Reservation
from runtime.http.admission.rates import Limited, Policy, Rates
from runtime.http.admission.session_cache import session_key
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import Arg, EphemeralDown

BATCH_MAX: Final = 64
"""Admissions in one script call: the store serves nobody else while it runs."""

log = structlog.get_logger(__name__)

_PLAYER, _IP, _NETWORK, _KEY, _SESSION = 1, 2, 4, 8, 16
_ADMITTED: Final = 0
"""The script's verdict on a request that goes on."""

_ADMIT: Final = Script(
    """
-- KEYS: per entry its player, ip, network, idempotency and session key, each only where the entry's mask has it.
-- ARGV: interval us and tolerance us of player, ip and network, reservation ms,
--       then per entry: mask (1 player, 2 ip, 4 network, 8 idempotency, 16 session), request hash.
-- Per entry: {verdict, policy or stored answer, TAT - now us or -1 of player, ip and network, session}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""
    + rates.ADMIT_RATES
    + idempotency.RESERVE
    + """
local replies, at = {}, 1
for arg = 8, #ARGV, 2 do
  local mask, keys = tonumber(ARGV[arg]), {}
  for slot = 1, 5 do
    if math.floor(mask / 2 ^ (slot - 1)) % 2 == 1 then
      keys[slot] = KEYS[at]
      at = at + 1
    end
  end
  local reply = {0, '', -1, -1, -1, ''}
  if admit_rates(keys, reply) and (not keys[4] or reserve(keys[4], ARGV[arg + 1], reply)) and keys[5] then
    reply[6] = redis.call('GET', keys[5]) or ''
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
    """Admissions that leave in one script call."""

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
        network: str = "",
        owner: str = "",
        asked: Asked | None = None,
        session_id: str = "",
    ) -> Admission:
        """Charge the rates, reserve the idempotency key and look the session up, in that order and at once.

        `ip` and `network` are `client_of`'s; without an ip no rate holds (claim, redeem). `asked` is what is asked
        under a key, where there is one, and `owner` whose key it is: who else sends it gets no answer of theirs.
        """
        store = self._store
        if not store.up:
            return _UNLIMITED
        mask = 0
        keys: list[Arg] = []
        if ip and player_id:
            keys.append(rates.player_key(tenant_id, player_id))
            mask = _PLAYER
        if ip and not store.sharded:
            keys += rates.ip_keys(ip, network)
            mask |= _IP | _NETWORK if network else _IP
        reservation = None
        if asked is not None:
            reservation = idempotency.reservation(tenant_id, owner, asked)
            keys.append(reservation.key)
            mask |= _KEY
        if session_id:
            keys.append(session_key(tenant_id, session_id))
            mask |= _SESSION
        if ip and store.sharded:
            reply = await self._ask_two(tenant_id, ip, network, keys, mask, reservation)
        elif mask:
            reply = await self._ask(tenant_id if store.sharded else "", keys, mask, _hash_of(reservation))
        else:
            return _UNLIMITED
        return _UNLIMITED if reply is None else self._read(reply, reservation)

    def settle(self, admission: Allowed, answer: bytes | None, seconds: int = idempotency.ANSWER_SECONDS) -> None:
        """Keep the answer of a success for replays, or (None) free the key of a refusal, where there is one."""
        if admission.reservation is not None:
            idempotency.settle(self._store, admission.reservation, answer, seconds)

    def keep(self, tenant_id: str, owner: str, asked: Asked, answer: bytes, seconds: int) -> None:
        """Keep an answer for whom it made: nobody could reserve the key before there was somebody."""
        idempotency.settle(self._store, idempotency.reservation(tenant_id, owner, asked), answer, seconds)

    async def _ask_two(
        self, tenant_id: str, ip: str, network: str, keys: list[Arg], mask: int, reservation: Reservation | None
    ) -> list[int | bytes] | None:
        """The same of two nodes: the address's, and the tenant's. Who is over its rate at the first, but not at the
        other, has charged the player and must give the key back.
        """
        of_both = _IP | _NETWORK if network else _IP
        of_ip, reply = await asyncio.gather(
            self._ask(rates.ip_tag(ip, network), list(rates.ip_keys(ip, network)), of_both, b""),
            self._ask(tenant_id, keys, mask, _hash_of(reservation)),
        )
        if of_ip is None or reply is None:
            return reply
        (of_address, _, _, ip_us, *_), (verdict, detail, player_us, _, *rest) = of_ip, reply
        if of_address == rates.LIMITED:
            if verdict == _ADMITTED and reservation is not None:
                idempotency.settle(self._store, reservation, None)
            return of_ip
        return [verdict, detail, player_us, ip_us, *rest]

    async def _ask(self, group: str, keys: list[Arg], mask: int, request_hash: bytes) -> list[int | bytes] | None:
        """Join the group's next script call; None when the store could not be asked."""
        batch = self._open.get(group)
        loop = self._loop
        if loop is None:
            # Kept: asking for the running loop is a system call before Python 3.12.
            loop = self._loop = asyncio.get_running_loop()
        if batch is None:
            batch = self._open[group] = _Batch([], list(self._common), [])
            loop.call_soon(self._send, group, batch)
        batch.keys += keys
        batch.args.append(mask)
        batch.args.append(request_hash)
        waiter: asyncio.Future[list[int | bytes] | None] = loop.create_future()
        batch.waiters.append(waiter)
        if len(batch.waiters) >= BATCH_MAX:
            del self._open[group]
        return await waiter

    def _send(self, group: str, batch: _Batch) -> None:
        if self._open.get(group) is batch:
            del self._open[group]
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
        verdict, detail, player_us, ip_us, network_us, session = reply
        assert isinstance(player_us, int) and isinstance(ip_us, int) and isinstance(network_us, int)
        if verdict == rates.LIMITED:
            assert isinstance(detail, int)
            return self._rates.limited(detail, (player_us, ip_us, network_us)[detail - 1])
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


def _hash_of(reservation: Reservation | None) -> bytes:
    return reservation.request_hash if reservation is not None else b""
