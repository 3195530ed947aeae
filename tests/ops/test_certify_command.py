import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from ops.certification.remote.certify import ROWS
from ops.certification.remote.deployment import Answer, Broken, Deployment
from runtime.operations.row import PLATFORM
from tests.support import invariants
from tests.support.operator import begun, tombola
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.waiting import until

STAFF = ("admin", PLATFORM)


async def certified(
    stack: Stack, *arguments: str, roles: tuple[str, ...] = STAFF, url: str = ""
) -> tuple[int, str, str]:
    return await tombola(
        *("certify", "--url", url or stack.process.consumer_url, "--admin-url", stack.process.admin_url, *arguments),
        TOMBOLA_TOKEN=stack.token("certifier", roles),
    )


@pytest.mark.settings(rate_limits=True)
async def test_certify_passes_a_sound_deployment_and_archives_what_it_made(stack: Stack) -> None:
    code, out, err = await certified(stack)
    assert (code, err) == (0, ""), out
    assert f"{len(ROWS)} of {len(ROWS)} rows hold" in out
    assert "left behind" not in out
    tenants = await stack.database.fetch("SELECT tenant_id, status FROM tenants WHERE name LIKE 'Certification %'")
    assert [row["status"] for row in tenants] == ["suspended"] * 2
    assert all(row["tenant_id"] in out for row in tenants)
    assert {row["status"] for row in await stack.database.fetch("SELECT DISTINCT status FROM games")} <= {"archived"}
    await invariants.check(stack.database)


@pytest.mark.settings(rate_limits=False, header_fallback=True)
async def test_certify_exits_1_and_names_the_failed_checks(stack: Stack) -> None:
    code, out, _ = await certified(stack, "--json")
    rows = {row["name"]: row["outcome"] for row in json.loads(out)["rows"]}
    assert {name for name, outcome in rows.items() if outcome != "ok"} == {"Rate limit", "Header fallback off"}
    assert code == 1


async def test_certify_refuses_bad_tokens_and_urls_before_it_makes_anything(stack: Stack) -> None:
    count = "SELECT count(*) FROM tenants"
    before = await stack.database.fetchval(count)
    nowhere = "http://127.0.0.1:1"
    for running, exit_code, error in (
        (certified(stack, roles=("admin",)), 2, "the token lacks the role platform"),
        (tombola("certify", "--url", nowhere, "--admin-url", nowhere), 2, "a token is required"),
        (tombola("certify", "--url", nowhere, "--admin-url", nowhere, "--token", "x"), 4, nowhere),
        (certified(stack, url=nowhere), 4, "127.0.0.1:1"),
        (certified(stack, url=stack.process.core_url), 2, "is not a consumer edge"),
    ):
        code, out, err = await running
        assert (code, out) == (exit_code, "") and error in err and "Traceback" not in err
    assert await stack.database.fetchval(count) == before


async def test_interrupted_certify_archives_what_it_made(stack: Stack) -> None:
    asks = ("certify", "--url", stack.process.consumer_url, "--admin-url", stack.process.admin_url)
    process = await begun(*asks, TOMBOLA_TOKEN=stack.token("certifier", STAFF))
    await until(lambda: stack.database.fetchval("SELECT count(*) FROM plays"), lambda it: it > 3)
    process.send_signal(signal.SIGTERM)  # As SIGINT does, by asyncio.
    out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"") and b"Traceback" not in err, err
    made = await stack.database.fetch("SELECT tenant_id, status FROM tenants WHERE name LIKE 'Certification %'")
    assert [row["status"] for row in made] == ["suspended"] * 2
    assert all(row["tenant_id"].encode() in err for row in made) and b"left behind" not in err


Lie = Callable[[str, Answer], Answer]


@dataclass(slots=True)
class LiedTo(Deployment):
    """A deployment whose answers are changed on their way: what it would say if it kept a promise no more."""

    lie: Lie = lambda path, answer: answer

    async def _ask(self, url: str, verb: str, path: str, *rest: Any) -> Answer:
        return self.lie(path, await Deployment._ask(self, url, verb, path, *rest))


@pytest_asyncio.fixture(scope="module")
async def deployment(module_database_url: str, valkey_url: str) -> AsyncIterator[LiedTo]:
    settings = settings_of(module_database_url, valkey_url, rate_limits=True, rate_player_per_second=50.0)
    async with new_stack(settings) as stack, aiohttp.ClientSession() as http:
        made = LiedTo(http, stack.process.consumer_url, stack.process.admin_url, stack.token("certifier", STAFF))
        await made.make()
        yield made


def changed(answer: Answer, **data: Any) -> Answer:
    return replace(answer, envelope={**answer.envelope, "data": {**answer.envelope["data"], **data}})


def success(answer: Answer, **data: Any) -> Answer:
    return replace(answer, http=200, envelope={**answer.envelope, "code": "OK", "data": data})


def where(end: str, change: Callable[[Answer], Answer], http: int = 0) -> Lie:
    return lambda path, answer: change(answer) if end in path and http in (0, answer.http) else answer


def numbered() -> Lie:
    count = iter(range(10**6))
    return where("/play", lambda answer: changed(answer, play_id=f"play_{next(count)}"), 200)


def item(answer: Answer, **fields: Any) -> Answer:
    first, *others = answer.data["items"]
    return changed(answer, items=[{**first, **fields}, *others])


def with_play(**data: Any) -> Lie:
    return where("/play", lambda answer: changed(answer, **data), 200)


PLAY: dict[str, Any] = {"play_id": "play_x", "rewards": [], "metadata": {}, "seed": "00", "seed_hash": ""}
GROWING = (10.0**nth for nth in range(300))

LIES: dict[str, tuple[str, Lie, str]] = {
    "a key plays twice": ("Same Idempotency-Key", numbered(), "plays|another play"),
    "a session is played twice": ("Same session", where("/play", lambda one: success(one, **PLAY), 409), "'200': 20"),
    "stock is oversold": ("Stock race", with_play(rewards=[{}]), "20 wins of a stock of 5"),
    "a claim is done twice": ("Claims and redeems at once", where("/claim", success, 409), "claims"),
    "a wallet exceeds its ledger": ("Wallets", where("/wallet", lambda one: item(one, balance=99)), "99"),
    "a cap does not hold": ("Caps", where("/play", lambda one: success(one, **PLAY), 400), "a cap of 1"),
    "another seed is revealed": ("Every draw", with_play(seed="00" * 32), "another seed"),
    "another prize is given": ("Every draw", with_play(rewards=[{"prize_id": "prize_mine"}]), "was given"),
    "a rate does not hold": ("Rate limit", where("/start", success, 429), "may pass"),
    "another tenant's id is known": (
        *("Ids of another tenant", where("/prizes/", lambda one: changed(one, reason=one.summary)), "un"),
    ),
    "an admin route is open": ("Roles", where("/admin/games", success, 401), "without a token"),
    "a forged token is accepted": ("Tokens", where("/wallet", success, 401), "alg none"),
    "a header is believed": ("Header fallback off", where("/wallet", success, 401), "X-Player-Id alone"),
    "bad JSON is an error": ("Bad JSON", where("/prizes", lambda one: replace(one, http=500), 400), "500"),
    "a body is expensive": (
        "One expensive body",
        *(lambda path, answer: replace(answer, seconds=next(GROWING)) if path.endswith("/play") else answer, "took"),
    ),
    "a suspended tenant plays": ("A suspended tenant", where("/play", lambda one: success(one, **PLAY), 403), "200"),
}


@pytest.mark.parametrize("name", LIES)
async def test_check_reports_a_broken_promise(deployment: LiedTo, name: str) -> None:
    row_name, lie, seen = LIES[name]
    row = next(row for row in ROWS if row.name == row_name)
    deployment.draws.clear()
    deployment.guests.append(deployment.guests.pop(0))  # What one may have once another has had.
    deployment.lie = lie
    try:
        with pytest.raises(Broken, match=seen):
            await row.run(deployment)
    finally:
        deployment.lie = lambda path, answer: answer


ROOT = Path(__file__).parents[2]


def certify(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops.certification", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110)


def test_certify_runs_the_scenarios_of_a_fault(tmp_path: Path) -> None:
    done = certify("--quick", "--row", "ssrf", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (tmp_path / "table.md").read_text().splitlines()[2:]
    assert rows and all(row.startswith("| SSRF | ") and row.endswith(" | yes |") for row in rows)
    assert (tmp_path / "junit.xml").exists()
