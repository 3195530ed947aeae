"""Rate limits: a bucket for the player and one for the address, by GCRA.

GCRA is the ATM Forum's Generic Cell Rate Algorithm: a bucket is one number, the theoretical arrival
time (TAT), kept in microseconds of the store's own clock, so any number of edge processes share one
limit. An address's bucket is one over all tenants: who names another gains nothing by it. Keys, each living
until its bucket is full again:

    {tenant}r:<player>   {ip<0..15>}i:<ip>     TAT
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from runtime.errors import Fault, Status
from runtime.stores.pipeline import Arg

LIMITED: Final = 1
"""The script's verdict: over a rate. Its detail is the number of the policy: 1 player, 2 ip."""

IP_TAGS: Final = 16
"""Into how many parts a cluster spreads the buckets of addresses."""

ADMIT_RATES: Final = """
-- Part of the script in control.py, which has `now` in microseconds.
-- ARGV 1-4: player interval us, player tolerance us, ip interval us, ip tolerance us.

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
"""


@dataclass(frozen=True)
class Policy:
    """A bucket that holds `burst` requests and refills at `per_second`. What follows from that is worked out once."""

    name: str
    per_second: float
    burst: int

    @cached_property
    def interval_us(self) -> int:
        return round(1_000_000 / self.per_second)

    @cached_property
    def tolerance_us(self) -> int:
        return self.interval_us * self.burst

    @cached_property
    def header(self) -> str:
        """As an item of RateLimit-Policy: q requests in w seconds (draft-ietf-httpapi-ratelimit-headers-10)."""
        return f'"{self.name}";q={self.burst};w={math.ceil(self.tolerance_us / 1_000_000)}'

    def state(self, ahead_us: int) -> str:
        """As an item of RateLimit: r requests left, t seconds until the bucket is full."""
        left = max(0, (self.tolerance_us - ahead_us) // self.interval_us)
        return f'"{self.name}";r={left};t={-(-ahead_us // 1_000_000)}'

    def empty(self, excess_us: int) -> str:
        """The same for who is over it by so much."""
        return f'"{self.name}";r=0;t={max(1, -(-excess_us // 1_000_000))}'


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


class Rates:
    """The policies of player and address, and how they are told."""

    def __init__(self, player: Policy, ip: Policy) -> None:
        self._player = player
        self._ip = ip
        self._both_header = f"{player.header}, {ip.header}"
        self._ip_header = ip.header

    def args(self) -> list[Arg]:
        """What ADMIT_RATES is given."""
        player, ip = self._player, self._ip
        return [player.interval_us, player.tolerance_us, ip.interval_us, ip.tolerance_us]

    def limited(self, policy_number: int, player_us: int, ip_us: int) -> Limited:
        """The refusal by a policy, given by how much the request is over it."""
        policy, excess_us = (self._player, player_us) if policy_number == 1 else (self._ip, ip_us)
        headers = {"RateLimit-Policy": policy.header, "RateLimit": policy.empty(excess_us)}
        return Limited(policy.name, excess_us / 1_000_000, headers)

    def headers(self, player_us: int, ip_us: int) -> dict[str, str] | None:
        """The RateLimit headers of an admitted request, given how far each TAT is ahead; -1: was not asked."""
        if ip_us < 0:
            return None
        if player_us < 0:
            return {"RateLimit-Policy": self._ip_header, "RateLimit": self._ip.state(ip_us)}
        return {
            "RateLimit-Policy": self._both_header,
            "RateLimit": f"{self._player.state(player_us)}, {self._ip.state(ip_us)}",
        }


def player_key(tenant_id: str, player_id: str) -> str:
    """The key of a player's bucket."""
    return f"{{{tenant_id}}}r:{player_id}"


@lru_cache(maxsize=8192)
def ip_key(ip: str) -> str:
    """The key of an address's bucket."""
    return f"{{{ip_tag(ip)}}}i:{ip}"


def ip_tag(ip: str) -> str:
    """The hash tag of an address's bucket: few, so that those asked for at once are asked for in few calls."""
    return f"ip{zlib.crc32(ip.encode()) % IP_TAGS}"
