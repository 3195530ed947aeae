"""A row: a fault that is made on a running stack under load, and the figures that it is held to.

A row is a function with a declaration; naming its module in `ops.certification.rows.MODULES` is all that adds it.

    @row("core-killed", fault="Core killed (SIGKILL)", quick=10, full=50, unit="kills")
    async def core_killed(run: Run) -> None:
        "Core killed at random moments."
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ops.certification.run import Run

ROWS: Final[dict[str, Row]] = {}
"""Every row by its name, in the order in which they run."""


@dataclass(frozen=True)
class Row:
    """name: on the command line. fault: the row's title on docs/faults.md. quick, full: its size in `unit`s.

    furnished: whether its tenant is given the load's games (else an empty campaign).
    """

    name: str
    fault: str
    quick: int
    full: int
    unit: str
    furnished: bool
    work: Callable[[Run], Awaitable[None]]

    @property
    def about(self) -> str:
        """What it does, in a sentence."""
        return (self.work.__doc__ or "").strip().partition("\n")[0]


def row(
    name: str, *, fault: str, quick: int, full: int, unit: str, furnished: bool = True
) -> Callable[[Callable[[Run], Awaitable[None]]], Callable[[Run], Awaitable[None]]]:
    """Declares the function below as a row."""

    def declare(work: Callable[[Run], Awaitable[None]]) -> Callable[[Run], Awaitable[None]]:
        assert name not in ROWS, f"two rows are called {name}"
        ROWS[name] = Row(name, fault, quick, full, unit, furnished, work)
        return work

    return declare


@dataclass(frozen=True)
class Figure:
    """Something that was measured or counted, and what it is held to. bound: "" where it is only told.

    slowness: by how much the machine was slower than at its best meanwhile, where the figure is a time; None: no
    matter. scaled: whether the bound was stretched by it.
    """

    name: str
    value: float
    unit: str
    bound: str
    ok: bool
    slowness: float | None = None
    scaled: bool = False

    def told(self) -> str:
        """For the table: "ready again 3.1 s (at most 5 s)"."""
        shown = (
            f"{self.value:.3g}"
            if isinstance(self.value, float) and self.value != int(self.value)
            else f"{int(self.value)}"
        )
        words = [f"{self.name} {shown}{f' {self.unit}' if self.unit else ''}"]
        if self.bound:
            words.append(f"({self.bound}{', scaled' if self.scaled else ''})")
        if self.slowness is not None:
            words.append(f"[machine x {self.slowness:.2g}]")
        return " ".join(words)


class NotRun(Exception):
    """The row cannot be run on this machine; the message says why. That is neither a failure nor a proof."""


@dataclass
class Result:
    """What came of a row. error: what ended it, or what the judge found; "" where nothing. kept: where its history and
    the logs lie, of one that failed. not_run: why it was not, "" where it was.
    """

    row: Row
    size: int
    figures: list[Figure] = field(default_factory=list)
    seconds: float = 0.0
    slowness: float = 1.0
    error: str = ""
    kept: str = ""
    not_run: str = ""

    @property
    def said(self) -> str:
        """How it is told: ok, FAILED or not run."""
        return "FAILED" if not self.ok else "not run" if self.not_run else "ok"

    @property
    def ok(self) -> bool:
        return not self.error and all(figure.ok for figure in self.figures)
