"""`tombola` in a terminal: pipes that close, URLs half written, what cannot be undone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis.asyncio

from runtime.groups import event_stream
from runtime.http.auth.tokens import Tokens
from runtime.streams.dead_letters import bury, dead_stream

ROOT = Path(__file__).parents[2]
SECRET = "a-secret-of-these-tests-0123456789abcdef"


async def tombola(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """`tombola ARGUMENTS` without a terminal: its exit code and what it said."""
    process = await begun(*arguments, **environ)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def begun(*arguments: str, **environ: str) -> asyncio.subprocess.Process:
    """`tombola ARGUMENTS` under way, without a terminal."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runtime", *arguments),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "COLUMNS": "200", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("command", [["settings"], ["settings", "--markdown"], ["--help"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_hears_no_complaint(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runtime", *command], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode != 0


@pytest.mark.parametrize("url", ["127.0.0.1:8082", "localhost:8082/", "admin.example", "ftp://admin.example"])
async def test_a_url_without_its_scheme_is_told_as_that(url: str) -> None:
    code, _, err = await tombola("games", "list", TOMBOLA_ADMIN_URL=url, TOMBOLA_TOKEN="x")
    assert code == 2
    assert f"should it be http://{url.removeprefix('ftp://')}?" in err
    assert "Traceback" not in err


async def test_dead_letters_are_shown_as_text_and_dropped_only_when_that_is_meant(
    valkey: redis.asyncio.Redis, valkey_url: str
) -> None:
    stream = event_stream(0)
    for _ in range(2):
        await bury(valkey, stream, "integrations", "1-1", {b"e": b'{"name": "M\xc3\xbcnze"}\x1b[2J', b"bad": b"\xff"})
    dead, environ = dead_stream(stream), {"REDIS_URL": valkey_url}
    code, out, _ = await tombola("deadletters", "list", **environ)
    assert code == 0
    assert 'e={"name": "Münze"}\\x1b[2J bad=\\xff' in out
    for every in (["--all"], ["--group", "integrations"]):
        code, _, err = await tombola("deadletters", "drop", *every, **environ)
        assert (code, await valkey.xlen(dead)) == (5, 2)
        assert "--yes" in err
    newest = out.splitlines()[1].split()[0]
    assert (await tombola("deadletters", "drop", newest, **environ))[0] == 0
    assert await valkey.xlen(dead) == 1
    assert (await tombola("deadletters", "drop", "--all", "--yes", **environ))[0] == 0
    assert await valkey.xlen(dead) == 0


async def test_tokens_are_of_the_tenant_that_the_settings_name() -> None:
    environ = {"JWT_SECRET": SECRET, "DEFAULT_TENANT": "tenant_here"}
    tokens = Tokens(SECRET, issuer="tombola", audience="tombola")
    for arguments, subject, tenant in (
        (["player", "ada"], "ada", "tenant_here"),
        (["player", "ada", "--tenant", "tenant_there"], "ada", "tenant_there"),
    ):
        code, out, err = await tombola("token", *arguments, **environ)
        assert code == 0, err
        identity = await tokens.verify(out.strip())
        assert (identity.subject, identity.tenant_id, identity.roles) == (subject, tenant, frozenset())
    code, _, err = await tombola("token", "mint", "--role", "admin", **environ)
    assert code == 2 and "JWT_STAFF_SECRET" in err
    code, out, err = await tombola("token", "mint", "--role", "admin", JWT_STAFF_SECRET="t" * 32, **environ)
    assert code == 0, err
    staff = Tokens(issuer="tombola", audience="tombola", staff_secrets=["t" * 32])
    assert (await staff.verify(out.strip())).roles == {"admin"}
    code, _, err = await tombola("token", "player", "ada", JWT_SECRET=SECRET)
    assert code == 2 and "DEFAULT_TENANT" in err
    await tokens.close()
