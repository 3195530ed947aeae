"""The wire types are what game.proto says: generated again, they come out the same."""

from __future__ import annotations

import filecmp
import importlib.util
from pathlib import Path

import pytest

from ops.generate import ROOT, generate

GENERATED = ("game/v1/__init__.py", "google/protobuf/__init__.py", "message_pool.py", "behavior.py", "game.binpb")


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None or importlib.util.find_spec("betterproto2_compiler") is None,
    reason="the compiler comes with the `dev` extra",
)
def test_the_generated_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    generate(tmp_path)
    _, differ, missing = filecmp.cmpfiles(tmp_path, ROOT / "runtime" / "messages", GENERATED, shallow=False)
    assert (differ, missing) == ([], [])
