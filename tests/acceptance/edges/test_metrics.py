"""What /metrics shows to an on-call engineer: requests, refusals, mailboxes, commits and stores."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

import sql
from runtime.actors.game.batch import GameActors
from runtime.stores.database import GUARDS
from tests.support.resources import make_campaign, make_game, play_once
from tests.support.stack import Stack

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
