"""Every transaction takes its locks in the order of sql/locks.py, so none waits for another in a circle."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import sql
from ops.servers.postgres import Postgres
from runtime.operations import OPERATIONS
from runtime.wire.schema import fields_of
from sql.locks import LOCK_ORDER
from tests.support.furnished import Scene, new_scene
from tests.support.lock_ladder import Watch, wrong_turns
from tests.support.operations import body_of, furnish, path_of
from tests.support.stack import Stack
from tests.support.transactions import TRANSACTIONS

_TOUCHES = (
    re.compile(r"\b(?:UPDATE|DELETE FROM)\s+(?!SET\b|SKIP\b|OF\b)(\w+)", re.IGNORECASE),
    re.compile(r"\bINSERT INTO (\w+)(?:(?!\bINSERT INTO\b).)*?\bDO UPDATE\b", re.IGNORECASE | re.DOTALL),
    re.compile(r"\bFROM (\w+)\b(?:(?!\bFROM\b).)*?\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b", re.IGNORECASE | re.DOTALL),
)


PLANS = {"as planned": (), "from the beginning": ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")}
"""What the planner does not do. Of a table of a few pages it reads all, so that an update finds rows where they lie."""


@pytest.fixture(scope="module", params=["as planned", pytest.param("from the beginning", marks=pytest.mark.nightly)])
def module_database_url(request: pytest.FixtureRequest, postgres: Postgres, module_database_url: str) -> str:
    for setting in PLANS[request.param]:
        postgres.psql(f"ALTER DATABASE {module_database_url.rpartition('/')[2]} SET {setting} = off")
    return module_database_url


@pytest_asyncio.fixture(scope="module")
async def watch(module_database_url: str) -> AsyncIterator[Watch]:
    async with Watch(module_database_url) as watch:
        yield watch


@pytest.fixture
async def scene(module_stack: Stack) -> Scene:
    return await new_scene(module_stack)


@pytest.mark.parametrize("name", TRANSACTIONS)
async def test_locks_are_taken_in_the_declared_order(name: str, scene: Scene, watch: Watch) -> None:
    tables, prepare = TRANSACTIONS[name]
    _, taken = await watch(scene.tenant_id, await prepare(scene))
    assert wrong_turns(taken) == []
    seen = {LOCK_ORDER[lock.place] for locks in taken.values() for lock in locks}
    assert tables <= seen, f"not seen to lock {sorted(tables - seen)}: the test sees less than it thinks"


async def test_lock_order_names_every_locked_table() -> None:
    found = set[str]()
    for file in sql.files():
        for text in sql.load(file).values():
            bare = re.sub(r"--.*", "", text)
            found.update(*(touches.findall(bare) for touches in _TOUCHES))
    tables = set(re.findall(r"^CREATE TABLE (\w+)", sql.SCHEMA.read_text(), re.MULTILINE))
    missing = found & tables - set(LOCK_ORDER)
    assert not missing, f"say in sql/locks.py when the rows of {sorted(missing)} are locked"
    assert set(LOCK_ORDER) <= tables


@pytest.mark.timeout(600)
async def test_operations_take_their_locks_in_the_declared_order(stack: Stack) -> None:
    known, refusals = await furnish(stack), dict[str, str]()
    wrong: dict[str, list[str]] = {}
    locked: dict[str, set[str]] = {}
    changing = sorted(
        (row for row in OPERATIONS if row.verb != "GET"), key=lambda row: (row.verb == "DELETE", row.consumer is None)
    )
    async with Watch(stack.process.settings.database_url) as watch:
        for operation in changing:
            body = body_of(operation, known) if operation.has_body else {}
            if "idempotency_key" in fields_of(operation.request):
                body["idempotency_key"] = "k"
            asked = stack.core(operation.verb, path_of(operation, known), body if operation.verb != "DELETE" else None)
            answer, taken = await watch(stack.tenant_id, asked)
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
