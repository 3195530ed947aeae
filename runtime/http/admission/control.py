"""Admission of gameplay requests: rate limits, idempotency key and session, checked by one script call.

Admissions of one iteration of the event loop share a script call. On a cluster, where a call reaches one node, there is
one call per hash tag, which the keys of one player share. The bucket of an address belongs to no tenant, so it needs a
separate, concurrent call.

The store only optimizes: without it every request is admitted, without a session or a reservation, and the constraints
of the durable store alone decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from redis.exceptions import RedisError

from runtime.http.admission import idempotency, rates
from runtime.http.admission.idempotency import InProgress, KeyedRequest, Mismatch, Replay, Reservation
from runtime.http.admission.rates import Limited, Policy, Rates
from runtime.http.admission.session_cache import session_key
from runtime.stores.ephemeral import Ephemeral, Script, tag_of
from runtime.stores.pipeline import Arg, EphemeralDown

BATCH_MAX: Final = 64
"""The maximum number of admissions per script call: the store serves nothing else while a script runs."""

log = structlog.get_logger(__name__)

_PLAYER, _IP, _NETWORK, _KEY, _SESSION = 1, 2, 4, 8, 16
_ADMITTED: Final = 0
"""The script's verdict on an admitted request."""

_ADMIT: Final = Script(
    """
-- KEYS: per entry its player, ip, network, idempotency and session key, each only if the entry's mask has its bit.
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


class Allowed(msgspec.Struct, frozen=True):
    """Admitted. `session` is the cached state (None: not cached); `settle` needs `reservation`."""

    session: bytes | None = None
    headers: dict[str, str] | None = None
    reservation: Reservation | None = None


Admission = Allowed | Limited | Replay | Mismatch | InProgress

_UNLIMITED: Final = Allowed()


@dataclass(slots=True)
class _Batch:
    """Admissions that share one script call."""

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
        holder: str = "",
        owner: str = "",
        keyed: KeyedRequest | None = None,
        session_id: str = "",
    ) -> Admission:
        """Charges the rate limits, reserves the idempotency key and reads the session, in that order, atomically.

        `ip` and `network` are `client_of`'s; without an ip there is no rate limit (claim, redeem). `holder` stands in
        for `player_id` if there is none: the session's player, or a member of staff. `keyed` is the request under an
        idempotency key, if there is one, and `owner` the key's owner: the same key from another client never gets the
        owner's response.
        """
        store = self._store
        if not store.up:
            return _UNLIMITED
        mask, tag = 0, tag_of(tenant_id, player_id or holder)
        keys: list[Arg] = []
        if ip and (player_id or holder):
            # No token proves the holder: with the address in the key, only clients behind it can use up the bucket.
            keys.append(rates.player_key(tag, player_id or f"{holder} {ip}"))
            mask = _PLAYER
        if ip and not store.sharded:
            keys += rates.ip_keys(ip, network)
            mask |= _IP | _NETWORK if network else _IP
        reservation = None
        if keyed is not None:
            reservation = idempotency.reservation(tag, owner, keyed)
            keys.append(reservation.key)
            mask |= _KEY
        if session_id:
            keys.append(session_key(tag, session_id))
            mask |= _SESSION
        if ip and store.sharded:
            reply = await self._ask_both_nodes(tag, ip, network, keys, mask, reservation)
        elif mask:
            reply = await self._ask(tag if store.sharded else "", keys, mask, _hash_of(reservation))
        else:
            return _UNLIMITED
        return _UNLIMITED if reply is None else self._read(reply, reservation)

    def settle(self, admission: Allowed, answer: bytes | None, seconds: int = idempotency.ANSWER_SECONDS) -> None:
        """Stores the response of a success for replays, or (None) releases the key of a refused request."""
        if admission.reservation is not None:
            idempotency.settle(self._store, admission.reservation, answer, seconds)

    def store_response(self, tenant_id: str, owner: str, keyed: KeyedRequest, answer: bytes, seconds: int) -> None:
        """Stores a response for the player that the request created, who could not reserve the key before."""
        reserved = idempotency.reservation(tag_of(tenant_id, owner), owner, keyed)
        idempotency.settle(self._store, reserved, answer, seconds)

    async def _ask_both_nodes(
        self, tag: str, ip: str, network: str, keys: list[Arg], mask: int, reservation: Reservation | None
    ) -> list[int | bytes] | None:
        """Calls two nodes: the address's and the player's. If only the address is over its limit, the player has been
        charged already, and the reserved key must be released.
        """
        of_both = _IP | _NETWORK if network else _IP
        of_ip, reply = await asyncio.gather(
            self._ask(rates.ip_tag(ip, network), list(rates.ip_keys(ip, network)), of_both, b""),
            self._ask(tag, keys, mask, _hash_of(reservation)),
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
        """Joins the group's next script call; None if the store does not respond."""
        batch = self._open.get(group)
        loop = self._loop
        if loop is None:
            # Cached: get_running_loop costs a system call before Python 3.12.
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
