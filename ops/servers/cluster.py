"""A Valkey cluster: three nodes that share the slots, which can be moved."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis
from redis.crc import key_slot

from ops.servers.base import START_SECONDS, free_port, wait_for
from ops.servers.valkey import Valkey

SLOTS: Final = (("0", "5460"), ("5461", "10922"), ("10923", "16383"))


class ClusterNode(Valkey):
    """A Valkey node of a cluster; all share one password."""

    @property
    def password(self) -> str:
        return "cluster"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        # Explicit: the default, the port plus 10,000, may be out of range.
        self.bus_port = free_port()

    def _stdin(self) -> bytes:
        return super()._stdin() + b"cluster-enabled yes\ncluster-port %d\n" % self.bus_port


@contextmanager
def cluster(directory: Path) -> Iterator[list[ClusterNode]]:
    """The three nodes, once each knows the others and the owner of every slot."""
    nodes = [ClusterNode(directory / str(number) / "valkey") for number in range(len(SLOTS))]

    def agrees(node: ClusterNode) -> bool:
        said = node.command("CLUSTER", "INFO")
        if b"cluster_known_nodes:3" not in said:
            # Repeated: a node that is too busy at first loses the handshake.
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
        wait_for(all_agree, START_SECONDS)
        yield nodes
    finally:
        for node in nodes:
            node.stop()


async def _nothing() -> None: ...


class Slot:
    """The slot of a hash tag, and the node that owns it."""

    def __init__(self, nodes: Sequence[ClusterNode], tag: str) -> None:
        self.number = key_slot(f"{{{tag}}}".encode())
        self._nodes = nodes
        self._owner = next(nth for nth, (_, last) in enumerate(SLOTS) if self.number <= int(last))

    @property
    def owner(self) -> ClusterNode:
        """The current owner."""
        return self._nodes[self._owner]

    async def move(
        self, announced: Callable[[], Awaitable[None]] = _nothing, emptied: Callable[[], Awaitable[None]] = _nothing
    ) -> None:
        """Moves it to the next node, as an operator does.

        announced: called once both nodes know of the move, before any key moves; emptied: once all keys have moved.
        """
        target = (self._owner + 1) % len(self._nodes)
        clients: list[Any] = [Redis.from_url(node.url) for node in self._nodes]
        giver, taker = clients[self._owner], clients[target]
        try:
            giver_id, taker_id = [
                (await client.execute_command("CLUSTER", "MYID")).decode() for client in (giver, taker)
            ]
            await taker.execute_command("CLUSTER", "SETSLOT", self.number, "IMPORTING", giver_id)
            await giver.execute_command("CLUSTER", "SETSLOT", self.number, "MIGRATING", taker_id)
            await announced()
            address = ("127.0.0.1", self._nodes[target].port, "", 0, 5000, "AUTH", self._nodes[target].password)
            while keys := await giver.execute_command("CLUSTER", "GETKEYSINSLOT", self.number, 100):
                await giver.execute_command("MIGRATE", *address, "KEYS", *keys)
            await emptied()
            for client in (taker, giver, *clients):
                await client.execute_command("CLUSTER", "SETSLOT", self.number, "NODE", taker_id)
        finally:
            for client in clients:
                await client.aclose()
        self._owner = target
