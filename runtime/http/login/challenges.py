"""Login challenges: one code for one contact, guessed at most five times, used once.

They live in the ephemeral store alone, and it fails closed: without it nobody logs in (UNAVAILABLE), for
codes that cannot be counted can be guessed. Everything that counts is one script, so that guesses that come
together count one by one. A code is stored as its HMAC; contacts appear in keys as an HMAC too.

Tries are counted twice: by challenge, and by contact over `TRIES_SECONDS`, so that asking for a new code
gives no more tries. A success forgets the contact's count.

Keys, all with the tenant's hash tag (a challenge's id ends with its contact's digest, so that it names both):

    {tenant}lh:<challenge_id>   hash: h code's HMAC, c contact, x expiry in ms, n wrong tries
    {tenant}ls:<contact>        there until a code may be sent again
    {tenant}ln:<contact>        codes sent within the hour
    {tenant}lt:<contact>        wrong tries
    {tenant}li:<ip>             codes sent within the hour, for the address
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Any, Final, NamedTuple

import structlog
from redis.exceptions import RedisError

from runtime.errors import Fault, Status
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import EphemeralDown

CODE_DIGITS: Final = 6
CODE_SECONDS: Final = 300
RESEND_SECONDS: Final = 60
TRIES_MAX: Final = 5
TRIES_SECONDS: Final = 900
SENDS_SECONDS: Final = 3_600
SENDS_MAX: Final = 10
"""Codes to one contact within SENDS_SECONDS: each message may cost the operator money."""

SENDS_IP_MAX: Final = 300
"""The same for one address, which may stand for a whole office."""

KEPT_SECONDS: Final = 3_600
"""How long an expired challenge is remembered, to be told from one that never was."""

log = structlog.get_logger(__name__)

_ID: Final = re.compile(r"chal_[0-9a-f]{32}([0-9a-f]{16})")

_ISSUE: Final = Script(
    """
-- KEYS: challenge, resend, sends, tries, sends of the address
-- ARGV: code's HMAC, contact, code ms, kept ms, resend ms, sends ms, sends max, tries max, address max (0: any)
-- {0, now ms} or {1 resend | 2 tries | 3 sends | 4 address, ms to wait}
local wait = redis.call('PTTL', KEYS[2])
if wait > 0 then return {1, wait} end
local function spent(key, most)
  return most > 0 and (tonumber(redis.call('GET', key)) or 0) >= most
end
if spent(KEYS[4], tonumber(ARGV[8])) then return {2, redis.call('PTTL', KEYS[4])} end
if spent(KEYS[3], tonumber(ARGV[7])) then return {3, redis.call('PTTL', KEYS[3])} end
if spent(KEYS[5], tonumber(ARGV[9])) then return {4, redis.call('PTTL', KEYS[5])} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'h', ARGV[1], 'c', ARGV[2], 'x', string.format('%.0f', now + ARGV[3]), 'n', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[5])
for _, key in ipairs({KEYS[3], KEYS[5]}) do
  if redis.call('INCR', key) == 1 then redis.call('PEXPIRE', key, ARGV[6]) end
end
return {0, now}
"""
)

_GUESS: Final = Script(
    """
-- KEYS: challenge, tries. ARGV: guess's HMAC, tries max, tries ms
-- {0 unknown | 1 expired | 2 right | 3 wrong, contact, tries left}
local found = redis.call('HMGET', KEYS[1], 'h', 'c', 'x', 'n')
if not found[1] then return {0, '', 0} end
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) >= tonumber(found[3]) then return {1, '', 0} end
local most = tonumber(ARGV[2])
local used = math.max(tonumber(found[4]), tonumber(redis.call('GET', KEYS[2])) or 0)
if used >= most then return {3, '', 0} end
if found[1] == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  return {2, found[2], 0}
end
redis.call('HINCRBY', KEYS[1], 'n', 1)
if redis.call('INCR', KEYS[2]) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return {3, '', most - used - 1}
"""
)


class Issued(NamedTuple):
    """A challenge and the code that answers it. Times are unix seconds."""

    challenge_id: str
    code: str
    expires_at: int
    resend_at: int


class Challenges:
    """Challenges of one edge. `secret` keys every HMAC; edges that share the store share it."""

    def __init__(self, store: Ephemeral, secret: bytes, *, limit_addresses: bool = True) -> None:
        self._store = store
        self._secret = secret
        self._sends_ip_max = SENDS_IP_MAX if limit_addresses else 0

    async def issue(self, tenant_id: str, contact: str, ip: str) -> Issued:
        """A new challenge for `contact`, any text that stands for one contact (`phone:+15550100`).

        RESOURCE_EXHAUSTED RESEND_TOO_SOON within RESEND_SECONDS of the last, or with the contact's tries used
        up; RATE_LIMITED over SENDS_MAX or SENDS_IP_MAX; UNAVAILABLE.
        """
        digest = self._digest(tenant_id, contact)
        challenge_id = f"chal_{secrets.token_hex(16)}{digest}"
        code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"
        keys = [
            _key(tenant_id, "h", challenge_id),
            _key(tenant_id, "s", digest),
            _key(tenant_id, "n", digest),
            _key(tenant_id, "t", digest),
            _key(tenant_id, "i", ip),
        ]
        milliseconds = [1000 * seconds for seconds in (CODE_SECONDS, KEPT_SECONDS, RESEND_SECONDS, SENDS_SECONDS)]
        verdict, value = await self._ask(
            _ISSUE,
            keys,
            [self._hash(challenge_id, code), contact, *milliseconds, SENDS_MAX, TRIES_MAX, self._sends_ip_max],
        )
        if verdict:
            raise _too_soon(verdict, value / 1000)
        now = value // 1000
        return Issued(challenge_id, code, now + CODE_SECONDS, now + RESEND_SECONDS)

    def withdraw(self, tenant_id: str, challenge_id: str) -> None:
        """Forgets a challenge whose code could not be sent, and lets another be sent at once."""
        digest = challenge_id[-16:]
        self._store.post("DEL", _key(tenant_id, "h", challenge_id), _key(tenant_id, "s", digest))

    async def answer(self, tenant_id: str, challenge_id: str, code: str, *, contact: str = "") -> str:
        """The contact that the code proves; the challenge is over then.

        With `contact` only a challenge of that one counts, and another's is not touched. NOT_FOUND
        UNKNOWN_CHALLENGE; UNAUTHENTICATED CODE_WRONG with `attempts_left`, or CODE_EXPIRED; UNAVAILABLE.
        """
        matched = _ID.fullmatch(challenge_id)
        if matched is None or (contact and matched[1] != self._digest(tenant_id, contact)):
            raise _unknown()
        verdict, found, left = await self._ask(
            _GUESS,
            [_key(tenant_id, "h", challenge_id), _key(tenant_id, "t", matched[1])],
            [self._hash(challenge_id, code), TRIES_MAX, 1000 * TRIES_SECONDS],
        )
        if verdict == 0:
            raise _unknown()
        if verdict == 1:
            raise Fault(Status.UNAUTHENTICATED, "CODE_EXPIRED", "the code has expired; ask for a new one")
        if verdict == 3:
            raise Fault(Status.UNAUTHENTICATED, "CODE_WRONG", "the code is wrong", attempts_left=left)
        proved: str = found.decode()
        return proved

    async def _ask(self, script: Script, keys: list[str], args: list[str | int]) -> Any:
        try:
            return await self._store.script(script, keys, args)
        except RedisError as error:
            log.warning("login_store_failed", why=str(error))
            raise EphemeralDown(str(error)) from error

    def _digest(self, tenant_id: str, contact: str) -> str:
        return hmac.digest(self._secret, f"contact\0{tenant_id}\0{contact}".encode(), "sha256")[:8].hex()

    def _hash(self, challenge_id: str, code: str) -> str:
        return hmac.digest(self._secret, f"code\0{challenge_id}\0{code}".encode(), "sha256").hex()


def _key(tenant_id: str, kind: str, name: str) -> str:
    return f"{{{tenant_id}}}l{kind}:{name}"


def _unknown() -> Fault:
    return Fault(Status.NOT_FOUND, "UNKNOWN_CHALLENGE", "there is no such challenge, or its code was used")


def _too_soon(verdict: int, wait_seconds: float) -> Fault:
    reason = "RESEND_TOO_SOON" if verdict in (1, 2) else "RATE_LIMITED"
    message = {
        1: "a code was sent just now",
        2: "too many wrong codes; a new one must wait",
        3: "too many codes were sent to this contact",
        4: "too many codes were asked for from this address",
    }[verdict]
    return Fault(Status.RESOURCE_EXHAUSTED, reason, message, retry_after_seconds=wait_seconds)
