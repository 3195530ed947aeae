"""Rates, idempotency and the session of a gameplay request, asked of the ephemeral store in one call.

Rates are GCRA (the ATM Forum's Generic Cell Rate Algorithm): a bucket is one number, the theoretical
arrival time (TAT), kept in microseconds of the store's own clock, so any number of edge processes share
one limit. Admissions that meet in one turn of the event loop and belong to one tenant are one script call.

The store is a convenience: with it gone everybody is admitted, without a session and without a
reservation, and the durable guards decide alone (spec.md, "Consistency rules" 3).

Keys, all with the tenant's hash tag so that one call meets one cluster node:

    {tenant}r:<player>   {tenant}i:<ip>     TAT; lives until the bucket is full again
    {tenant}k:<digest>                      "?" + body hash while it runs (10 s), "=" + body hash + answer (24 h)
    {tenant}s:<session_id>                  what start() left for play()
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import structlog
from aiohttp import web
from redis.exceptions import RedisError

from runtime.errors import Fault, Status, invalid
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import Arg, EphemeralDown

BODY_HASH_BYTES: Final = 16
KEY_CHARACTERS_MAX: Final = 255
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

-- A stored TAT beyond now + tolerance can only come from a clock that was set back.
local function next_tat(key, interval, tolerance)
  local tat = tonumber(redis.call('GET', key)) or now
  return math.max(now, math.min(tat, now + tolerance)) + interval
end

local function keep(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
end

local intervals = {tonumber(ARGV[1]), tonumber(ARGV[3])}
local tolerances = {tonumber(ARGV[2]), tonumber(ARGV[4])}

-- Both buckets are asked before either is charged: a refusal costs nothing.
local function admit_rates(keys, reply)
  local tats = {}
  for policy = 1, 2 do
    if keys[policy] then
      tats[policy] = next_tat(keys[policy], intervals[policy], tolerances[policy])
      local excess = tats[policy] - now - tolerances[policy]
      if excess > 0 then
        reply[1], reply[2], reply[2 + policy] = 1, policy, excess
        return false
      end
    end
  end
  for policy = 1, 2 do
    if keys[policy] then
      keep(keys[policy], tats[policy])
      reply[2 + policy] = tats[policy] - now
    end
  end
  return true
end

local function reserve(key, hash, reply)
  local stored = redis.call('GET', key)
  if not stored then
    redis.call('SET', key, '?' .. hash, 'PX', ARGV[5])
    return true
  end
  if stored:sub(2, 1 + #hash) ~= hash then
    reply[1] = 3
  elseif stored:sub(1, 1) == '?' then
    reply[1] = 4
  else
    reply[1], reply[2] = 2, stored:sub(2 + #hash)
  end
  return false
end

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
class Policy:
    """A bucket that holds `burst` requests and refills at `per_second`."""

    name: str
    per_second: float
    burst: int

    @property
    def interval_us(self) -> int:
        return round(1_000_000 / self.per_second)

    @property
    def tolerance_us(self) -> int:
        return self.interval_us * self.burst

    @property
    def header(self) -> str:
        """As an item of RateLimit-Policy: q requests in w seconds (draft-ietf-httpapi-ratelimit-headers-10)."""
        return f'"{self.name}";q={self.burst};w={math.ceil(self.tolerance_us / 1_000_000)}'

    def state(self, ahead_us: int) -> str:
        """As an item of RateLimit: r requests left, t seconds until the bucket is full."""
        left = max(0, (self.tolerance_us - ahead_us) // self.interval_us)
        return f'"{self.name}";r={left};t={-(-ahead_us // 1_000_000)}'


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go on. `session` is what `hold_session` left (None: unknown here); `reservation` is what `settle` needs."""

    session: bytes | None = None
    headers: dict[str, str] | None = None
    reservation: tuple[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Limited:
    """Over the rate `policy`. `retry_after_seconds` is exact; the header rounds it up."""

    policy: str
    retry_after_seconds: float
    headers: dict[str, str]

    def fault(self) -> Fault:
        return Fault(
            Status.RESOURCE_EXHAUSTED,
            "RATE_LIMITED",
            f"too many requests for this {self.policy}",
            retry_after_seconds=self.retry_after_seconds,
            policy=self.policy,
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """The same key and body succeeded before; `answer` is what `settle` stored."""

    answer: bytes
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used with another body."""

    def fault(self) -> Fault:
        return Fault(
            Status.INVALID_ARGUMENT,
            "IDEMPOTENCY_MISMATCH",
            "this Idempotency-Key was used with another body",
            http_status=422,
        )


@dataclass(frozen=True, slots=True)
class InProgress:
    """The same key and body is being worked on."""

    def fault(self) -> Fault:
        return Fault(
            Status.ABORTED,
            "IDEMPOTENCY_IN_PROGRESS",
            "a request with this Idempotency-Key is still running",
            retry_after_seconds=1,
        )


Admission = Allowed | Limited | Replay | Mismatch | InProgress

_UNLIMITED: Final = Allowed()


@dataclass(slots=True)
class _Batch:
    """Admissions of one tenant that leave in one script call."""

    keys: list[Arg]
    args: list[Arg]
    waiters: list[asyncio.Future[list[int | bytes] | None]]


class Limits:
    """Admission of gameplay requests; one per edge process."""

    def __init__(
        self,
        store: Ephemeral,
        *,
        player: Policy,
        ip: Policy,
        reservation_seconds: float = 10,
        answer_seconds: int = 86_400,
    ) -> None:
        self._store = store
        self._policies = (player, ip)
        self._policy_header = f"{player.header}, {ip.header}"
        self._ip_policy_header = ip.header
        self._answer_seconds = answer_seconds
        self._common: list[Arg] = [
            player.interval_us,
            player.tolerance_us,
            ip.interval_us,
            ip.tolerance_us,
            round(reservation_seconds * 1000),
        ]
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
        A caller without a player is known by its address instead: two guests who send the same key
        must not be given each other's answer.
        """
        store = self._store
        if not store.up:
            return _UNLIMITED
        tag, mask = f"{{{tenant_id}}}", 0
        keys: list[Arg] = []
        if ip:
            if player_id:
                keys.append(f"{tag}r:{player_id}")
                mask = _PLAYER
            keys.append(f"{tag}i:{ip}")
            mask |= _IP
        reservation = None
        if idempotency_key:
            key = f"{tag}k:{_digest(player_id, '' if player_id else ip, route, idempotency_key)}"
            keys.append(key)
            mask |= _KEY
            reservation = (key, body_hash)
        if session_id:
            keys.append(f"{tag}s:{session_id}")
            mask |= _SESSION
        if not mask:
            return _UNLIMITED
        reply = await self._ask(tenant_id, keys, mask, body_hash)
        return _UNLIMITED if reply is None else self._read(reply, reservation)

    def settle(self, admission: Allowed, answer: bytes | None) -> None:
        """Store a success for replays, or (None) free the key: a refusal changed nothing and may be tried again.

        A reservation that ran out may by now be another request's; freeing that one too lets a third
        run beside it, which the unique index over keys in the durable store then refuses.
        """
        if admission.reservation is None:
            return
        key, body_hash = admission.reservation
        if answer is None:
            self._store.post("DEL", key)
        else:
            self._store.post("SET", key, b"=" + body_hash + answer, "EX", self._answer_seconds)

    def hold_session(self, tenant_id: str, session_id: str, state: bytes, seconds: int) -> None:
        """Keep what play() will want to know; `admit` gives it back. Empty state reads as none."""
        self._store.post("SET", f"{{{tenant_id}}}s:{session_id}", state, "EX", seconds)

    def drop_session(self, tenant_id: str, session_id: str) -> None:
        """Forget a session."""
        self._store.post("DEL", f"{{{tenant_id}}}s:{session_id}")

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

    def _read(self, reply: list[int | bytes], reservation: tuple[str, bytes] | None) -> Admission:
        verdict, detail, player_us, ip_us, session = reply
        assert isinstance(player_us, int) and isinstance(ip_us, int)
        if verdict == 1:
            assert isinstance(detail, int)
            policy, excess_us = self._policies[detail - 1], (player_us, ip_us)[detail - 1]
            headers = {
                "RateLimit-Policy": policy.header,
                "RateLimit": f'"{policy.name}";r=0;t={max(1, -(-excess_us // 1_000_000))}',
            }
            return Limited(policy.name, excess_us / 1_000_000, headers)
        if verdict == 3:
            return Mismatch()
        if verdict == 4:
            return InProgress()
        headers_or_none = self._headers(player_us, ip_us) if ip_us >= 0 else None
        if verdict == 2:
            assert isinstance(detail, bytes)
            return Replay(detail, headers_or_none)
        assert isinstance(session, bytes)
        return Allowed(session or None, headers_or_none, reservation)

    def _headers(self, player_us: int, ip_us: int) -> dict[str, str]:
        player, ip = self._policies
        if player_us < 0:
            return {"RateLimit-Policy": self._ip_policy_header, "RateLimit": ip.state(ip_us)}
        return {
            "RateLimit-Policy": self._policy_header,
            "RateLimit": f"{player.state(player_us)}, {ip.state(ip_us)}",
        }


def hash_body(body: bytes) -> bytes:
    """The 16 bytes by which two bodies under one Idempotency-Key are compared."""
    return hashlib.blake2b(body, digest_size=BODY_HASH_BYTES).digest()


def idempotency_key(request: web.Request) -> str:
    """The Idempotency-Key header, or "". INVALID_ARGUMENT when it is empty, too long or not printable ASCII."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not key or len(key) > KEY_CHARACTERS_MAX or not (key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


Network = IPv4Network | IPv6Network


def client_ip(request: web.Request, trusted_proxies: Iterable[Network] = ()) -> str:
    """The address that the rates hold for.

    X-Forwarded-For is read from the right, past trusted proxies, only when the peer itself is one:
    what stands left of the first stranger is the stranger's own word. IPv6 counts by /64, which is
    what one subscriber holds (RFC 6177).
    """
    proxies = tuple(trusted_proxies)
    address = request.remote or ""
    if proxies and _trusted(address, proxies):
        hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        for hop in reversed(hops):
            candidate = _bare(hop.strip())
            if _parse(candidate) is None:
                break
            address = candidate
            if not _trusted(candidate, proxies):
                break
    return _bucket(address)


def _bare(hop: str) -> str:
    """An address without its port: 192.0.2.1:80, [2001:db8::1]:80."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(maxsize=8192)
def _parse(address: str) -> str | None:
    """The address in its one spelling, mapped IPv4 as IPv4; None when it is none."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip)


@lru_cache(maxsize=8192)
def _trusted(address: str, proxies: tuple[Network, ...]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(ip_address(parsed) in network for network in proxies)


@lru_cache(maxsize=8192)
def _bucket(address: str) -> str:
    parsed = _parse(address)
    if parsed is None:
        return "unknown"  # A Unix socket's peer: all its clients are one.
    if ":" not in parsed:
        return parsed
    return str(IPv6Network((parsed, 64), strict=False).network_address)


def _digest(*parts: str) -> str:
    """Length-prefixed, so that ("a", "bc") and ("ab", "c") differ."""
    joined = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(joined.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
