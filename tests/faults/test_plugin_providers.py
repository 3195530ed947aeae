from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.outgoing.providers import CHANNEL_PROVIDERS, Awaiting, Delivered, Failed
from runtime.streams.delivery import LEASES_MAX
from tests.support.deliveries import make_due, make_receiver_prize, make_task, state, sweep
from tests.support.receiver import Receiver
from tests.support.stack import TO_LOOPBACK

pytestmark = pytest.mark.settings(**TO_LOOPBACK)

TENANT = "tenant_test"
CHANNEL = "of_a_plugin"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    def add(outcome: Any) -> None:
        async def provider(connector: Any, request: Any) -> Any:
            return outcome

        monkeypatch.setitem(CHANNEL_PROVIDERS._things, CHANNEL, provider)

    yield add


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        *((Delivered("a\0b"), "delivered"), (Awaiting("\ud800"), "awaiting")),
        (Delivered(7), "delivered"),  # type: ignore[arg-type]
        *((Failed("x\0y"), "retry"), (Failed("later", retry_after_seconds=float("inf")), "retry")),
        (Failed("later", retry_after_seconds="soon"), "retry"),  # type: ignore[arg-type]
        (None, "retry"),
    ],
)
async def test_outcome_that_cannot_be_stored_fails_only_its_own_task(
    engine: Any, receiver: Receiver, register: Callable[[Any], None], outcome: Any, status: str
) -> None:
    register(outcome)
    odd_prize = await make_receiver_prize(engine, TENANT, receiver.url, CHANNEL)
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    tasks = [await make_task(engine, TENANT, one) for one in (prize_id, odd_prize, prize_id)]
    assert await sweep(engine) == 3
    assert [(await state(engine, task_id))[0] for task_id in tasks] == ["delivered", status, "delivered"]


@pytest.mark.parametrize("url", ["http://[", "//[::1", "plugin:whatever", 7, None, {"a": 1}])
async def test_invalid_url_does_not_crash_the_attempt(engine: Any, register: Callable[[Any], None], url: Any) -> None:
    register(Delivered())
    tasks = []
    for channel in (CHANNEL, "webhook"):
        prize_id = await make_receiver_prize(engine, TENANT, "http://a.example", channel)
        change = "UPDATE prizes SET channel_config = jsonb_build_object('url', $2::jsonb) WHERE prize_id = $1"
        await engine.database.execute(change, prize_id, url)
        tasks.append(await make_task(engine, TENANT, prize_id))
    assert await sweep(engine) == 2
    assert [(await state(engine, task_id))[0] for task_id in tasks] == ["delivered", "retry"]


async def test_task_that_kills_its_workers_is_dead(engine: Any, receiver: Receiver) -> None:
    task_id = await make_task(engine, TENANT, await make_receiver_prize(engine, TENANT, receiver.url))
    change = "UPDATE tasks SET status = 'delivering', attempts = $2, lease_until = now() WHERE task_id = $1"
    await engine.database.execute(change, task_id, LEASES_MAX)
    await make_due(engine, task_id)
    assert await sweep(engine) == 1
    assert await state(engine, task_id) == ("dead", "failed")
    assert not receiver.all
