"""A start's Idempotency-Key over Core's REST and RPC.

A start writes no row, so its key and reply are only in the ephemeral store, for the lifetime of the session. If the
store is down, a retry opens another session, which costs the player nothing. The consumer edge stores its players' keys
in the same call as their rate limits, and does not forward them to Core.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from redis.exceptions import RedisError

from runtime import messages as m
from runtime.actors.engine import Actors, Engine
from runtime.actors.idempotency import Replay, in_progress
from runtime.stores.ephemeral import Script, tag_of
from runtime.stores.pipeline import EphemeralDown

RESERVATION_SECONDS: Final = 10
"""How long the key of a crashed start stays reserved."""

_PENDING: Final = b"?"

_RESERVE: Final = Script("""
local stored = redis.call('GET', KEYS[1])
if not stored then
  redis.call('SET', KEYS[1], '?', 'EX', ARGV[1])
end
return stored
""")


async def start_once(engine: Engine, games: Actors[Any, Any, Any], request: m.StartRequest) -> m.StartReply | Replay:
    """Starts a session, or returns the stored reply of the player's earlier start of this game under the same key.

    ABORTED IDEMPOTENCY_IN_PROGRESS while the earlier start runs. A start contains only a game and a player, and both
    are part of the stored key, so one key never covers two different requests.
    """
    store, name = engine.ephemeral, _name(request)
    try:
        stored = await store.script(_RESERVE, [name], [RESERVATION_SECONDS])
    except (EphemeralDown, RedisError):
        return await _start(games, request)
    if stored == _PENDING:
        raise in_progress()
    if stored is not None:
        return Replay(m.StartReply.parse(stored))
    try:
        reply = await _start(games, request)
    except BaseException:
        store.post("DEL", name)
        raise
    store.post("SET", name, bytes(reply), "EX", engine.settings.session_ttl_seconds)
    return reply


async def _start(games: Actors[Any, Any, Any], request: m.StartRequest) -> m.StartReply:
    reply: m.StartReply = await games.post(games.key_of(request), request)
    return reply


def _name(request: m.StartRequest) -> str:
    assert request.scope is not None
    parts = (request.player_id, request.id, request.idempotency_key)
    digest = hashlib.blake2b("".join(f"{len(part)}:{part}" for part in parts).encode(), digest_size=16).hexdigest()
    return f"{{{tag_of(request.scope.tenant_id, request.player_id)}}}o:{digest}"
