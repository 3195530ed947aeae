"""A real process with verbose logs is given marked secrets and does everything with them: no log or reply has one."""

import base64
import os
import re
import resource
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import psutil
import pytest
import pytest_asyncio
import redis.asyncio

from ops.servers.base import free_port
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.app import Running
from runtime.http import admin, consumer
from runtime.settings import Settings
from tests.support.marked_secrets import Marks, SecretProbe, live, make_tenant_row
from tests.support.operations import WITH_BODY
from tests.support.processes import process
from tests.support.receiver import receiving
from tests.support.stack import TENANT, Stack, settings_of
from tests.support.tables import everything_in


@pytest.fixture(scope="module")
def core_dumps() -> Iterator[None]:
    """Whatever this machine forbids, who is started from here may leave core dumps, as far as that can be allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    most = resource.RLIM_INFINITY if os.geteuid() == 0 else hard
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest_asyncio.fixture(scope="module")
async def probe(
    module_database_url: str, valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory, core_dumps: None
) -> AsyncIterator[SecretProbe]:
    # What other modules left on the streams would be read and sent before what is waited for here.
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
        await make_tenant_row(module_database_url)
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
        probe = SecretProbe(marks, stack, {}, module_database_url, valkey_url, receiver, log, [], [], [])
        await live(probe)
        yield probe
    valkey_server.command("CONFIG", "SET", "appendonly", "no")


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


async def test_marks_cover_every_secret_setting_in_every_form() -> None:
    secret = {one.name.upper() for one in fields(Settings) if one.metadata["secret"]}
    stores = {"DATABASE_URL", "DATABASES", "DATABASE_READ_URL", "DATABASES_READ", "REDIS_URL"}
    assert secret == stores | set(Marks(("a", "b")).settings)
    marks = Marks(("the-database-s", "the-ephemeral-s"))
    found = [*marks.settings.values(), *marks.stores]
    found += [form for mark in (*marks.keys, *marks.codes) for form in forms(mark)]
    for text in found:
        with pytest.raises(AssertionError):
            holds_none(f"a {text} z", [*marks.keys, *marks.codes])


async def test_marks_are_where_they_belong(probe: SecretProbe) -> None:
    """Else none of the searches below would prove anything."""
    assert any(code in str(probe.anns) for code in probe.marks.codes), "Ann has her code"
    assert any(probe.marks.header == got.headers.get("Authorization") for got in probe.receiver.all)
    game = await probe.stack.admin("GET", f"/admin/games/{probe.known['game']}")
    assert probe.marks.odds in str(game.data["handler_config"])
    assert len(probe.log.read_text().splitlines()) > 30


@pytest.mark.fault("Secrets", size="a process at its most talkative", figure="none found")
async def test_log_holds_no_secret(probe: SecretProbe) -> None:
    marks = probe.marks
    text = probe.log.read_text()
    holds_none(text, [*marks.keys, *marks.config, *marks.codes, *probe.tokens, "ann@example.com"])
    untimed = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{32}|127\.0\.0\.1:\d+", "", text)
    for code in probe.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", untimed)


@pytest.mark.fault("Secrets", size="its metrics", figure="none found")
async def test_metrics_hold_no_secret(probe: SecretProbe) -> None:
    async with probe.stack.http.get(f"{probe.stack.process.core_url}/metrics") as answer:
        text = await answer.text()
    assert 'operation="Play"' in text
    holds_none(text, [*probe.marks.keys, *probe.marks.config, *probe.marks.codes, *probe.tokens, "ann@", TENANT])


@pytest.mark.fault("Secrets", size="streams and receivers", figure="none found")
async def test_events_hold_no_secret(probe: SecretProbe) -> None:
    """Neither on a stream, nor as it reached a receiver; a login code reaches its sender alone."""
    marks = probe.marks
    client = redis.asyncio.Redis.from_url(probe.redis_url)
    streams = [key async for key in client.scan_iter(_type="stream")]
    text = str([await client.xrange(key) for key in streams])
    assert "play_completed" in text
    holds_none(text, [*marks.keys, *marks.config, *marks.codes, *probe.tokens, *probe.login_codes])
    bodies = " ".join(got.body.decode() for got in probe.receiver.all if not got.path.endswith("/login"))
    assert "prize_won" in bodies and "fulfillment.requested" in bodies
    holds_none(bodies, [*marks.keys, *marks.config, *marks.codes, *probe.tokens])
    sent = str([(got.path, dict(got.headers)) for got in probe.receiver.all])
    holds_none(sent, [*marks.keys, marks.odds, *marks.codes, *probe.tokens])
    await client.aclose()


@pytest.mark.fault("Secrets", size="every Valkey key, of every type", figure="none found")
async def test_ephemeral_store_holds_no_secret(probe: SecretProbe) -> None:
    async with redis.asyncio.Redis.from_url(probe.redis_url) as client:
        stored = await everything_in(client)
    text = " ".join(name + value for name, value in stored.items())
    assert "play_completed" in text
    holds_none(text, [*probe.marks.keys, *probe.marks.codes, *probe.tokens])
    for code in probe.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", text)


@pytest.mark.fault("Secrets", size="every Valkey command, on disk", figure="none found")
async def test_ephemeral_store_files_hold_no_secret(probe: SecretProbe, valkey_server: Valkey) -> None:
    files = [path for path in valkey_server.data_dir.rglob("*") if path.is_file()]
    assert [path for path in files if path.name.endswith(".incr.aof")]
    text = " ".join(str(path.read_bytes()) for path in [*files, valkey_server.log_path])
    assert "play_completed" in text
    holds_none(text, [*probe.marks.keys, *probe.marks.codes, *probe.tokens])


async def test_database_log_holds_no_secret(probe: SecretProbe, postgres: Postgres) -> None:
    holds_none(postgres.log_path.read_text(errors="replace"), [*probe.marks.keys, *probe.marks.codes, *probe.tokens])


@pytest.mark.fault("Secrets", size="a process that was started with core dumps allowed", figure="none possible")
async def test_process_leaves_no_core_dump(probe: SecretProbe) -> None:
    if psutil.Process().rlimit(psutil.RLIMIT_CORE) == (0, 0):
        pytest.skip("this machine allows nobody a core dump")
    for child in psutil.Process().children():
        if "runtime" in child.cmdline():
            assert child.rlimit(psutil.RLIMIT_CORE) == (0, 0)
            break
    else:
        pytest.fail("no process of Tombola runs")


@pytest.mark.fault("Secrets", size="every row of every table", figure="none found")
async def test_rows_hold_no_readable_secret(probe: SecretProbe) -> None:
    """Codes, receivers' secrets and what headers carry are sealed at rest; login codes and tokens are not there."""
    connection = await asyncpg.connect(probe.database_url)
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [str(await connection.fetch(f'SELECT t::text FROM "{table}" AS t')) for (table,) in tables]
    await connection.close()
    assert "sealed:" in " ".join(rows)
    holds_none(" ".join(rows), [*probe.marks.keys, probe.marks.header, *probe.marks.codes, *probe.tokens])
    logins = " ".join(row for (name,), row in zip(tables, rows, strict=True) if name.startswith(("login_", "audit_")))
    for code in probe.login_codes:
        assert not re.search(rf"(?<!\w){code}(?!\w)", logins)


async def test_admin_answers_hold_no_secret(probe: SecretProbe) -> None:
    """By every GET of the admin edge. What staff must edit (odds) is theirs to read; codes and headers are not."""
    seen, home = [], {"X-Tenant-Id": TENANT}
    for operation, _ in admin.served():
        if operation.verb == "GET":
            path = operation.path.replace("{id}", probe.known.get(operation.subject, "x"))
            answer = await probe.stack.admin("GET", f"/admin{path}", roles=("admin", "platform"), headers=home)
            seen.append(str(answer.envelope))
    text = " ".join(seen)
    assert "'secret_set': True" in text
    holds_none(text, [*probe.marks.keys, probe.marks.header, *probe.marks.codes, *probe.tokens, *probe.login_codes])


@pytest.mark.fault("Secrets", size="every GET of the consumer edge", figure="none found")
async def test_consumer_answers_hold_no_secret_of_another_player(probe: SecretProbe) -> None:
    """Bob, and nobody at all, by every route of the consumer edge; Ann herself sees no configuration either."""
    marks, seen, own = probe.marks, [], []
    for operation, _ in consumer.served():
        path = operation.path.replace("{id}", probe.known.get(operation.subject, "x"))
        body = {} if operation in WITH_BODY else None
        for player in ("player_bob", ""):
            seen.append(str((await probe.stack.consumer(operation.verb, path, body, player=player)).envelope))
        ann = {"Authorization": f"Bearer {probe.tokens[2]}"}
        own.append(str((await probe.stack.consumer(operation.verb, path, body, headers=ann)).envelope))
    holds_none(" ".join(seen), [*marks.keys, *marks.config, *marks.codes, *probe.tokens, *probe.login_codes])
    holds_none(" ".join(own) + str(probe.anns), [*marks.keys, *marks.config])
    assert "handler_config" not in " ".join(seen + own)
