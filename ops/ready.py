"""Information on a running stack: the ready file, the welcome text, and how `ops/tombola` finds the stack.

Imported before the environment exists: only the standard library at import time.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from runtime.settings import Settings

ROOT: Final = Path(__file__).parents[1]
ADMIN_TOKEN_SECONDS: Final = 24 * 3600
ADMIN_ROLES: Final = ("admin", "platform")
READY_NAME: Final = "ready.json"
"""The ready file in the data directory, which ops/tombola reads."""


def describe(settings: Settings, tenant_id: str, merchant_id: str, pids: dict[str, int]) -> dict[str, Any]:
    """The ready file without the demo."""
    return {
        "core_url": core_url(settings),
        "consumer_url": f"http://127.0.0.1:{settings.consumer_port}",
        "admin_url": f"http://127.0.0.1:{settings.admin_port}",
        "rpc_address": f"127.0.0.1:{settings.rpc_port}",
        "database_url": settings.database_url,
        "redis_url": settings.redis_url,
        "widget": widget(settings),
        "tenant_id": tenant_id,
        "merchant_id": merchant_id,
        "admin_token": mint_admin_token(settings, tenant_id),
        "dashboard_url": dashboard_url(settings, tenant_id),
        # "core" is the process of Core, both edges and the consumer groups; "core-2" and so on share its ports.
        "metrics": {
            f"core-{number + 1}" if number else "core": f"http://127.0.0.1:{settings.metrics_port + number}/metrics"
            for number in range(settings.processes)
        },
        "pids": pids,
    }


def widget(settings: Settings) -> dict[str, str]:
    """`{src, integrity}` of the widget's script tag."""
    from runtime.http.pages.files import files

    found = files()
    return {
        "src": f"http://127.0.0.1:{settings.consumer_port}{found.address('tombola.js')}",
        "integrity": found.integrity,
    }


def core_url(settings: Settings) -> str:
    return f"http://127.0.0.1:{settings.core_port}"


@contextmanager
def ready_file(path: Path | None, ready: dict[str, Any]) -> Iterator[None]:
    """Writes the file at `path` for the length of the block, so that it never describes a stopped stack."""
    if path is not None:
        write(path, ready)
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def mint_admin_token(settings: Settings, tenant_id: str) -> str:
    """A token with the roles admin and platform, for the whole tenant (no merchant), valid for 24 hours."""
    from runtime.http.auth.tokens import Tokens

    return Tokens.of(settings).mint("ops-up", tenant_id=tenant_id, seconds=ADMIN_TOKEN_SECONDS, roles=ADMIN_ROLES)


def dashboard_url(settings: Settings, tenant_id: str) -> str:
    """The dashboard, with a sign-in link for its first visitor within a quarter of an hour, with the token's roles."""
    from runtime.http.login.sign_in import link_of

    address = f"http://127.0.0.1:{settings.admin_port}"
    return link_of(settings, address, "ops-up", tenant_id=tenant_id, roles=ADMIN_ROLES)


def welcome(ready: dict[str, Any], seconds: float, command_line: str) -> str:
    """The welcome text: URLs, and an example play."""
    lines = [
        "",
        f"Tombola is up ({seconds:.1f} s).",
        "",
        *([f"  Play it       {ready['play_url']}", ""] if "play_url" in ready else []),
        *(
            [
                f"  Run it        {ready['dashboard_url']}",
                "                (signs in once, within 15 minutes; another: ./ops/tombola token link)",
                "",
            ]
            if "dashboard_url" in ready
            else []
        ),
        f"  Core          {ready['core_url']}  (REST; no authentication: keep it private)",
        f"  Consumer edge {ready['consumer_url']}",
        f"  Admin edge    {ready['admin_url']}",
        f"  RPC           {ready['rpc_address']}",
        f"  Tenant        {ready['tenant_id']}",
        f"  Admin token   {ready['admin_token']}",
        f"  Command line  {command_line}   (all of it: --help)",
        *([f"  Widget        {ready['widget']['src']}  {ready['widget']['integrity']}"] if "widget" in ready else []),
    ]
    if "demo" in ready:
        game = f"{ready['consumer_url']}/api/v1/games/{ready['demo']['games']['spin_wheel']}"
        player = (
            f"-H 'X-Tenant-Id: {ready['tenant_id']}' -H 'X-Player-Id: player_me' -H 'Content-Type: application/json'"
        )
        lines += [
            "",
            "Spin the wheel:",
            "",
            f"  SESSION=$(curl -s -X POST {game}/start {player} -d '{{}}' \\",
            '    | python3 -c \'import json, sys; print(json.load(sys.stdin)["data"]["session_id"])\')',
            f"  curl -s -X POST {game}/play {player} \\",
            '    -d \'{"session_id": "\'$SESSION\'", "payload": {}}\'',
        ]
    return "\n".join([*lines, "", "Ctrl-C stops everything.", ""])


def command_line(data: Path) -> str:
    """A command for the stack in `data` that can be copied."""
    script = ROOT / "ops" / "tombola"
    shown = "./ops/tombola" if Path.cwd() == ROOT else str(script)
    own = "" if data.resolve() == (ROOT / ".tombola").resolve() else f"TOMBOLA_DATA={shlex.quote(str(data.resolve()))} "
    return f"{own}{shown} games list"


def found_environment() -> dict[str, str]:
    """The variables that the command line needs for the stack in TOMBOLA_DATA and that are not set yet."""
    data = Path(os.environ.get("TOMBOLA_DATA") or ROOT / ".tombola")
    if not (data / READY_NAME).exists():
        return {}
    ready = json.loads((data / READY_NAME).read_text())
    found = {
        **json.loads((data / "keys.json").read_text()),
        "TOMBOLA_ADMIN_URL": ready["admin_url"],
        "TOMBOLA_TOKEN": ready["admin_token"],
        "DATABASE_URL": ready["database_url"],
        "REDIS_URL": ready["redis_url"],
        "DEFAULT_TENANT": ready["tenant_id"],
    }
    return {name: value for name, value in found.items() if not os.environ.get(name)}


def write(path: Path, value: dict[str, Any]) -> None:
    """Writes privately, since a ready file has a token and passwords."""
    from ops.servers.base import write_private

    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(value, indent=2) + "\n")
