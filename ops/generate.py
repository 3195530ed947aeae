"""Makes what is generated: `python -m ops.generate`.

    runtime/messages                          from runtime/rpc/game.proto
    runtime/http/docs/asyncapi.json           from runtime/events.py
    runtime/commands/commands.json            from the operations' rows
    docs/reference: settings.md, roles.md     from the settings and the operations' rows
    docs/reference/commands.md                from the commands
    docs/reference/events.md                  from runtime/events.py
    docs/reference/errors.md                  from runtime/http/docs/remedies.py and refusals.py
    docs/reference/faults.md                  from tests/faults/faults.toml and the tests' marks
    docs/reference/audit.md                   from sql/conservation.sql
    runtime/web/built                         from the rest of runtime/web by ops/web/build.js, where there is an npm

Three things are added to what the proto's compiler emits. A `google.protobuf.Struct` field becomes a plain
`dict` (betterproto2 unwraps well-known types, but not this one). The descriptor set is kept beside the
code, so that gRPC reflection can serve it without generating the messages twice. And what game_options.proto
lets game.proto say of its fields, and the RPCs, both of which the compiler passes by, become `behavior.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "runtime" / "rpc"
ASYNCAPI = ROOT / "runtime" / "http" / "docs" / "asyncapi.json"
COMMANDS = ROOT / "runtime" / "commands" / "commands.json"
PLUGIN = "protoc-gen-python_betterproto2"
OPTIONS = {50001: "REQUIRED", 50002: "READ_ONLY", 50005: "LINES", 50006: "ANY_CHARACTERS"}
"""The numbers of game_options.proto that say yes, and what each becomes: the fields of each message."""

NUMBERS = {50003: "MOST", 50004: "MOST_ITEMS"}
"""Those that say how many: that, by field, of each message."""

WEB = ROOT / "ops" / "web"

OPTION = re.compile(r" \[\([^]]*\](?=;)|^import \"game_options.proto\";\n", re.MULTILINE)

STRUCT_FIELD = re.compile(
    r'"__google__protobuf__\.Struct \| None" = '
    r"betterproto2\.field\(\s*(\d+), betterproto2\.TYPE_MESSAGE, optional=True\s*\)"
)


def generate(out_dir: Path) -> None:
    """Writes the messages' code, behavior.py and game.binpb into `out_dir`."""
    # The compiler's plugin formats what it emits with the `ruff` that it finds on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        # The compiler knows no options of fields: it would make classes of all that describes them.
        plain = Path(scratch) / "plain" / "game.proto"
        plain.parent.mkdir()
        plain.write_text(OPTION.sub("", (PROTO_DIR / "game.proto").read_text()))
        _protoc(
            plain,
            f"--plugin={PLUGIN}={Path(sys.executable).parent / PLUGIN}",
            f"--python_betterproto2_out={scratch}",
            "--python_betterproto2_opt=client_generation=none",
        )
        _protoc(PROTO_DIR / "game.proto", "--include_imports", f"--descriptor_set_out={out_dir / 'game.binpb'}")
        for package in ("game/v1", "google/protobuf"):
            shutil.copytree(Path(scratch) / package, out_dir / package, dirs_exist_ok=True)
            for folder in [out_dir / package, *(out_dir / package).parents]:
                if folder == out_dir:
                    break
                (folder / "__init__.py").touch()
        shutil.copy(Path(scratch) / "message_pool.py", out_dir / "message_pool.py")
    game = out_dir / "game/v1/__init__.py"
    text = STRUCT_FIELD.sub(
        r'"dict[str, Any] | None" = betterproto2.field(\n'
        r"        \1, betterproto2.TYPE_MESSAGE, optional=True, unwrap=lambda: JsonObject\n    )",
        game.read_text(),
    )
    text = text.replace(
        "from dataclasses import dataclass\n", "from dataclasses import dataclass\nfrom typing import Any\n", 1
    )
    text = text.replace("from ...google import protobuf as __google__protobuf__\n", "")
    text = text.replace(
        "from ...message_pool import default_message_pool\n",
        "from ...json_object import JsonObject\nfrom ...message_pool import default_message_pool\n",
        1,
    )
    game.write_text(text)
    (out_dir / "behavior.py").write_text(behavior((out_dir / "game.binpb").read_bytes()))


def _protoc(proto: Path, *options: str) -> None:
    from grpc_tools import protoc  # a development dependency: not needed to run

    included = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(["protoc", f"--proto_path={proto.parent}", f"--proto_path={included}", *options, str(proto)])
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")


def behavior(described: bytes) -> str:
    """The source of behavior.py: the names of the fields that have each option, by message; and the RPCs."""
    from google.protobuf import descriptor_pb2, unknown_fields

    found: dict[str, dict[str, list[str]]] = {name: {} for name in OPTIONS.values()}
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in NUMBERS.values()}
    rpcs: list[str] = []
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        for message in file.message_type:
            for field in message.field:
                # Known where this process has loaded game_options.proto (for reflection, say), else unknown.
                said = {option.field_number: option.data for option in unknown_fields.UnknownFieldSet(field.options)}
                said |= {option.number: value for option, value in field.options.ListFields()}
                for number in OPTIONS:
                    if said.get(number):
                        found[OPTIONS[number]].setdefault(message.name, []).append(field.name)
                for number in NUMBERS:
                    if said.get(number):
                        counts[NUMBERS[number]].setdefault(message.name, {})[field.name] = said[number]
        for service in file.service:
            for rpc in service.method:
                types = [named.rpartition(".")[2] for named in (rpc.input_type, rpc.output_type)]
                rpcs.append(f'    "{rpc.name}": ("{service.name}", "{types[0]}", "{types[1]}"),')
    lines = ['"""What game.proto says of its fields beside their types, and its RPCs: made by ops/generate.py."""']
    for name, messages in found.items():
        lines += ["", f"{name}: dict[str, frozenset[str]] = {{"]
        lines += [f'    "{message}": frozenset({json.dumps(fields)}),' for message, fields in messages.items()]
        lines += ["}"]
    for name, numbers in counts.items():
        lines += ["", f"{name}: dict[str, dict[str, int]] = {{"]
        lines += [f'    "{message}": {json.dumps(by_field)},' for message, by_field in numbers.items()]
        lines += ["}"]
    lines += [
        "",
        "# RPC -> its service, and the messages that it takes and gives",
        "RPCS: dict[str, tuple[str, str, str]] = {",
    ]
    return "\n".join([*lines, *rpcs, "}"]) + "\n"


def write_asyncapi(document: Path) -> None:
    """Writes what runtime/events.py says of the event streams."""
    from ops import asyncapi

    document.write_text(asyncapi.text())


def write_commands(file: Path) -> None:
    """Writes what the operations' rows say of the command line."""
    from ops import commands

    file.write_text(commands.text())


def build_web() -> None:
    """Bundles runtime/web with the packages of ops/web/package-lock.json. Nothing that a package installs is run."""
    for command in (("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"), ("run", "build")):
        subprocess.run(["npm", *command], cwd=WEB, check=True, stdout=subprocess.DEVNULL)


def pages() -> dict[str, str]:
    """The pages of docs/ that are tables which code says, by their names."""
    from ops import asyncapi, commands
    from ops.proof import faults
    from runtime.http.admin import markdown as roles
    from runtime.http.docs.remedies import markdown as errors
    from runtime.operations.conservation.checks import markdown as checks
    from runtime.settings.documentation import markdown as settings

    return {
        "reference/settings.md": f"# Settings\n\n{SETTINGS_TEXT}\n\n{settings()}",
        "reference/roles.md": f"# Roles\n\n{ROLES_TEXT}\n\n{roles()}",
        "reference/commands.md": f"# Commands\n\n{COMMANDS_TEXT}\n\n{commands.markdown()}",
        "reference/errors.md": f"# Errors\n\n{ERRORS_TEXT}\n\n{errors()}",
        "reference/events.md": f"# Events\n\n{EVENTS_TEXT}\n\n{asyncapi.markdown()}",
        "reference/faults.md": faults.page(),
        "reference/audit.md": f"# Does everything add up?\n\n{AUDIT_TEXT}\n\n{checks()}",
    }


SETTINGS_TEXT = "From the environment; refused at start, by name, when wrong. `tombola settings` prints the same."
COMMANDS_TEXT = """\
`tombola COMMAND`; in a checkout `./ops/tombola COMMAND` asks the stack of `./ops/up`. `--help` of each command
says the same as this page. Commands that ask the admin edge take, beside their own options:

| Option | Variable | Meaning |
|---|---|---|
| `--admin-url` | `TOMBOLA_ADMIN_URL` | where the admin edge is; by default `http://127.0.0.1:8082` |
| `--token` | `TOMBOLA_TOKEN` | a token of a management role, or an API token; better set by the variable |
| `--json` | | print JSON for machines |

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | refused, or something was found |
| 2 | wrong use, or wrong settings |
| 3 | a file cannot be read or written |
| 4 | the service cannot be reached |
| 5 | the question was answered with no |
| 6 | it waits for a second person |"""
EVENTS_TEXT = """\
[How to receive them](../how-to/listen-to-events.md). Each event is one JSON object:

| Field | Meaning |
|---|---|
| `id` | the same whenever it is sent again: know a repeated event by it |
| `type` | one of those below |
| `occurred_at` | unix seconds |
| `tenant_id`, `merchant_id`, `campaign_id` | whose it is; no merchant is the empty text |
| `data` | the fields below |
| `trace_id` | of the request that caused it, or empty |
| `emitted` | `true` where staff sent it to try receivers. It did not happen |

The AsyncAPI document at `/api/v1/asyncapi.json` of Core and the admin edge says the same to programs. Fields may be
added, never renamed."""
ERRORS_TEXT = """\
Every answer is `{code, message, trace_id, data}`. `code` is `OK`, or one of the statuses below. Then `data.reason` says
why, in a word that a program can rely on, and `message` says it to a person. Further facts stand beside the reason.

```json
{"code": "FAILED_PRECONDITION", "message": "2 of 2 plays used today", "trace_id": "4bf9...",
 "data": {"reason": "CAP_DAY", "limit": 2, "resets_at": 1767225600}}
```

A refused request changed nothing and may be sent again. 429 and 503 carry `Retry-After`. Something of another tenant
answers as if it did not exist."""
ROLES_TEXT = """\
Any of the roles `admin`, `designer` and `reward_manager` opens every management route of its own tenant.
With `ROLE_MATRIX=strict`, as Compose and Kubernetes have it here, they open these. Two things that are read are for
who may move rewards: what a winner answered (`GET /rewards/{id}` hides it from others), and `GET /rewards?code=`.

A merchant's staff reads and manages what is its merchant's. Its games may give the tenant's prizes too, of any
campaign, out of their stock and within their caps."""
AUDIT_TEXT = """\
Money, stock and caps are kept by the statements that move them. The auditor (`tombola worker auditor`, or within Core
where CORE_WORKERS names it) looks whether they were: at what changes, as soon as every transaction of that time has
ended, and around everything there is, again and again. So it also finds what no play did: a restore of half a database,
a hand on the rows. It changes nothing but its own list.

Each violation is logged (`conservation_violated`) and counted (`tombola_violations_total{check}`) once, and kept until
somebody closes it: `GET /admin/violations?status=open` lists them, with what was expected, what was found, and
`gone_at` where it is found no more; `POST /admin/violations/{id}/close {"reason": "..."}` closes one, and is in the
audit log. One that goes on as it was when it was closed is not told of again; one that went away and came back is, and
one that is off by another number. Alert on `tombola_violations_open > 0`. Of a check a tenant has at most 1,000 open.

`tombola audit` (`--tenant ID`, `--json`) looks at everything now, with DATABASE_URL, while all goes on, and ends with 1
where a violation is open: after a restore, say, or an upgrade.

The auditor has a statement under way for AUDIT_SHARE of the time at most (0.01: a hundredth of one connection) and
rests in between, so where much happens it comes behind and catches up later: `tombola_audit_behind_seconds` says how
far it is, `tombola_audit_seconds_total{kind}` what it took. More than one process share the work. A prize's stock, a
finalized board and a campaign's days are counted on the way around alone, whose length is what there is to be read
divided by AUDIT_SHARE. What lives in Valkey is not looked at: rankings there are built anew from these rows
(`tombola leaderboards rebuild`).

Left out, so that nothing is told of that is none: what was won or claimed within ten minutes after its prize was
changed, where the check goes by the prize's terms; days on which a campaign's time zone moved; plays within five
seconds of midnight; standings of players who merged with others after the end.

Each check is a statement of `sql/conservation.sql`, and looks at things of one kind:"""


if __name__ == "__main__":
    generate(ROOT / "runtime" / "messages")
    write_asyncapi(ASYNCAPI)
    write_commands(COMMANDS)
    if shutil.which("npm"):
        build_web()
    (ROOT / "docs").mkdir(exist_ok=True)
    for name, page in pages().items():
        (ROOT / "docs" / name).write_text(page)
