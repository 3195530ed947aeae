import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis.asyncio

from runtime.commands.confirm import file_errors
from runtime.commands.connection import DEFAULTS
from runtime.commands.stores import fail_store
from runtime.groups import event_stream
from runtime.http.auth.tokens import Tokens
from runtime.streams.dead_letters import dead_letter, dead_stream
from tests.support.operator import run, tombola
from tests.support.stack import Stack
from tests.support.world import World

ROOT = Path(__file__).parents[2]
SECRET = "a-secret-of-these-tests-0123456789abcdef"


@pytest.mark.parametrize("command", [["settings"], ["--help"]], ids=" ".join)
def test_closed_pipe_ends_a_command_without_complaint(command: list[str]) -> None:
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


WRONG = {
    "games list --admin-url 127.0.0.1:8082": (
        2,
        "--admin-url: '127.0.0.1:8082' must be an http or https URL. Use http",
    ),
    "games list --admin-url ftp://admin.example": (2, "Use http://admin.example\n"),
    "campaigns dossier one file --consumer-url file:///etc": (2, "--consumer-url: 'file:///etc' must be an http"),
    "campaigns dossier one file --authority-key junk": (3, "--authority-key: junk is not an X25519 public key"),
    "log witness file:///log --state none --key zz": (2, "URL: 'file:///log' must be an http or https URL. Use htt"),
    "log witness http://a:port --state none --key zz": (2, "URL: 'http://a:port' must be"),
    "log witness http://127.0.0.1:9/log --state none --key zz": (2, "--key: 'zz' is not a verifier key. Use one"),
    "log witness http://127.0.0.1:9/log --state none --tsa junk": (3, "junk has no certificate"),
    "log witness http://127.0.0.1:9/log --state damaged": (3, "damaged is not the state of a witness"),
    "verify junk --key zz": (2, "--key: 'zz' is not a verifier key. Use one"),
    "verify junk": (3, "not the receipt of a play"),
}


async def test_wrong_argument_exits_with_2_and_wrong_file_with_3(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "damaged").write_text('{"keys": ["zz"]}')
    for words, (code, said) in WRONG.items():
        ran = await run(tmp_path, *words.split(), TOMBOLA_TOKEN="x", COLUMNS="200")
        assert (ran.code, said in ran.err, "Traceback" in ran.err) == (code, True, False), ran


async def test_dead_letters_are_shown_as_text_and_dropped_by_yes(valkey: redis.asyncio.Redis, valkey_url: str) -> None:
    stream, fields = event_stream(0), {b"e": b'{"name": "M\xc3\xbcnze"}\x1b[2J', b"bad": b"\xff"}
    for _ in range(2):
        await dead_letter(valkey, stream, "integrations", "1-1", fields)
    dead, environ = dead_stream(stream), {"REDIS_URL": valkey_url}
    code, out, _ = await tombola("deadletters", "list", **environ)
    assert code == 0
    assert 'e={"name": "Münze"}\\x1b[2J bad=\\xff' in out
    for every in (["--all"], ["--group", "integrations"]):
        code, _, err = await tombola("deadletters", "drop", *every, **environ)
        assert (code, await valkey.xlen(dead)) == (5, 2)
        assert "--yes" in err
    assert (await tombola("deadletters", "drop", out.splitlines()[1].split()[0], **environ))[0] == 0
    assert await valkey.xlen(dead) == 1
    assert (await tombola("deadletters", "drop", "--all", "--yes", **environ))[0] == 0
    assert await valkey.xlen(dead) == 0


async def test_token_is_of_the_tenant_in_the_settings() -> None:
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


async def audited(stack: Stack, *arguments: str) -> tuple[int, str, str]:
    return await tombola("audit", *arguments, DATABASE_URL=stack.process.settings.database_url)


async def test_audit_exits_with_1_while_a_violation_is_open(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(total=3)
    await own_world.round(await own_world.wheel(prize_id))
    code, out, err = await audited(stack)
    assert (code, err) == (0, "") and "no discrepancies" in out and "1 of kind play" in out
    wrong = "UPDATE stock SET awarded = awarded + $2, remaining = remaining - $2 WHERE prize_id = $1"
    await stack.database.execute(wrong, prize_id, 1)
    code, out, err = await audited(stack, "--json")
    assert code == 1 and "prize_awarded" in err, "what is found anew is logged, and not into the JSON"
    output: dict[str, Any] = json.loads(out)
    code, out, _ = await audited(stack)
    assert code == 1
    assert "prize_awarded" in out and prize_id in out
    (shown,) = output["open"]
    facts = [shown[name] for name in ("check", "subject_id", "expected", "found")]
    assert facts == ["prize_awarded", prize_id, "1", "2"]
    assert output["looked_at"]["play"] == 1 and output["more"] == []
    # Another tenant's audit does not show it.
    assert (await audited(stack, "--tenant", "tenant_other"))[0] == 0
    code, out, err = await audited(stack, "--tenant", "tenant_mistyped")
    assert (code, out, err) == (2, "", "tombola audit: there is no tenant 'tenant_mistyped'\n")
    # A violation of repaired data stays open until it is closed.
    await stack.database.execute(wrong, prize_id, -1)
    assert (await audited(stack))[0] == 1
    path = f"/admin/violations/{shown['id']}/close"
    assert (await stack.admin("POST", path, {"reason": "put right by hand"})).data["gone_at"] > 0
    assert (await audited(stack))[0] == 0
    columns = "tenant_id, violation_id || n, check_name, subject_id, n, '', expected, found, deviation, now(), now()"
    many = f"INSERT INTO violations SELECT {columns} FROM violations, generate_series(1, 1000) AS n"
    await stack.database.execute(many)
    assert "more than listed of: prize_awarded" in (await audited(stack))[1]


async def test_exit_code_tells_an_unreachable_store_from_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    missing = {"DATABASE_URL": "postgresql://127.0.0.1:1/n", "REDIS_URL": "redis://127.0.0.1:1/0"}
    keys = {"CODE_KEYS": "1:" + "ab" * 32}
    for command in ("audit", "migrate", "deadletters list", "leaderboards rebuild", "keys rotate"):
        code, _, err = await tombola(*command.split(), **missing, **keys)
        assert code == 4 and err.startswith(f"tombola {command}: ") and "Traceback" not in err, (command, code, err)
    assert (await tombola("tenants", "move", "tenant_a", "--to", "home", **missing))[0] == 4
    for command in ("deadletters drop", "deadletters list", "keys rotate"):
        assert (await tombola(*command.split(), DATABASE_URL=missing["DATABASE_URL"]))[0] == 2, command
    with pytest.raises(SystemExit):
        fail_store("migrate", TimeoutError())
    assert capsys.readouterr().err == "tombola migrate: TimeoutError\n"
    with pytest.raises(aiohttp.ClientOSError), file_errors(DEFAULTS, Path("dossier")):
        raise aiohttp.ClientOSError  # The edge was lost while the file was written.
