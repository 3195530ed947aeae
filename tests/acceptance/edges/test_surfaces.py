import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

import sql
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.actors.game.batch import GameActors
from runtime.operations import API
from runtime.stores.database import GUARDS
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.rewards import Shelf
from tests.support.stack import AS_SHIPPED, BROWSER, Stack


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


@pytest.mark.settings(redis_timeout_seconds=10.0, database_statement_timeout_seconds=30.0)
async def test_readiness_names_a_frozen_database(stack: Stack, postgres: Postgres) -> None:
    with frozen(postgres):
        async with asyncio.timeout(8.0), stack.http.get(f"{stack.process.core_url}/readyz") as answer:
            assert (answer.status, answer.headers["X-Failed-Check"]) == (503, "database")


@pytest.mark.parametrize("surface", ["consumer", "admin"])
async def test_metrics_are_not_served_by_an_edge(stack: Stack, surface: str) -> None:
    async with stack.http.get(getattr(stack.process, f"{surface}_url") + "/metrics") as answer:
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
    game = await make_game(stack, (await make_campaign(stack))["id"], await make_prize(stack))
    path = f"/games/{game['id']}/render"
    assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
    calls = stack.database.round_trips if stack.engine else 0
    assert (await stack.consumer("GET", path)).data["name"] == "Wheel"
    assert stack.database.round_trips == calls
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"name": "Other"})
    assert (await stack.consumer("GET", path)).data["name"] == "Other"


@pytest.mark.settings(**AS_SHIPPED)
async def test_public_page_is_served_and_viewed_without_valkey(stack: Stack, valkey_server: Valkey) -> None:
    campaign = await make_campaign(stack)
    valkey_server.freeze()
    try:
        answer = await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")
        assert (await stack.consumer("POST", f"/campaigns/{campaign['id']}/views", {}, headers=BROWSER)).data == {}
    finally:
        valkey_server.thaw()
    assert answer.data["name"] == "Autumn"


PLAY = {"edge": "consumer", "method": "POST", "route": "/api/v1/games/{id}/play"}


async def scrape(stack: Stack) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async with stack.http.get(f"{stack.process.metrics_url}/metrics") as answer:
        text = await answer.text()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


async def value(stack: Stack, name: str, **labels: str) -> float:
    return (await scrape(stack)).get((name, frozenset(labels.items())), 0.0)


async def test_requests_are_counted_by_route_and_status(stack: Stack) -> None:
    before = await value(stack, "tombola_http_requests_total", **PLAY, status="400")
    timed = await value(stack, "tombola_http_request_seconds_count", **PLAY)
    for nth in range(3):
        assert (await stack.consumer("POST", f"/games/game_{nth}/play", {"session_id": 1}, player="ada")).http == 400
    assert await value(stack, "tombola_http_requests_total", **PLAY, status="400") == before + 3
    assert await value(stack, "tombola_http_request_seconds_count", **PLAY) == timed + 3


async def test_unknown_paths_share_one_series(stack: Stack) -> None:
    labels = {"edge": "consumer", "method": "", "route": "unrouted", "status": "404"}

    async def series() -> int:
        return sum(name.startswith("tombola_http_") for name, _ in await scrape(stack))

    before, found = await value(stack, "tombola_http_requests_total", **labels), await series()
    for nth in range(20):
        assert (await stack.consumer("GET", f"/invented/{nth}")).http == 404
    assert await value(stack, "tombola_http_requests_total", **labels) == before + 20
    assert await series() <= found + 1


@pytest.mark.settings(rate_limits=True, rate_ip_per_second=0.01, rate_ip_burst=1)
async def test_rate_limited_requests_are_counted_by_policy(stack: Stack) -> None:
    def limited(samples: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> float:
        return sum(count for (name, _), count in samples.items() if name == "tombola_rate_limited_total")

    before = limited(await scrape(stack))
    answers = [await stack.consumer("POST", "/games/none/start", {}, player="ada") for _ in range(30)]
    refused = sum(answer.http == 429 for answer in answers)
    assert refused and limited(await scrape(stack)) == before + refused


async def test_play_is_counted_in_its_batch_and_its_commit(stack: Stack) -> None:
    game = await make_game(stack, (await make_campaign(stack))["id"])
    batches = await value(stack, "tombola_batch_size_count", actors=GameActors.name)
    commits = await value(stack, "tombola_commit_seconds_count")
    await play_once(stack, game["id"])
    assert await value(stack, "tombola_batch_size_count", actors=GameActors.name) >= batches + 2
    assert await value(stack, "tombola_commit_seconds_count") > commits
    assert await value(stack, "tombola_mailbox_limit", actors="games") == stack.process.settings.mailbox_limit
    assert await value(stack, "tombola_pool_size", database="home") >= 1


async def test_no_series_says_when_a_counter_was_created(stack: Stack) -> None:
    assert [name for name, _ in await scrape(stack) if name.endswith("_created")] == []


def test_guards_are_those_of_the_statements() -> None:
    text = "".join(file.read_text() for file in sql.SCHEMA.parent.glob("*.sql"))
    assert set(GUARDS) == set(re.findall(r"refuse\('(\w+)'\)", text))
