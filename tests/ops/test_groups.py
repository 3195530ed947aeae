"""A consumer group of runtime/groups.py is wherever somebody would look for it: none is forgotten, none left over."""

import inspect
from pathlib import Path

import pytest

from runtime.groups import GROUPS, ConsumerGroup

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()


def test_architecture_page_names_each_group() -> None:
    reading = [group.name for group in GROUPS.values() if group.stream is not None]
    picture = (ROOT / "docs/pictures/architecture.svg").read_text()
    assert [name for name in reading if name.capitalize() not in picture] == []
    assert f"| the consumer groups: {', '.join(GROUPS)} |" in ARCHITECTURE, "the table of rooms"


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_group_loads_the_coroutine_that_its_row_names(group: ConsumerGroup) -> None:
    run = group.load()
    assert inspect.iscoroutinefunction(run)
    assert [*inspect.signature(run).parameters][:2] == ["engine", "stop"]


def test_group_streams_are_one_per_shard_with_the_shard_as_hash_tag() -> None:
    for group in GROUPS.values():
        streams = group.streams(3)
        assert len(set(streams)) == (3 if group.stream is not None else 0)
        assert all(f"{{{shard}}}" in stream for shard, stream in enumerate(streams))
