from functools import partial
from typing import Any, Final

from runtime.commands.groups.log.witness import State, read_entries, visit
from runtime.operations.log import appending
from tests.support.invariants import broken_of, everything
from tests.support.stack import Stack
from tests.support.waiting import until

UNGUARDED: Final = "SET LOCAL session_replication_role = 'replica'; "
"""As the database's operator may do: without triggers."""


async def tamper(stack: Stack, statement: str, *args: Any) -> None:
    async with stack.database.connection() as connection, connection.transaction():
        await connection.execute(UNGUARDED)
        assert await connection.fetch(f"{statement} RETURNING 1", stack.tenant_id, *args)


async def append(stack: Stack) -> None:
    """Appends until every row of now has a leaf: a transaction that runs may hold the watermark back."""
    rows = await stack.database.fetchval("SELECT now()")

    async def is_settled() -> bool:
        await appending.append(stack.engine, stack.tenant_id)
        until = "SELECT logged_until > $2 FROM log_trees WHERE tenant_id = $1 AND size > 0"
        return bool(await stack.database.fetchval(until, stack.tenant_id, rows)) or not await unlogged(stack)

    await until(is_settled)


async def unlogged(stack: Stack) -> list[str]:
    walk, leaves = "conservation.walk_logged", "SELECT kind || ' ' || row_id AS id FROM log_leaves WHERE tenant_id = $1"
    rows = await stack.database.fetch(appending.CONSERVATION[walk.partition(".")[2]], stack.tenant_id, "", 1_000)
    held = {row["id"] for row in await stack.database.fetch(leaves, stack.tenant_id)}
    return [row["id"] for row in rows if row["id"] not in held]


async def fetch(stack: Stack, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {stack.token('staff', ('designer',))}"}
    async with stack.http.get(f"{stack.process.admin_url}/api/v1/admin/log/{path}", headers=headers) as answer:
        assert answer.status == 200, (path, await answer.text())
        return await answer.read()


async def new_witness(stack: Stack) -> State:
    state = State(keys=(await stack.admin("GET", "/admin/log")).data["keys"])
    await visit(state, partial(fetch, stack))
    assert await problems(stack, state) == []
    return state


async def problems(stack: Stack, state: State, **more: Any) -> list[str]:
    return [problem async for problem in read_entries(state, partial(fetch, stack), **more)]


async def found(stack: Stack) -> set[tuple[str, str]]:
    """What `tombola audit` finds: the check and the row."""
    by_check = await broken_of(stack.database, stack.tenant_id, await everything(stack.database, stack.tenant_id))
    return {
        (check, row["row_id"] or row["id"])
        for check, rows in by_check.items()
        for row in rows
        if check.startswith(("leaf", "logged", "checkpoint"))
    }
