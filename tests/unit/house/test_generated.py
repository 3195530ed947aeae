"""What is generated is what its source says: generated again, it comes out the same."""

from __future__ import annotations

import filecmp
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ops import asyncapi, commands
from ops.generate import ASYNCAPI, COMMANDS, ROOT, generate

GENERATED = (
    "game/v1/__init__.py",
    "google/protobuf/__init__.py",
    "message_pool.py",
    "behavior.py",
    "comments.py",
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


def test_generated_document_of_events_is_that_of_their_structs() -> None:
    assert ASYNCAPI.read_text() == asyncapi.text(), "run `python -m ops.generate`"


def test_generated_commands_are_those_of_the_rows() -> None:
    assert COMMANDS.read_text() == commands.text(), "run `python -m ops.generate`"
