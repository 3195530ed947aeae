"""Generated files equal what their sources generate, and the widget is documented as declared."""

import filecmp
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops import asyncapi, commands
from ops.generate import ASYNCAPI, COMMANDS, ROOT, generate
from runtime import web

GENERATED = (
    *("game/v1/__init__.py", "google/protobuf/__init__.py", "message_pool.py", "behavior.py", "comments.py"),
    "game.binpb",
)


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None or importlib.util.find_spec("betterproto2_compiler") is None,
    reason="the compiler comes with the `dev` extra",
)
def test_generated_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    generate(tmp_path)
    _, differ, missing = filecmp.cmpfiles(tmp_path, ROOT / "runtime" / "messages", GENERATED, shallow=False)
    assert (differ, missing) == ([], [])


KNOWN = """
from google.protobuf import descriptor_pb2, descriptor_pool
from ops.generate import ROOT, behavior

described = (ROOT / "runtime" / "messages" / "game.binpb").read_bytes()
for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
    if file.name != "google/protobuf/descriptor.proto":
        descriptor_pool.Default().Add(file)
assert descriptor_pool.Default().FindFileByName("game_options.proto").extensions_by_name
assert behavior(described) == (ROOT / "runtime" / "messages" / "behavior.py").read_text()
"""


def test_options_are_read_also_where_they_are_known() -> None:
    done = subprocess.run([sys.executable, "-c", KNOWN], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_generated_events_and_commands_are_those_of_the_code() -> None:
    assert ASYNCAPI.read_text() == asyncapi.text(), "run `python -m ops.generate`"
    assert COMMANDS.read_text() == commands.text(), "run `python -m ops.generate`"


WIDGET = Path(web.__file__).parent / "widget"
DOCS = (Path(__file__).parents[3] / "docs/reference/widget.md").read_text()
DECLARED = (WIDGET / "v1" / "tombola.d.ts").read_text()
SOURCES = {path.relative_to(WIDGET).as_posix(): path.read_text() for path in WIDGET.rglob("*.js")}
ELEMENT = SOURCES["tombola.js"]


def found(pattern: str, *texts: str) -> set[str]:
    return {name for text in texts for name in re.findall(pattern, text, re.MULTILINE)}


def section(begin: str, end: str, text: str) -> str:
    return text.partition(begin)[2].partition(end)[0]


def test_attributes_are_all_documented_and_declared() -> None:
    names = found(r'getAttribute\("([\w-]+)"\)', ELEMENT) | found(r":host\(\[(?!hidden)(\w+)\]\)", *SOURCES.values())
    assert found(r'"([\w-]+)"', section("observedAttributes = [", "]", ELEMENT)) <= names
    assert found(r"^\| `([\w-]+)` \|", section("| Attribute |", "\n\n", DOCS)) == names
    assert found(r'^  "?([\w-]+)"?\??:', section("interface TombolaAttributes {", "}", DECLARED)) == names


def test_events_and_methods_are_all_documented_and_declared() -> None:
    actual = found(r"^\| `tombola:(\w+)` \|", DOCS)
    assert found(r'^  "tombola:(\w+)":', DECLARED) == actual
    assert found(r'tell\("(\w+)"', *SOURCES.values()) <= actual
    methods = found(r"^  (?:async )?(\w+)\(.*\) \{$", ELEMENT) - {"constructor"}
    methods = {name for name in methods if not name.endswith("Callback")}
    assert methods == found(r"^  (\w+)\(\): Promise", DECLARED)
    assert all(f"`{name}()`" in DOCS for name in methods)


def test_parts_slots_and_properties_are_all_documented() -> None:
    sources = list(SOURCES.values())
    assert found(r"`(\w+)`", section("\nParts:", "Slots:", DOCS)) == found(r'\bpart: "(\w+)"', *sources)
    assert found(r"`(\w+)`", section("Slots:", ".", DOCS)) == found(r'"slot", \{ name: "(\w+)"', *sources)
    own = found(r'"(\w+)"', section("const OWN = [", "]", ELEMENT)) | found(r"var\(--tombola-(\w+)", *sources)
    assert found(r"--tombola-(\w+):", DOCS) == own
