"""What holds on every surface, whatever is asked: the envelope, the trace, limits, health, caches, the stop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.operations import API
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.rewards import Shelf
from tests.support.stack import AS_SHIPPED, BROWSER, Stack
from tests.support.waiting import until

SURFACES = ("core", "consumer", "admin")


def url_of(stack: Stack, surface: str) -> str:
    return str(getattr(stack.process, f"{surface}_url"))


async def test_content_type_is_read_alike_on_every_surface(stack: Stack, shelf: Shelf) -> None:
    staff = {"Authorization": f"Bearer {stack.token('staff', ('admin',))}"}
    player = {"Authorization": f"Bearer {stack.token('ann')}"}
    codes = f"/prizes/{await shelf.prize(channel='voucher_code')}/codes"
    scope = f'"scope": {{"tenant_id": "{stack.tenant_id}"}}'
    routes = [
        (stack.process.core_url, "/campaigns", f'{{{scope}, "campaign": {{"name": "x"}}}}', {}),
        (stack.process.core_url, codes, f'{{{scope}, "codes": ["A"]}}', {}),
        (stack.process.consumer_url, "/players/me", '{"display_name": "Ann"}', player),
        (stack.process.admin_url, "/admin/campaigns", '{"name": "x"}', staff),
        (stack.process.admin_url, f"/admin{codes}", '{"codes": ["A"]}', staff),
    ]
    read = ("application/json", "Application/JSON; charset=utf-8", "application/x-www-form-urlencoded", "")
    wrong = []
    for base, path, body, headers in routes:
        for kind in (*read, "text/xml", "multipart/form-data; boundary=x", "application/jsonx"):
            verb, sent = "PUT" if path == "/players/me" else "POST", headers | ({"Content-Type": kind} if kind else {})
            request = stack.http.request(
                verb, base + API + path, data=body.encode(), headers=sent, skip_auto_headers=["Content-Type"]
            )
            async with request as answer:
                envelope = await answer.json()
            outcome = (answer.status, envelope["data"].get("reason"))
            expected = (200, None) if kind in read else (415, "CONTENT_TYPE_UNSUPPORTED")
            remedy = "set Content-Type to application/json"
            if outcome != expected or (outcome[0] == 415 and remedy not in envelope["message"]):
                wrong.append((base, path, kind, outcome, envelope["message"]))
    assert wrong == []


@contextmanager
def frozen(postgres: Postgres) -> Iterator[None]:
    postgres.freeze()
    backends = psutil.Process(postgres.pid).children()
    for backend in backends:
        backend.suspend()
    try:
        yield
    finally:
        for backend in backends:
            backend.resume()
        postgres.thaw()


READY_SECONDS = 8.0

patient_with_both = pytest.mark.settings(redis_timeout_seconds=10.0, database_statement_timeout_seconds=30.0)


@pytest.mark.parametrize("surface", SURFACES)
async def test_running_process_is_alive_and_ready(stack: Stack, surface: str) -> None:
    async def answers(path: str) -> tuple[int, str]:
        async with stack.http.get(url_of(stack, surface) + path) as answer:
            return answer.status, (await answer.json())["code"]

    async def is_ready() -> bool:
        return await answers("/readyz") == (200, "OK")

    assert await answers("/healthz") == (200, "OK")
    # A store that a busy machine keeps waiting for longer than a probe waits is not ready for that time.
    await until(is_ready)


@patient_with_both
async def test_readiness_names_a_frozen_database(stack: Stack, postgres: Postgres) -> None:
    with frozen(postgres):
        async with asyncio.timeout(READY_SECONDS), stack.http.get(f"{stack.process.core_url}/readyz") as answer:
            assert (answer.status, answer.headers["X-Failed-Check"]) == (503, "database")


async def test_metrics_have_every_outcome_from_the_start(stack: Stack) -> None:
    async with stack.http.get(f"{stack.process.core_url}/metrics") as answer:
        text = await answer.text()
    assert answer.headers["Content-Type"].startswith("text/plain")
    for outcome in ("delivered", "awaiting", "retry", "dead"):
        assert f'fulfillment_tasks_total{{outcome="{outcome}"}}' in text
    assert "tombola_database_round_trips_total" in text
    assert 'tombola_operation_seconds_bucket{le="0.001",operation="Play"}' in text


@pytest.mark.parametrize("surface", ["consumer", "admin"])
async def test_metrics_are_not_served_by_an_edge(stack: Stack, surface: str) -> None:
    async with stack.http.get(url_of(stack, surface) + "/metrics") as answer:
        assert answer.status == 404


async def test_core_reads_proto3_json(stack: Stack) -> None:
    body = {"campaign": {"name": "Autumn", "status": 2, "startDate": "1767225600", "endDate": 4102444800}}
    made = (await stack.core("POST", "/campaigns", body)).data["campaign"]
    assert (made["status"], made["start_date"]) == ("CAMPAIGN_STATUS_ACTIVE", "1767225600")
    query = {"scope.tenantId": stack.tenant_id, "status": "2", "limit": "1"}
    async with stack.http.get(f"{stack.process.core_url}{API}/campaigns", params=query) as answer:
        assert [one["id"] for one in (await answer.json())["data"]["items"]] == [made["id"]]


async def test_id_of_a_body_that_differs_from_the_path_is_refused(stack: Stack) -> None:
    answer = await stack.core("PUT", "/games/game_a", {"id": "game_b", "game": {"name": "x"}})
    assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "id")
    answer = await stack.admin("PUT", "/admin/games/game_a", {"id": "game_b", "name": "x"})
    assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "id")


async def test_key_of_a_body_that_differs_from_the_header_is_refused(stack: Stack) -> None:
    url = f"{stack.process.core_url}{API}/rewards/reward_x/claim"
    body = {"scope": {"tenant_id": stack.tenant_id}, "player_id": "p", "idempotency_key": "a"}
    async with stack.http.post(url, json=body, headers={"Idempotency-Key": "b"}) as answer:
        assert (await answer.json())["data"]["violations"][0]["field"] == "idempotency_key"


async def test_cached_render_shows_a_change_at_once(stack: Stack) -> None:
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    path = f"/games/{game['id']}/render"
    assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
    calls = stack.database.round_trips if stack.engine else 0
    assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
    assert stack.database.round_trips == calls
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"name": "Other"})
    assert (await stack.consumer("GET", path)).data["name"] == "Other"


@pytest.mark.settings(**AS_SHIPPED)
async def test_public_page_is_served_and_viewed_without_the_ephemeral_store(
    stack: Stack, valkey_server: Valkey
) -> None:
    campaign = await make_campaign(stack)
    valkey_server.freeze()
    try:
        answer = await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")
        assert (await stack.consumer("POST", f"/campaigns/{campaign['id']}/views", {}, headers=BROWSER)).data == {}
    finally:
        valkey_server.thaw()
    assert answer.data["name"] == "Autumn"
