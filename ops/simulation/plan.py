"""A run's plan: what is done, by whom and when, and what goes wrong. All that a seed draws but the order of steps.

A plan is data: it can be written down, read back, and made smaller by leaving out steps and faults (shrink.py).
What a step needs of an earlier one (a session, a reward) it takes from what its player knows by then, so that a step
that lacks it is passed over, and any part of a plan is a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and its retries. at: virtual seconds. core: the process that is asked first."""

    number: int
    at: float
    who: str
    core: int
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.args.get(name, default)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong. where: a process ("core-0"), a store ("database", "valkey"), or a step ("step-7")."""

    number: int
    at: float
    kind: str
    where: str
    seconds: float = 0.0

    def told(self) -> str:
        """In a word or two."""
        lasting = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.kind.replace('_', ' ')} at {self.where}{lasting}"


@dataclass(frozen=True, slots=True)
class Plan:
    """seed: of the world and of all that is drawn; salt: of the order of what is ready, and of the ways' times."""

    seed: int
    salt: int
    shuffled: bool
    cores: int
    world: Mapping[str, Any]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """What all of the run's randomness follows from."""
        return f"{self.seed}.{self.salt}"

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.faults)

    def of(self, steps: tuple[Step, ...], faults: tuple[Fault, ...]) -> Plan:
        """The same with these alone."""
        return replace(self, steps=steps, faults=faults)

    def salted(self, salt: int) -> Plan:
        """The same in another order."""
        return replace(self, salt=salt)


def write(plan: Plan) -> bytes:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(asdict(plan)), indent=1)


def read(data: bytes) -> Plan:
    """A plan that `write` wrote."""
    return msgspec.json.decode(data, type=Plan)
