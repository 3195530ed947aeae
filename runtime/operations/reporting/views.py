"""Page views: counted in Valkey, and folded into Postgres by a background job.

A view costs one read of its campaign and two commands. It never waits for a play, nor a play for it. Without Valkey no
view is counted, and the reply is the same.

    {tenant}views:counts             a hash: kind of count and row -> count, since the last fold
    {tenant}views:fold               the hash that is being folded, with its id
    {tenant}views:salt:<day>         the day's salt (UTC)
    {tenant}views:sources:<day>:...  the campaign's sources of the day
    {tenant}views:seen:<day>:...     the hashes of the day's visitors, of the campaign and of each page

A visitor is a hash of address and User-Agent, keyed by a random salt that Valkey deletes after the day. So no hash can
be linked to a person or to another day's, and no cookie is needed. Visitors are exact up to SAMPLE per page, campaign
and day. Beyond that only every second new one is stored, and counts twice, then every fourth, and so on: the standard
error is 0.5 %, and memory grows with the logarithm of the visitors.

A fold renames the hash, adds it to Postgres together with its id, and deletes it. A process that dies in between leaves
the renamed hash, which the next fold finds. If its id is in Postgres, the counts were added, and are only deleted.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any, Final, NamedTuple

import msgspec
from redis.exceptions import RedisError

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import unknown
from runtime.operations import samples
from runtime.operations.entries.submit import source_of
from runtime.operations.row import Access, Consumer, Operation, RoutePolicy
from runtime.rules.entry import is_country
from runtime.stores.database import at
from runtime.stores.ephemeral import Script
from runtime.stores.pipeline import EphemeralDown
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("views")
_TENANTS: Final = sql.load("analytics")["tenants"]

JOB: Final = "views"
EVERY_SECONDS: Final = 60.0

SOURCES_MAX: Final = 200
"""Sources of a campaign and day. Anyone can invent sources: those beyond are counted together as OTHER."""

SOURCE: Final = ("source", "medium", "utm_campaign")
OTHER: Final = ("other", "", "")
SAMPLE: Final = 20_000
NAME_MAX: Final = 100
"""Characters of a source's parts, which are in the index of campaign_views. The statement `entries` uses the same."""

_LIMITS: Final = (SOURCES_MAX, SAMPLE)
_DAY_SECONDS: Final = 86_400
_KEEP_SECONDS: Final = 2 * _DAY_SECONDS
"""How long Valkey keeps counts that no fold could write. `purge_folds` keeps their ids for longer."""

RETAIN_BATCH: Final = 1_000
"""Views that one statement deletes, so that none exceeds the statement timeout."""

PURGES: Final = {"purge_folds": _SQL["purge_folds"]}

_BOT: Final = re.compile(
    r"bot\b|bot[/_-]|crawl|spider|slurp|preview|facebookexternalhit|headless|lighthouse|monitor|scan"
    r"|^(curl|wget|python|java|go-http|okhttp|axios|node|ruby|php|perl|libwww)",
    re.IGNORECASE,
)
_TABLET: Final = re.compile(r"ipad|tablet|kindle|silk/|playbook|android(?!.*mobile)", re.IGNORECASE)
_PHONE: Final = re.compile(r"mobi|iphone|ipod|phone", re.IGNORECASE)

_COUNT: Final = Script(
    """
-- KEYS: counts, sources, seen of the campaign, seen of the page.
-- ARGV: the row's JSON before the source, the source's (if it is unknown, it is always counted), the row's after it,
--       that of OTHER, the visitor's hash, seconds of counts and of the day's keys, SOURCES_MAX, SAMPLE.
local source = ARGV[2]
if source ~= '"","",""' and redis.call('SISMEMBER', KEYS[2], source) == 0 then
  if redis.call('SCARD', KEYS[2]) < tonumber(ARGV[8]) then
    redis.call('SADD', KEYS[2], source)
    redis.call('EXPIRE', KEYS[2], ARGV[7])
  else
    source = ARGV[4]
  end
end

-- How many visitors a hash stands for: none if it was seen or is not in the sample.
local function visitors(key)
  local weight = 2 ^ math.floor(redis.call('SCARD', key) / tonumber(ARGV[9]))
  local a, b, c, d = string.byte(ARGV[5], 1, 4)
  if (((a * 256 + b) * 256 + c) * 256 + d) % weight ~= 0 or redis.call('SADD', key, ARGV[5]) == 0 then
    return 0
  end
  redis.call('EXPIRE', key, ARGV[7])
  return weight
end

local row = ARGV[1] .. source .. ARGV[3]
for kind, count in pairs({views = 1, visitors = visitors(KEYS[3]), page_visitors = visitors(KEYS[4])}) do
  if count > 0 then
    redis.call('HINCRBY', KEYS[1], kind .. row, string.format('%.0f', count))
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[6])
"""
)

_TAKE: Final = Script("""
-- KEYS: counts, fold. ARGV: an id for a new fold. Returns the hash to fold, first one that a process left.
if redis.call('EXISTS', KEYS[2]) == 0 then
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return {}
  end
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[2], 'id', ARGV[1])
end
return redis.call('HGETALL', KEYS[2])
""")

_DROP: Final = Script("""
-- KEYS: fold. ARGV: its id. Deletes it, unless another process has done so and begun another fold.
if redis.call('HGET', KEYS[1], 'id') == ARGV[1] then
  redis.call('UNLINK', KEYS[1])
end
""")

_PARTS: Final = ("campaign_id", "game_id", "hour", *SOURCE, "device", "country")


async def record_view(engine: Engine, request: m.RecordViewRequest) -> m.RecordViewReply:
    """Counts a view of a campaign's page or of one of its games. Views by bots are not counted.

    The consumer edge leaves out visitors who object by `Sec-GPC` or `DNT`. NOT_FOUND UNKNOWN_CAMPAIGN, UNKNOWN_GAME.
    """
    tenant_id, campaign_id, game_id = tenant_of(request), request.id, request.game_id
    source = source_of(request.source)
    is_page = await engine.database.fetchval(_SQL["page"], tenant_id, campaign_id, game_id)
    if is_page is None:
        raise unknown("campaign", campaign_id)
    if not is_page:
        raise unknown("game", game_id)
    if request.user_agent and not _BOT.search(request.user_agent):
        named = source.get("utm_source") or source.get("referrer", "")
        parts = (named, source.get("utm_medium", ""), source.get("utm_campaign", ""))
        try:
            await _count(engine, tenant_id, request, tuple(part[:NAME_MAX] for part in parts))
        except (EphemeralDown, RedisError):
            pass  # Counts are a convenience.
    return m.RecordViewReply()


async def _count(engine: Engine, tenant_id: str, request: m.RecordViewRequest, source: tuple[str, ...]) -> None:
    now = int(engine.clock.now())
    day, key = now // _DAY_SECONDS, f"{{{tenant_id}}}views:"
    day_seconds = (day + 1) * _DAY_SECONDS - now + 60  # Processes' clocks may differ a little.
    salt = await _salt(engine, f"{key}salt:{day}", day_seconds)
    client = f"{request.id}\n{request.client_address}\n{request.user_agent}"
    visitor = hmac.digest(salt, client.encode(), hashlib.sha256)[:8]
    country = request.country if is_country(request.country) else ""
    head = _json(request.id, request.game_id, now // 3600)
    tail = _json(device_of(request.user_agent), country)
    seen = f"{key}seen:{day}:{request.id}"
    await engine.ephemeral.script(
        _COUNT,
        [f"{key}counts", f"{key}sources:{day}:{request.id}", seen, f"{seen}:{request.game_id}"],
        [f"[{head},", _json(*source), f",{tail}]", _json(*OTHER), visitor, _KEEP_SECONDS, day_seconds, *_LIMITS],
    )


async def _salt(engine: Engine, key: str, seconds: int) -> bytes:
    """The day's salt. Never cached: a copy would outlive the day."""
    salt: bytes | None = await engine.ephemeral.run("GET", key)
    if salt is None:
        await engine.ephemeral.run("SET", key, secrets.token_bytes(32), "NX", "EX", seconds)
        salt = await engine.ephemeral.run("GET", key)
    return salt or b""


def _json(*parts: Any) -> str:
    """The items of a JSON array."""
    return msgspec.json.encode(parts).decode()[1:-1]


def device_of(user_agent: str) -> str:
    """The class of a device: phone, tablet or desktop."""
    return "tablet" if _TABLET.search(user_agent) else "phone" if _PHONE.search(user_agent) else "desktop"


class Fold(NamedTuple):
    """Counts of one fold. Postgres adds those of an id once."""

    id: str
    rows: list[dict[str, Any]]


async def fold(engine: Engine, tenant_id: str) -> bool:
    """Adds the tenant's counted views to Postgres, each once. Returns whether there were any."""
    try:
        taken = await take(engine, tenant_id)
        if taken is None:
            return False
        await add(engine, tenant_id, taken)
        await engine.ephemeral.script(_DROP, [f"{{{tenant_id}}}views:fold"], [taken.id])
    except (EphemeralDown, RedisError):
        return False  # The next fold continues.
    return True


async def take(engine: Engine, tenant_id: str) -> Fold | None:
    """Takes what was counted since the last fold, or what an interrupted fold has taken; None: nothing."""
    keys = [f"{{{tenant_id}}}views:counts", f"{{{tenant_id}}}views:fold"]
    found: list[bytes] = await engine.ephemeral.script(_TAKE, keys, [ids.make("fold")])
    if not found:
        return None
    stored = dict(zip(found[::2], found[1::2], strict=True))
    fold_id = stored.pop(b"id").decode()
    rows: dict[str, dict[str, Any]] = {}
    for name, count in stored.items():
        kind, bracket, rest = name.decode().partition("[")
        if rest not in rows:
            parts = dict(zip(_PARTS, msgspec.json.decode(bracket + rest), strict=True))
            view_id = f"view_{ids.ulid_at(parts['hour'] * 3600)}"  # An export of some hours is a range of ids.
            rows[rest] = {"view_id": view_id, "views": 0, "visitors": 0, "page_visitors": 0, **parts}
        rows[rest][kind] = int(count)
    return Fold(fold_id, list(rows.values()))


async def add(engine: Engine, tenant_id: str, taken: Fold) -> None:
    """Adds the counts, unless they were added before."""
    await engine.database.execute(_SQL["fold"], tenant_id, *taken)


async def fold_all(engine: Engine) -> None:
    """Folds the views of every tenant. One tenant's failure does not block the others."""
    if not engine.ephemeral.up:
        return
    for tenant_id in await engine.database.tenants(_TENANTS):
        await attempt(JOB, at(tenant_id, fold(engine, tenant_id)), tenant_id=tenant_id)


async def retain(engine: Engine, tenant_id: str) -> None:
    """Deletes views that are older than RETENTION_PLAYER_IDLE_DAYS; 0: none."""
    if days := engine.settings.retention_player_idle_days:
        before = ids.earliest("view", engine.clock.now() - days * 86_400)
        while await engine.database.execute(_SQL["retain"], tenant_id, before, RETAIN_BATCH) == RETAIN_BATCH:
            pass


RECORD_VIEW: Final = Operation(
    "RecordView",
    "POST /campaigns/{id}/views",
    run=record_view,
    consumer=Consumer(Access.EITHER, RoutePolicy.BEACON),
    bounded=True,
    refusals=("UNKNOWN_GAME",),
    example={"game_id": samples.GAME, "source": {"utm_source": "newsletter"}},
)
