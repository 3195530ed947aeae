"""A Valkey cluster: three nodes that share the slots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ops.servers.base import free_port, wait_for
from ops.servers.valkey import Valkey
from tests.support.waiting import HANG_SECONDS

SLOTS: Final = (("0", "5460"), ("5461", "10922"), ("10923", "16383"))


class ClusterNode(Valkey):
    """A Valkey that takes part in a cluster; its nodes share one password."""

    password = "cluster"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        # Named: the default is the port plus 10,000, which a free port of the upper ones has not.
        self.bus_port = free_port()

    def _stdin(self) -> bytes:
        return super()._stdin() + b"cluster-enabled yes\ncluster-port %d\n" % self.bus_port


@contextmanager
def cluster(directory: Path) -> Iterator[list[ClusterNode]]:
    """The three nodes, once each of them knows the others and who has every slot."""
    nodes = [ClusterNode(directory / str(number) / "valkey") for number in range(len(SLOTS))]

    def agrees(node: ClusterNode) -> bool:
        said = node.command("CLUSTER", "INFO")
        if b"cluster_known_nodes:3" not in said:
            # Again and again: a meeting that a busy node is late for is forgotten.
            node.command("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), str(nodes[0].bus_port))
            return False
        return b"cluster_state:ok" in said

    def all_agree() -> bool:
        said = [agrees(node) for node in nodes]
        return all(said)

    try:
        for node, slots in zip(nodes, SLOTS, strict=True):
            node.data_dir.parent.mkdir()
            node.start()
            node.command("CLUSTER", "ADDSLOTSRANGE", *slots)
        wait_for(all_agree, HANG_SECONDS)
        yield nodes
    finally:
        for node in nodes:
            node.stop()
