"""What is secret leaves by no side door: a real process at its most talkative is given marked secrets, everything
is made to happen to them that happens to secrets, and then every place that anybody reads is searched.
"""

from __future__ import annotations

import base64
import os
import re
import resource
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import psutil
import pytest
import pytest_asyncio
import redis.asyncio
from aiohttp import web

from ops.servers.base import free_port
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.app import Running
from runtime.http import admin, consumer
from runtime.settings import Settings
from tests.support.operations import WITH_BODY, Ids
from tests.support.processes import process
from tests.support.receiver import Got, Receiver, receiving
from tests.support.resources import make_campaign, make_prize
from tests.support.stack import TENANT, Stack, settings_of
from tests.support.tables import everything_in
from tests.support.waiting import until


def whsec(word: str) -> str:
    """A secret in the form of Standard Webhooks whose bytes spell a word."""
    return "whsec_" + base64.b64encode(f"{word}-{secrets.token_hex(12)}".encode()).decode()


@dataclass(frozen=True)
class Marks:
    """Secrets that are found wherever they appear. stores: the passwords of PostgreSQL and of Valkey."""

    stores: tuple[str, ...]
    odds: str = "0.2718281828"
    weight: str = "31.4159265"
    integration: str = whsec("integration")
    channel: str = whsec("channel")
    previous: str = whsec("previous")
    header: str = f"Bearer header-{secrets.token_hex(8)}"
    codes: tuple[str, ...] = tuple(f"CODE-{secrets.token_hex(8).upper()}" for _ in range(4))
    jwt: str = secrets.token_hex(32)
    jwt_staff: str = secrets.token_hex(32)
    server_key: str = secrets.token_hex(32)
    code_key: str = secrets.token_hex(32)
    sender: str = whsec("sender")
    jwt_old: str = secrets.token_hex(32)
    jwt_staff_old: str = secrets.token_hex(32)
    login: str = secrets.token_hex(32)
    oidc: str = f"oidc-{secrets.token_hex(16)}"
    smtp: str = f"smtp-{secrets.token_hex(16)}"
    service: str = f"service-{secrets.token_hex(32)}"

    @property
    def settings(self) -> dict[str, str]:
        """What a process is told and tells nobody, by variable; but for the stores' URLs."""
        return {
            "JWT_SECRET": self.jwt,
            "JWT_OLD_SECRETS": self.jwt_old,
            "JWT_STAFF_SECRET": self.jwt_staff,
            "JWT_STAFF_OLD_SECRETS": self.jwt_staff_old,
            "LOGIN_SECRET": self.login,
            "SERVER_KEYS": f"1:{self.server_key}",
            "CODE_KEYS": f"1:{self.code_key}",
            "OIDC_CLIENT_SECRET": self.oidc,
            "SMTP_URL": f"smtp://tombola:{self.smtp}@127.0.0.1:2525",
            "SENDER_WEBHOOK_SECRET": self.sender,
            "SERVICE_TOKEN": self.service,
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """What no answer, log line, metric, event, audit entry or row ever holds."""
        told = (self.jwt, self.jwt_old, self.jwt_staff, self.jwt_staff_old, self.login, self.server_key, self.code_key)
        told += (self.oidc, self.smtp, self.service, *self.stores)
        return (self.integration, self.channel, self.previous, self.sender, *told)

    @property
    def config(self) -> tuple[str, ...]:
        """What only staff may read."""
        return (self.odds, self.weight, self.header)


@dataclass
class Told:
    """All that was said, by whom it was said to."""

    marks: Marks
    stack: Stack
    known: Ids
    database_url: str
    redis_url: str
    receiver: Receiver
    log: Path
    anns: list[Any]
    tokens: list[str]
    login_codes: list[str]


async def echo(got: Got) -> web.StreamResponse:
    """A receiver that fails, and says back all that it was sent."""
    return web.Response(status=500, text=f"{dict(got.headers)} {got.body!r}")


@pytest.fixture(scope="module")
def core_dumps() -> Iterator[None]:
    """Whatever this machine forbids, who is started from here may leave core dumps, as far as that can be allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    most = resource.RLIM_INFINITY if os.geteuid() == 0 else hard
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest_asyncio.fixture(scope="module")
async def told(
    module_database_url: str, valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory, core_dumps: None
) -> AsyncIterator[Told]:
    # What other modules left on the streams would be read, and told, before what is waited for here.
    valkey_server.command("FLUSHALL")
    valkey_server.command("CONFIG", "SET", "appendonly", "yes")
    valkey_url = valkey_server.url
    marks = Marks(tuple(str(urlsplit(url).password) for url in (module_database_url, valkey_url)))
    log = tmp_path_factory.mktemp("secrets") / "log"
    ports = {name: free_port() for name in ("core", "consumer", "admin", "rpc")}
    settings = replace(
        settings_of(module_database_url, valkey_url), jwt_secret=marks.jwt, jwt_staff_secret=marks.jwt_staff
    )
    async with AsyncExitStack() as all_of_it:
        receiver = await all_of_it.enter_async_context(receiving())
        http = await all_of_it.enter_async_context(aiohttp.ClientSession())
        await _make_tenant(module_database_url)
        environment = {
            **{f"{name.upper()}_PORT": str(port) for name, port in ports.items()},
            "DATABASE_URL": module_database_url,
            "REDIS_URL": valkey_url,
            **marks.settings,
            "CORE_WORKERS": "on",
            "LOG_LEVEL": "debug",
            "LOG_SAMPLE": "1",
            "LOGIN_SENDER": "webhook",
            "SENDER_WEBHOOK_URL": receiver.url + "/login",
            "OIDC_CLIENT_ID": "dashboard",
            "JWKS_URL": receiver.url + "/keys",
            "JWKS_ISSUER": receiver.url,
            "JWKS_AUDIENCE": "dashboard",
            "JWKS_TENANTS": "*",
            "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8",
        }
        # The admin edge is the last to listen.
        await all_of_it.enter_async_context(process(log, ports["admin"], "all", **environment))
        urls = {f"{name}_url": f"http://127.0.0.1:{ports[name]}" for name in ("core", "consumer", "admin")}
        stack = Stack(Running(settings, **urls), http)
        told = Told(marks, stack, {}, module_database_url, valkey_url, receiver, log, [], [], [])
        await _live(told)
        yield told
    valkey_server.command("CONFIG", "SET", "appendonly", "no")


async def _make_tenant(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test')", TENANT)
    await connection.close()


async def _live(told: Told) -> None:
    """Ann logs in, wins, is delivered to; staff look and change; a good deal goes wrong."""
    stack, marks, url = told.stack, told.marks, told.receiver.url
    campaign_id = (await make_campaign(stack))["id"]
    config = {"url": url, "secret": marks.channel, "previous_secret": marks.previous}
    config["headers"] = {"Authorization": marks.header}
    hook = {"url": url, "secret": marks.integration, "headers": {"Authorization": marks.header}}
    told.known["campaign"] = campaign_id
    coupon = await make_prize(stack, campaign_id=campaign_id, fulfillment={"channel": "voucher_code"})
    parcel = await make_prize(stack, campaign_id=campaign_id, fulfillment={"channel": "webhook", "config": config})
    assert (await stack.admin("POST", f"/admin/prizes/{coupon}/codes", {"codes": list(marks.codes)})).data["added"] == 4
    assert (await stack.admin("PUT", f"/admin/prizes/{parcel}", {"name": "Parcel"})).data
    events = ["play_completed", "prize_won", "prize_claimed", "quest_completed"]
    integration = {"type": "webhook", "events": events, "config": hook}
    told.known["integration"] = (await stack.admin("POST", "/admin/integrations", integration)).data["id"]
    gone = (await stack.admin("POST", "/admin/integrations", integration)).data["id"]
    assert (await stack.admin("DELETE", f"/admin/integrations/{gone}")).http == 200
    games = []
    for prize_id in (coupon, parcel):
        chances = (float(marks.odds), 1 - float(marks.odds))
        odds = [{"prize_id": prize_id, "probability": chance} for chance in chances]
        body = {"name": "Wheel", "type": "spin_wheel", "campaign_id": campaign_id, "status": "active"}
        body |= {"reward_handler": "probability", "handler_config": {"prizes": odds}, "access": "public"}
        games.append((await stack.admin("POST", "/admin/games", body)).data["id"])
    items = [{"item": "coin", "weight": float(marks.weight), "quantity": 1, "slot_index": 0}]
    body = {"name": "Set", "type": "collection", "campaign_id": campaign_id, "status": "active"}
    body |= {"reward_handler": "lucky_item", "handler_config": {"items": items}}
    games.append((await stack.admin("POST", "/admin/games", body)).data["id"])
    await _log_in(told)
    told.receiver.replies += [echo] * 20
    player = {"Authorization": f"Bearer {told.tokens[0]}"}
    for game_id in games:
        started = (await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=player)).data
        told.known["revision"] = started["revision_hash"]
        body = {"session_id": started["session_id"], "payload": {}}
        key = {**player, "Idempotency-Key": f"key-{game_id}"}
        for _ in range(2):
            played = await stack.consumer("POST", f"/games/{game_id}/play", body, headers=key)
        told.anns.append(played.data)
        # Refused in each way that says something of what was sent.
        await stack.consumer("POST", f"/games/{game_id}/play", {**body, "surprise": marks.channel}, headers=player)
    told.anns.append((await stack.consumer("GET", "/rewards/me", headers=player)).data)
    told.known |= {"game": games[0], "prize": coupon, "play": told.anns[0]["play_id"]}
    told.known["reward"] = told.anns[0]["rewards"][0]["reward_id"]
    told.known |= {"quest": "quest_x", "leaderboard": "board_x"}
    tasks = (await stack.admin("GET", "/admin/fulfillment/tasks", prize_id=parcel)).data["items"]
    told.known["task"] = tasks[0]["id"]
    await until(lambda: _has_tried(told, parcel))
    told.receiver.replies.clear()
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{told.known['task']}/retry", {})).data
    await until(lambda: _has_delivered(told, parcel))
    await until(lambda: _has_told(told, "prize_won"))
    bad = {"name": "X", "fulfillment": {"channel": "webhook", "config": {**config, "url": marks.channel, "no": 1}}}
    assert (await stack.admin("POST", "/admin/prizes", bad)).http == 400
    headers = {"Authorization": f"Bearer {marks.channel}"}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).http == 401
    # The issuer that the process was told of is none.
    sign_in = {"code": "x", "verifier": "x", "nonce": "x", "redirect_uri": f"{stack.process.admin_url}/dashboard/"}
    for path, body in (("start", {"redirect_uri": sign_in["redirect_uri"]}), ("finish", sign_in)):
        assert (await stack.admin("POST", f"/admin/auth/oidc/{path}", body, roles=())).http >= 400
    await _use_api_token(told)
    await _rotate_the_secret_of_a_quest(told)


async def _rotate_the_secret_of_a_quest(told: Told) -> None:
    """Told when it is made, and when it is made anew; then its events are refused."""
    stack = told.stack
    condition = {"kind": "event", "count": 2}
    quest = {"name": "Buy", "campaign_id": told.known["campaign"], "status": "active", "condition": condition}
    made = (await stack.admin("POST", "/admin/quests", quest | {"turns": 1})).data
    again = (await stack.admin("POST", f"/admin/quests/{made['id']}/rotate-secret", {})).data
    told.tokens += [made["secret"], again["secret"]]
    assert made["secret"] != again["secret"]
    event = {"event_id": made["secret"], "player_id": "ann"}
    assert (await stack.admin("POST", f"/quests/{made['id']}/events", event, roles=(), tenant_id=TENANT)).http == 401


async def _use_api_token(told: Told) -> None:
    """Made, shown, refused something, revoked, and shown again."""
    stack = told.stack
    made = (await stack.admin("POST", "/admin/tokens", {"name": "ci", "roles": ["designer"]})).data
    told.tokens.append(made["secret"])
    headers = {"Authorization": f"Bearer {made['secret']}"}
    for body in ({"name": "Fair"}, {"name": "Fair", "surprise": 1}):
        await stack.admin("POST", "/admin/campaigns", body, roles=(), headers=headers)
    assert (await stack.admin("POST", "/admin/tenants", {"name": "x"}, roles=(), headers=headers)).http == 403
    assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).http == 200
    assert (await stack.admin("GET", "/admin/games", token=made["secret"])).http == 401

    async def is_refused() -> bool:
        return (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).http == 401

    await until(is_refused)


async def _log_in(told: Told) -> None:
    stack = told.stack
    contact = {"contact_type": "CONTACT_TYPE_EMAIL", "contact": "ann@example.com"}
    challenge = (await stack.consumer("POST", "/players/auth/start", contact)).data["challenge_id"]
    code = ""
    while not code:
        got = await told.receiver.next()
        code = got.json["code"] if got.path.endswith("/login") and got.json.get("code") else ""
    told.login_codes.append(code)
    wrong = {"challenge_id": challenge, "code": "000000" if code != "000000" else "111111"}
    assert (await stack.consumer("POST", "/players/auth/verify", wrong)).http == 401
    body = {"challenge_id": challenge, "code": code}
    logged_in = (await stack.consumer("POST", "/players/auth/verify", body)).data
    told.tokens += [logged_in["token"], logged_in["refresh_token"]]
    again = await stack.consumer("POST", "/players/auth/refresh", {"refresh_token": logged_in["refresh_token"]})
    told.tokens += [again.data["token"], again.data["refresh_token"]]


async def _has_tried(told: Told, prize_id: str) -> bool:
    (task,) = (await told.stack.admin("GET", "/admin/fulfillment/tasks", prize_id=prize_id)).data["items"]
    return task["status"] in ("TASK_STATUS_RETRY", "TASK_STATUS_DELIVERED")


async def _has_delivered(told: Told, prize_id: str) -> bool:
    (task,) = (await told.stack.admin("GET", "/admin/fulfillment/tasks", prize_id=prize_id)).data["items"]
    return bool(task["status"] == "TASK_STATUS_DELIVERED")


async def _has_told(told: Told, event: str) -> bool:
    return any(event.encode() in got.body for got in told.receiver.all)


def forms(mark: str) -> set[str]:
    """The ways in which a secret can stand in a text, its bytes as `str` shows them or in hexadecimal or base64."""
    plain = [mark.encode()]
    if mark.startswith("whsec_"):
        plain.append(base64.b64decode(mark.removeprefix("whsec_")))
    if re.fullmatch(r"(?:[0-9a-f]{2}){16,}", mark):
        plain.append(bytes.fromhex(mark))
    shown = {str(data)[2:-1] for data in plain} | {data.hex() for data in plain}
    return shown | {coded(data).decode().rstrip("=") for data in plain for coded in (b64encode, urlsafe_b64encode)}


def holds_none(text: str, marks: tuple[str, ...] | list[str]) -> None:
    found = [form for mark in marks for form in forms(mark) if form in text]
    assert not found, (found, text[max(0, text.find(found[0]) - 200) : text.find(found[0]) + 100])


async def test_every_setting_that_is_secret_is_looked_for() -> None:
    """One that comes later fails here, until it is marked, too."""
    secret = {one.name.upper() for one in fields(Settings) if one.metadata["secret"]}
    assert secret == {"DATABASE_URL", "REDIS_URL", *Marks(("a", "b")).settings}
    marks = Marks(("the-database-s", "the-ephemeral-s"))
    for value in (*marks.settings.values(), *marks.stores):
        with pytest.raises(AssertionError):
            holds_none(value, marks.keys)


async def test_a_secret_is_found_in_every_form() -> None:
    marks = Marks(("the-database-s", "the-ephemeral-s"))
    for mark in [*marks.keys, *marks.codes]:
        for form in forms(mark):
            with pytest.raises(AssertionError):
                holds_none(f"a {form} z", [mark])


async def test_the_marks_are_where_they_belong(told: Told) -> None:
    """Else none of the searches below would prove anything."""
    assert any(code in str(told.anns) for code in told.marks.codes), "Ann has her code"
    assert any(told.marks.header == got.headers.get("Authorization") for got in told.receiver.all)
    game = await told.stack.admin("GET", f"/admin/games/{told.known['game']}")
    assert told.marks.odds in str(game.data["handler_config"])
    assert len(told.log.read_text().splitlines()) > 30


@pytest.mark.fault("Secrets", size="a process at its most talkative", figure="none found")
async def test_no_log_line_holds_a_secret(told: Told) -> None:
    marks = told.marks
    text = told.log.read_text()
    holds_none(text, [*marks.keys, *marks.config, *marks.codes, *told.tokens, "ann@example.com"])
    untimed = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{32}|127\.0\.0\.1:\d+", "", text)
    for code in told.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", untimed)


@pytest.mark.fault("Secrets", size="its metrics", figure="none found")
async def test_no_metric_holds_a_secret(told: Told) -> None:
    async with told.stack.http.get(f"{told.stack.process.core_url}/metrics") as answer:
        text = await answer.text()
    assert 'operation="Play"' in text
    holds_none(text, [*told.marks.keys, *told.marks.config, *told.marks.codes, *told.tokens, "ann@", TENANT])


@pytest.mark.fault("Secrets", size="streams and receivers", figure="none found")
async def test_no_event_holds_a_secret(told: Told) -> None:
    """Neither on a stream, nor as it reached a receiver; a login code reaches its sender alone."""
    marks = told.marks
    client = redis.asyncio.Redis.from_url(told.redis_url)
    streams = [key async for key in client.scan_iter(_type="stream")]
    text = str([await client.xrange(key) for key in streams])
    assert "play_completed" in text
    holds_none(text, [*marks.keys, *marks.config, *marks.codes, *told.tokens, *told.login_codes])
    bodies = " ".join(got.body.decode() for got in told.receiver.all if not got.path.endswith("/login"))
    assert "prize_won" in bodies and "fulfillment.requested" in bodies
    holds_none(bodies, [*marks.keys, *marks.config, *marks.codes, *told.tokens])
    sent = str([(got.path, dict(got.headers)) for got in told.receiver.all])
    holds_none(sent, [*marks.keys, marks.odds, *marks.codes, *told.tokens])
    await client.aclose()


@pytest.mark.fault("Secrets", size="every Valkey key, of every type", figure="none found")
async def test_the_ephemeral_store_keeps_no_login_code_and_no_key(told: Told) -> None:
    async with redis.asyncio.Redis.from_url(told.redis_url) as client:
        stored = await everything_in(client)
    text = " ".join(name + value for name, value in stored.items())
    assert "play_completed" in text
    holds_none(text, [*told.marks.keys, *told.marks.codes, *told.tokens])
    for code in told.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", text)


@pytest.mark.fault("Secrets", size="every Valkey command, on disk", figure="none found")
async def test_what_the_ephemeral_store_writes_down_holds_none_either(told: Told, valkey_server: Valkey) -> None:
    """Every command that ever was, also of keys that are gone: its append-only file, and what it logs."""
    files = [path for path in valkey_server.data_dir.rglob("*") if path.is_file()]
    assert [path for path in files if path.name.endswith(".incr.aof")]
    text = " ".join(str(path.read_bytes()) for path in [*files, valkey_server.log_path])
    assert "play_completed" in text
    holds_none(text, [*told.marks.keys, *told.marks.codes, *told.tokens])


async def test_the_database_s_log_holds_no_secret(told: Told, postgres: Postgres) -> None:
    """Also where it tells of a statement that failed."""
    holds_none(postgres.log_path.read_text(errors="replace"), [*told.marks.keys, *told.marks.codes, *told.tokens])


@pytest.mark.fault("Secrets", size="a process that was started with core dumps allowed", figure="none possible")
async def test_no_process_leaves_its_memory_on_a_disk(told: Told) -> None:
    if psutil.Process().rlimit(psutil.RLIMIT_CORE) == (0, 0):
        pytest.skip("this machine allows nobody a core dump")
    for child in psutil.Process().children():
        if "runtime" in child.cmdline():
            assert child.rlimit(psutil.RLIMIT_CORE) == (0, 0)
            break
    else:
        pytest.fail("no process of Tombola runs")


@pytest.mark.fault("Secrets", size="every row of every table", figure="none found")
async def test_no_row_holds_a_secret_that_can_be_read(told: Told) -> None:
    """Codes, receivers' secrets and what headers carry are sealed at rest; login codes and tokens are not there."""
    connection = await asyncpg.connect(told.database_url)
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [str(await connection.fetch(f'SELECT t::text FROM "{table}" AS t')) for (table,) in tables]
    await connection.close()
    assert "sealed:" in " ".join(rows)
    holds_none(" ".join(rows), [*told.marks.keys, told.marks.header, *told.marks.codes, *told.tokens])
    logins = " ".join(row for (table,), row in zip(tables, rows, strict=True) if table.startswith("login_"))
    for code in told.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", logins)


async def test_the_audit_log_holds_no_secret(told: Told) -> None:
    entries = (await told.stack.admin("GET", "/admin/audit", limit=100)).data["items"]
    assert {"prize.create", "prize.update", "integration.create", "integration.delete"} <= {
        e["action"] for e in entries
    }
    holds_none(str(entries), [*told.marks.keys, told.marks.header, *told.marks.codes, *told.login_codes])


async def test_staff_read_back_no_secret(told: Told) -> None:
    """By every GET of the admin edge. What staff must edit (odds) is theirs to read; codes and headers are not."""
    seen = []
    for operation, _ in admin.served():
        if operation.verb == "GET":
            path = operation.path.replace("{id}", told.known.get(operation.subject, "x"))
            answer = await told.stack.admin("GET", f"/admin{path}", roles=("admin", "platform"), headers=_home())
            seen.append(str(answer.envelope))
    text = " ".join(seen)
    assert "'secret_set': True" in text
    holds_none(text, [*told.marks.keys, told.marks.header, *told.marks.codes, *told.tokens, *told.login_codes])


def _home() -> dict[str, str]:
    return {"X-Tenant-Id": TENANT}


@pytest.mark.fault("Secrets", size="every GET of the consumer edge", figure="none found")
async def test_no_other_player_is_shown_anything(told: Told) -> None:
    """Bob, and nobody at all, by every route of the consumer edge; Ann herself sees no configuration either."""
    marks, seen, own = told.marks, [], []
    for operation, _ in consumer.served():
        path = operation.path.replace("{id}", told.known.get(operation.subject, "x"))
        body = {} if operation in WITH_BODY else None
        for player in ("player_bob", ""):
            answer = await told.stack.consumer(operation.verb, path, body, player=player)
            seen.append(str(answer.envelope))
        ann = {"Authorization": f"Bearer {told.tokens[2]}"}
        own.append(str((await told.stack.consumer(operation.verb, path, body, headers=ann)).envelope))
    holds_none(" ".join(seen), [*marks.keys, *marks.config, *marks.codes, *told.tokens, *told.login_codes])
    holds_none(" ".join(own) + str(told.anns), [*marks.keys, *marks.config])
    assert "handler_config" not in " ".join(seen + own)


async def test_another_player_gets_another_code(told: Told) -> None:
    stack, game_id = told.stack, told.known["game"]
    bob = [reward["code"] for reward in (await _win(stack, game_id, "player_bob"))]
    cid = [reward["code"] for reward in (await _win(stack, game_id, "player_cid"))]
    ann = [code for code in told.marks.codes if code in str(told.anns)]
    assert len({*ann, *bob, *cid}) == len(ann) + len(bob) + len(cid)


async def _win(stack: Stack, game_id: str, player: str) -> list[dict[str, Any]]:
    session = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).data["session_id"]
    body = {"session_id": session, "payload": {}}
    assert (await stack.consumer("POST", f"/games/{game_id}/play", body, player=player)).data
    return list((await stack.consumer("GET", "/rewards/me", player=player)).data["items"])


async def test_settings_show_no_secret(told: Told) -> None:
    settings = told.stack.process.settings
    holds_none(f"{settings!r} {settings}", [told.marks.jwt, told.database_url])
