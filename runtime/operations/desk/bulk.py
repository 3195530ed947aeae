"""Rewards in bulk: one request, and of each reward what became of it. Each is moved by itself, or stays as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import replayed
from runtime.errors import Fault, Status, unknown
from runtime.operations import fulfillment
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import Held, go_on, is_approved, may_wait
from runtime.operations.checks import Checks
from runtime.operations.idempotent_writes import once
from runtime.operations.rewards import reward_admin
from runtime.wire.scope import merchant_of, tenant_of

_TASK_OF: Final = sql.load("desk")["task_of"]
_WAITING: Final = sql.load("approvals")["rewards"]

MOST: Final = 100

_OVERLOADED: Final = frozenset({Status.UNAVAILABLE, Status.INTERNAL})


@may_wait
async def bulk_rewards(engine: Engine, request: m.BulkRewardsRequest) -> m.BulkRewardsReply:
    """Fulfills or revokes up to 100 rewards, or has their deliveries tried again, and says of each what became of it.

    With an Idempotency-Key what was done is not done again by a retry, which answers as the first time; what was
    not is tried again, and so the edge keeps no answer with any of these. INVALID_ARGUMENT IDEMPOTENCY_MISMATCH where
    the key was used for another request. More revocations than DUAL_REVOCATIONS_ABOVE wait for a second person: 202
    APPROVAL_NEEDED.
    """
    checks = Checks()
    if not request.act:
        checks.problem("act", "is required")
    if not 0 < len(request.ids) <= MOST:
        checks.problem("ids", f"must be from 1 to {MOST}")
    for index, reward_id in enumerate(request.ids):
        checks.required(f"ids[{index}]", reward_id)
        if reward_id in request.ids[:index]:
            checks.problem(f"ids[{index}]", "is there twice")
    checks.raise_found()
    # The whole request's key keeps what it was used for, and no reply: what is answered is told by the parts.
    await once(engine, request, m.BulkRewardsReply, _nothing)
    await _hold(engine, request)
    act = _ACTS[request.act]
    results: list[m.BulkResult] = []
    overloaded: Fault | None = None
    repeated = True
    for reward_id in request.ids:
        await go_on(engine)
        result = m.BulkResult(id=reward_id, ok=True)
        try:
            await act(engine, request, reward_id)
        except Fault as fault:
            if fault.status in _OVERLOADED:
                if not results:
                    raise  # Nothing was done yet: the request may come again as it is.
                overloaded = fault
            result.ok, result.reason, result.message = False, fault.reason, fault.message
        repeated = repeated and result.ok and replayed.get()
        results.append(result)
    if overloaded is not None and is_approved():
        raise overloaded  # Else the approval would be done, and these never: who approves it again goes on.
    replayed.set(repeated)
    return m.BulkRewardsReply(results=results)


async def _nothing(_: asyncpg.Connection) -> m.BulkRewardsReply:
    return m.BulkRewardsReply()


async def _hold(engine: Engine, request: m.BulkRewardsRequest) -> None:
    waits = request.act is m.BulkAct.REVOKE and policy.revocations(engine.settings, len(request.ids))
    if is_approved() or not waits:
        return
    rows = await engine.database.fetch(_WAITING, tenant_of(request), list(request.ids), merchant_of(request))
    known = [dict(row) for row in rows]
    missing = sorted(set(request.ids) - {row["id"] for row in known})
    revoked = [row | {"status": "revoked"} for row in known]
    said = {"reason": request.reason, "unknown": missing}
    after = {"rewards": revoked} | {name: value for name, value in said.items() if value}
    raise Held("", before={"rewards": known}, after=after)


async def _fulfill(engine: Engine, request: m.BulkRewardsRequest, reward_id: str) -> None:
    said = {"note": request.reason, "idempotency_key": request.idempotency_key}
    await reward_admin.fulfill(engine, m.FulfillRewardRequest(scope=request.scope, id=reward_id, **said))


async def _revoke(engine: Engine, request: m.BulkRewardsRequest, reward_id: str) -> None:
    said = {"reason": request.reason, "idempotency_key": request.idempotency_key}
    await reward_admin.revoke(engine, m.RevokeRewardRequest(scope=request.scope, id=reward_id, **said))


async def _retry(engine: Engine, request: m.BulkRewardsRequest, reward_id: str) -> None:
    task_id = await engine.database.fetchval(_TASK_OF, tenant_of(request), reward_id)
    if task_id is None:
        raise unknown("reward", reward_id)
    try:
        keyed = m.RetryTaskRequest(scope=request.scope, id=task_id, idempotency_key=request.idempotency_key)
        await fulfillment.retry_task(engine, keyed)
    except Fault as fault:
        raise unknown("reward", reward_id) if fault.reason == "UNKNOWN_TASK" else fault from None


_ACTS: Final[Mapping[Any, Callable[[Engine, m.BulkRewardsRequest, str], Awaitable[None]]]] = {
    m.BulkAct.FULFILL: _fulfill,
    m.BulkAct.REVOKE: _revoke,
    m.BulkAct.RETRY: _retry,
}
