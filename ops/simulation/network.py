"""What lies between a process and its stores, as the simulation has it: the seam at which faults come in."""

from __future__ import annotations

from typing import Protocol


class Network(Protocol):
    """The way from one process to one store. kind: "postgres" or "valkey"; what: the statement or the command."""

    async def before(self, kind: str, what: str) -> None:
        """On the way there: may take its time. OSError where it never arrives, and is not carried out."""

    async def after(self, kind: str, what: str) -> None:
        """On the way back: may take its time. OSError where the answer never arrives: it has taken effect."""

    async def point(self, what: str) -> None:
        """Between two steps that the store takes for the process: others may go on meanwhile."""


class Calm:
    """A network without faults or delays."""

    async def before(self, kind: str, what: str) -> None:
        """At once."""

    async def after(self, kind: str, what: str) -> None:
        """At once."""

    async def point(self, what: str) -> None:
        """At once."""
