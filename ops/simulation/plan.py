"""A run's plan: the steps, who does them and when, and the faults. Everything that a seed draws, except the schedule.

A plan is data: it can be written, read, and reduced by leaving out steps and faults (shrink.py). A step takes what it
needs of earlier ones (a session, a reward) from its player's state and is skipped if that is missing, so any part of a
plan is a plan.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Step:
    """One request with its retries. at: virtual seconds. core: the process that gets the first attempt."""

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
    """A fault. where: a process ("core-0"), a store ("database", "valkey"), or a step ("step-7")."""

    number: int
    at: float
    kind: str
    where: str
    seconds: float = 0.0

    def describe(self) -> str:
        """A few words for reports."""
        lasting = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.kind.replace('_', ' ')} at {self.where}{lasting}"


@dataclass(frozen=True, slots=True)
class Plan:
    """seed: of the world and all draws; salt: of the schedule and of the network delays."""

    seed: int
    salt: int
    shuffled: bool
    cores: int
    world: Mapping[str, Any]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """The seed of all randomness of the run."""
        return f"{self.seed}.{self.salt}"

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.faults)

    def of(self, steps: tuple[Step, ...], faults: tuple[Fault, ...]) -> "Plan":
        """The plan with only these steps and faults."""
        return replace(self, steps=steps, faults=faults)

    def salted(self, salt: int) -> "Plan":
        """The plan with another schedule."""
        return replace(self, salt=salt)


def write(plan: Plan) -> bytes:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(asdict(plan)), indent=1)


def read(data: bytes) -> Plan:
    """Reads a plan from `write`."""
    return msgspec.json.decode(data, type=Plan)
