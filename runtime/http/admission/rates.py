"""Shared rate limits by GCRA: a bucket per player, per address and per network.

In GCRA (the ATM Forum's Generic Cell Rate Algorithm) a bucket is one number, the theoretical arrival time (TAT), here
in microseconds of the store's clock, so that all edge processes share one limit. The buckets of addresses and networks
(IPv6 only) span all tenants: naming another tenant does not evade them. Each key expires when its bucket is full again:

    {tenant:bucket}r:<player>   {ip<0..15>}i:<ip>   {ip<0..15>}i:<network>     TAT
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from runtime.errors import Fault, Status
from runtime.operations.players.challenges import NETWORK_TIMES
from runtime.stores.pipeline import Arg

LIMITED: Final = 1
"""The script's verdict: over a limit. Its detail is the number of the policy: 1 player, 2 ip, 3 network."""

DIVIDED_BURST: Final = 10
"""The burst that remains to each of many processes: a page's first requests come at once."""

IP_TAGS: Final = 16
"""The number of hash tags over which a cluster spreads the buckets of addresses."""

ADMIT_RATES: Final = """
-- Part of the script in control.py, which has `now` in microseconds.
-- ARGV 1-6: interval us and tolerance us of player, ip and network.

-- A stored TAT beyond now + tolerance means that the clock was set back.
local function next_tat(key, interval, tolerance)
  local tat = tonumber(redis.call('GET', key)) or now
  return math.max(now, math.min(tat, now + tolerance)) + interval
end

local function keep(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
end

local intervals = {tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[5])}
local tolerances = {tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[6])}

-- All buckets are checked before any is charged: a refused request costs nothing.
local function admit_rates(keys, reply)
  local tats = {}
  for policy = 1, 3 do
    if keys[policy] then
      tats[policy] = next_tat(keys[policy], intervals[policy], tolerances[policy])
      local excess = tats[policy] - now - tolerances[policy]
      if excess > 0 then
        reply[1], reply[2], reply[2 + policy] = 1, policy, excess
        return false
      end
    end
  end
  for policy = 1, 3 do
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
    """A bucket that holds `burst` requests and refills at `per_second`. Derived values are cached."""

    name: str
    per_second: float
    burst: int

    @cached_property
    def interval_us(self) -> int:
        return max(1, round(1_000_000 / self.per_second))

    @cached_property
    def tolerance_us(self) -> int:
        return self.interval_us * self.burst

    def of_network(self) -> Policy:
        """The policy for a network, from this policy for an address."""
        per_second, burst = self.per_second * NETWORK_TIMES, self.burst * NETWORK_TIMES
        return replace(self, name=f"{self.name}-network", per_second=per_second, burst=burst)

    def divided(self, processes: int) -> Policy:
        """The policy for one of several processes that share their clients, so that all together keep to this one."""
        burst = max(self.burst // processes, min(self.burst, DIVIDED_BURST))
        return replace(self, per_second=self.per_second / processes, burst=burst)

    @cached_property
    def header(self) -> str:
        """An item of RateLimit-Policy: q requests in w seconds (draft-ietf-httpapi-ratelimit-headers-10)."""
        return f'"{self.name}";q={self.burst};w={math.ceil(self.tolerance_us / 1_000_000)}'

    def state(self, ahead_us: int) -> str:
        """An item of RateLimit: r requests remain, t seconds until the bucket is full."""
        remaining = max(0, (self.tolerance_us - ahead_us) // self.interval_us)
        return f'"{self.name}";r={remaining};t={-(-ahead_us // 1_000_000)}'

    def empty(self, excess_us: int) -> str:
        """An item of RateLimit for a request that exceeds the limit by `excess_us`."""
        return f'"{self.name}";r=0;t={max(1, -(-excess_us // 1_000_000))}'


@dataclass(frozen=True, slots=True)
class Limited:
    """Over the limit `policy`. `retry_after_seconds` is exact; the header rounds it up."""

    policy: str
    retry_after_seconds: float
    headers: dict[str, str]

    def fault(self) -> Fault:
        return Fault(
            Status.RESOURCE_EXHAUSTED,
            "RATE_LIMITED",
            f"the rate limit {self.policy!r} is exceeded; try again later",
            retry_after_seconds=self.retry_after_seconds,
            policy=self.policy,
        )


class Rates:
    """The policies of player, address and network, and their headers."""

    def __init__(self, player: Policy, ip: Policy) -> None:
        self._player = player
        self._ip = ip
        self._policies = (player, ip, ip.of_network())
        self._both_header = f"{player.header}, {ip.header}"
        self._ip_header = ip.header

    def args(self) -> list[Arg]:
        """The arguments of ADMIT_RATES."""
        return [part for policy in self._policies for part in (policy.interval_us, policy.tolerance_us)]

    def limited(self, policy_number: int, excess_us: int) -> Limited:
        """The refusal by a policy. excess_us: by how much the request exceeds it."""
        policy = self._policies[policy_number - 1]
        headers = {"RateLimit-Policy": policy.header, "RateLimit": policy.empty(excess_us)}
        return Limited(policy.name, excess_us / 1_000_000, headers)

    def headers(self, player_us: int, ip_us: int) -> dict[str, str] | None:
        """The RateLimit headers of an admitted request. Arguments: how far each TAT is ahead; -1: not checked."""
        if ip_us < 0:
            return None
        if player_us < 0:
            return {"RateLimit-Policy": self._ip_header, "RateLimit": self._ip.state(ip_us)}
        return {
            "RateLimit-Policy": self._both_header,
            "RateLimit": f"{self._player.state(player_us)}, {self._ip.state(ip_us)}",
        }


def player_key(tag: str, player_id: str) -> str:
    """The key of a player's bucket. tag: the player's (`tag_of`)."""
    return f"{{{tag}}}r:{player_id}"


@lru_cache(maxsize=8192)
def ip_keys(ip: str, network: str) -> tuple[str, ...]:
    """The bucket keys of an address and, if it has one, of its network."""
    tag = ip_tag(ip, network)
    return (f"{{{tag}}}i:{ip}", f"{{{tag}}}i:{network}") if network else (f"{{{tag}}}i:{ip}",)


def ip_tag(ip: str, network: str) -> str:
    """The hash tag of these buckets. There are few tags, so that concurrent admissions share few calls."""
    return f"ip{zlib.crc32((network or ip).encode()) % IP_TAGS}"
