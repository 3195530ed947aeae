"""Generates files: `python -m ops.generate`.

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

Three things are added to the output of the proto compiler. A `google.protobuf.Struct` field becomes a plain
`dict` (betterproto2 unwraps well-known types, but not this one). The descriptor set is stored beside the
code, so that gRPC reflection can serve it without generating the messages twice. And `behavior.py` gets the options of
game_options.proto on fields and the RPCs, which the compiler ignores; `comments.py` gets the comments on fields,
for the OpenAPI documents.
"""

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
OPTIONS = {50001: "REQUIRED", 50002: "READ_ONLY", 50005: "LINES", 50006: "ANY_CHARACTERS", 50007: "SIGNED"}
"""Numbers of the boolean options in game_options.proto, and the name of the set of fields for each."""

NUMBERS = {50003: "MOST", 50004: "MOST_ITEMS", 50008: "LEAST"}
"""Numbers of the integer options, and the name of the mapping by field for each."""

WEB = ROOT / "ops" / "web"

OPTION = re.compile(r" \[\([^]]*\](?=;)|^import \"game_options.proto\";\n", re.MULTILINE)

GLOSSARY = re.compile(r"^//   (\w+): (.*)$", re.MULTILINE)
"""A line of game.proto's glossary of names."""

STRUCT_FIELD = re.compile(
    r'"__google__protobuf__\.Struct \| None" = '
    r"betterproto2\.field\(\s*(\d+), betterproto2\.TYPE_MESSAGE, optional=True\s*\)"
)


def generate(out_dir: Path) -> None:
    """Writes the messages, behavior.py and game.binpb into `out_dir`."""
    # The compiler's plugin formats its output with the `ruff` on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        # The compiler ignores field options: it would generate classes for the file that defines them.
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
    with tempfile.TemporaryDirectory() as scratch:
        sourced = Path(scratch) / "game.binpb"
        _protoc(PROTO_DIR / "game.proto", "--include_source_info", f"--descriptor_set_out={sourced}")
        (out_dir / "comments.py").write_text(comments(sourced.read_bytes(), (PROTO_DIR / "game.proto").read_text()))


def _protoc(proto: Path, *options: str) -> None:
    from grpc_tools import protoc  # a development dependency: not needed to run

    included = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(["protoc", f"--proto_path={proto.parent}", f"--proto_path={included}", *options, str(proto)])
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")


def behavior(described: bytes) -> str:
    """The source of behavior.py: the fields with each option, by message; and the RPCs."""
    from google.protobuf import descriptor_pb2, unknown_fields

    found: dict[str, dict[str, list[str]]] = {name: {} for name in OPTIONS.values()}
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in NUMBERS.values()}
    rpcs: list[str] = []
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        for message in file.message_type:
            for field in message.field:
                # Known if this process has loaded game_options.proto (for reflection), otherwise unknown.
                options = {option.field_number: option.data for option in unknown_fields.UnknownFieldSet(field.options)}
                options |= {option.number: value for option, value in field.options.ListFields()}
                for number in OPTIONS:
                    if options.get(number):
                        found[OPTIONS[number]].setdefault(message.name, []).append(field.name)
                for number in NUMBERS:
                    if options.get(number):
                        counts[NUMBERS[number]].setdefault(message.name, {})[field.name] = options[number]
        for service in file.service:
            for rpc in service.method:
                types = [named.rpartition(".")[2] for named in (rpc.input_type, rpc.output_type)]
                rpcs.append(f'    "{rpc.name}": ("{service.name}", "{types[0]}", "{types[1]}"),')
    lines = ['"""The field options of game.proto, and its RPCs: generated by ops/generate.py."""']
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
        "# RPC -> its service, request and reply",
        "RPCS: dict[str, tuple[str, str, str]] = {",
    ]
    return "\n".join([*lines, *rpcs, "}"]) + "\n"


def comments(described: bytes, proto: str) -> str:
    """The source of comments.py: the comment of each field, and the glossary for fields without one."""
    from google.protobuf import descriptor_pb2

    found: dict[str, dict[str, str]] = {}
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(described).file
    for location in file.source_code_info.location:
        comment = " ".join((location.leading_comments or location.trailing_comments).split())
        match list(location.path):
            case [4, index, 2, nested] if comment:
                message = file.message_type[index]
                found.setdefault(message.name, {})[message.field[nested].name] = comment
    lines = [
        '"""The comments of game.proto on fields: generated by ops/generate.py."""',
        "",
        "# Name -> its meaning, for fields without a comment.",
        f"NAMES: dict[str, str] = {json.dumps(dict(GLOSSARY.findall(proto)), indent=4, ensure_ascii=False)}",
        "",
        f"FIELDS: dict[str, dict[str, str]] = {json.dumps(found, indent=4, ensure_ascii=False)}",
    ]
    return "\n".join(lines) + "\n"


def build_web() -> None:
    """Bundles runtime/web with the packages of ops/web/package-lock.json. Runs no package's install scripts."""
    for command in (("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"), ("run", "build")):
        subprocess.run(["npm", *command], cwd=WEB, check=True, stdout=subprocess.DEVNULL)


def pages() -> dict[str, str]:
    """The pages of docs/ that are generated from code, by name."""
    from ops import asyncapi, commands
    from ops.proof import faults
    from runtime.http.admin import markdown as roles
    from runtime.http.docs.remedies import markdown as errors
    from runtime.operations.conservation.checks import markdown as checks
    from runtime.settings.documentation import markdown as settings

    made = {
        "settings": settings,
        "roles": roles,
        "commands": commands.markdown,
        "errors": errors,
        "events": asyncapi.markdown,
        "audit": checks,
    }
    texts = {name: (ROOT / "ops" / "texts" / f"{name}.md").read_text() for name in made}
    tables = {f"reference/{name}.md": f"{texts[name]}\n{table()}" for name, table in made.items()}
    return {**tables, "reference/faults.md": faults.page()}


if __name__ == "__main__":
    from ops import asyncapi, commands

    generate(ROOT / "runtime" / "messages")
    ASYNCAPI.write_text(asyncapi.text())
    COMMANDS.write_text(commands.text())
    if shutil.which("npm"):
        build_web()
    (ROOT / "docs").mkdir(exist_ok=True)
    for name, page in pages().items():
        (ROOT / "docs" / name).write_text(page)
