"""Every operation that changes something, watched: it takes its locks in the order of sql/locks.py.

test_lock_order.py says of chosen transactions which locks they must be seen to take; here none is left out.
"""

from __future__ import annotations

import pytest

from runtime.operations import OPERATIONS
from runtime.wire.schema import fields_of
from sql.locks import LOCK_ORDER
from tests.support.lock_ladder import watch, wrong_turns
from tests.support.operations import body_of, furnish, path_of
from tests.support.stack import Stack

CHANGING = sorted(
    (row for row in OPERATIONS if row.verb != "GET"), key=lambda row: (row.verb == "DELETE", row.consumer is None)
)
"""Players' first, while all is as it was made; what takes things away last."""


@pytest.mark.timeout(600)
async def test_operations_take_their_locks_in_the_declared_order(stack: Stack) -> None:
    known, refusals = await furnish(stack), dict[str, str]()
    wrong: dict[str, list[str]] = {}
    locked: dict[str, set[str]] = {}
    for operation in CHANGING:
        body = body_of(operation, known) if operation.has_body else {}
        if "idempotency_key" in fields_of(operation.request):
            body["idempotency_key"] = "k"
        asked = stack.core(operation.verb, path_of(operation, known), body if operation.verb != "DELETE" else None)
        answer, taken = await watch(stack.process.settings.database_url, stack.tenant_id, asked)
        if found := wrong_turns(taken):
            wrong[operation.name] = found
        if answer.code != "OK":
            refusals[operation.name] = answer.reason
            continue
        locked[operation.name] = {LOCK_ORDER[lock.place] for locks in taken.values() for lock in locks}
        if operation.name == "Start":
            known["session"] = answer.data["session_id"]
        if operation.name == "Play":
            known["reward"] = answer.data["rewards"][0]["reward_id"]
    assert wrong == {}
    assert len(locked) > 2 * len(refusals), refusals
    assert {"game_players", "stock"} <= locked["Play"]
    assert {"tenants", "games"} <= locked["UpdateGame"]
    assert {"integrations", "integration_deliveries"} <= locked["DeleteIntegration"]
