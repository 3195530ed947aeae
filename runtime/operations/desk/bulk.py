"""Bulk actions on rewards: one request, with a result for each reward. Each reward has its own transaction."""

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
from runtime.operations.approvals.pending import NeedsApproval, is_approved, may_need_approval, require_not_rejected
from runtime.operations.checks import Checks
from runtime.operations.idempotent_writes import once
from runtime.operations.rewards import reward_admin
from runtime.wire.scope import merchant_of, tenant_of

_TASK_OF: Final = sql.load("desk")["task_of"]
_REWARDS: Final = sql.load("approvals")["rewards"]

REWARDS_MAX: Final = 100

_OVERLOADED: Final = frozenset({Status.UNAVAILABLE, Status.INTERNAL})


@may_need_approval
async def bulk_rewards(engine: Engine, request: m.BulkRewardsRequest) -> m.BulkRewardsReply:
    """Fulfills, revokes or redelivers up to 100 rewards, and returns a result for each.

    With an Idempotency-Key, a retry repeats the results of successful parts and tries the failed ones again. So the
    edge stores no reply that has failures. INVALID_ARGUMENT IDEMPOTENCY_MISMATCH if the key was used for another
    request. More revocations than DUAL_REVOCATIONS_ABOVE need a second person's approval: 202 APPROVAL_NEEDED.
    """
    checks = Checks()
    if not request.act:
        checks.problem("act", "is required")
    if not 0 < len(request.ids) <= REWARDS_MAX:
        checks.problem("ids", f"must be from 1 to {REWARDS_MAX}")
    for index, reward_id in enumerate(request.ids):
        checks.required(f"ids[{index}]", reward_id)
        if reward_id in request.ids[:index]:
            checks.problem(f"ids[{index}]", "must be unique")
    checks.raise_found()
    # The request's key stores only the request hash. The reply is built from the parts' own keys.
    await once(engine, request, m.BulkRewardsReply, _empty_reply)
    await _require_approval(engine, request)
    act = _ACTS[request.act]
    results: list[m.BulkResult] = []
    overloaded: Fault | None = None
    repeated = True
    for reward_id in request.ids:
        await require_not_rejected(engine)
        result = m.BulkResult(id=reward_id, ok=True)
        try:
            await act(engine, request, reward_id)
        except Fault as fault:
            if fault.status in _OVERLOADED:
                if not results:
                    raise  # Nothing is done yet, so the client can retry the whole request.
                overloaded = fault
            result.ok, result.reason, result.message = False, fault.reason, fault.message
        repeated = repeated and result.ok and replayed.get()
        results.append(result)
    if overloaded is not None and is_approved():
        raise overloaded  # Otherwise the approval would be done without these parts. Approving it again resumes it.
    replayed.set(repeated)
    return m.BulkRewardsReply(results=results)


async def _empty_reply(_: asyncpg.Connection) -> m.BulkRewardsReply:
    return m.BulkRewardsReply()


async def _require_approval(engine: Engine, request: m.BulkRewardsRequest) -> None:
    needed = request.act is m.BulkAct.REVOKE and policy.revocations(engine.settings, len(request.ids))
    if is_approved() or not needed:
        return
    rows = await engine.database.fetch(_REWARDS, tenant_of(request), list(request.ids), merchant_of(request))
    known = [dict(row) for row in rows]
    missing = sorted(set(request.ids) - {row["id"] for row in known})
    revoked = [row | {"status": "revoked"} for row in known]
    details = {"reason": request.reason, "unknown": missing}
    after = {"rewards": revoked} | {name: value for name, value in details.items() if value}
    raise NeedsApproval("", before={"rewards": known}, after=after)


async def _fulfill(engine: Engine, request: m.BulkRewardsRequest, reward_id: str) -> None:
    fields = {"note": request.reason, "idempotency_key": request.idempotency_key}
    await reward_admin.fulfill(engine, m.FulfillRewardRequest(scope=request.scope, id=reward_id, **fields))


async def _revoke(engine: Engine, request: m.BulkRewardsRequest, reward_id: str) -> None:
    fields = {"reason": request.reason, "idempotency_key": request.idempotency_key}
    await reward_admin.revoke(engine, m.RevokeRewardRequest(scope=request.scope, id=reward_id, **fields))


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
