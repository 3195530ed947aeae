"""The lines of an import of codes: voucher codes of a prize, and codes of a pack.

An import arrives in parts, and each part is one statement. A busy process pauses between codes, so that its plays are
delayed little. An import that breaks off has added the parts before. A second run adds only the rest and reports the
others as duplicates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.metrics import CALLS
from runtime.operations.checks import TIME_MAX
from runtime.outgoing.vault import vault_of

CODE_CHARACTERS_MAX: Final = 128
PART_MAX: Final = 5_000
"""Codes in one request: one statement adds them well within its timeout."""

ERRORS_MAX: Final = 100

SLICE: Final = 250
"""Codes hashed or encrypted at once: about two milliseconds, in which the process does nothing else."""

WINDOW_SECONDS: Final = 0.1
BUSY_PLAYS_PER_SECOND: Final = 50
PAUSE_SECONDS: Final = 0.25
"""The pause after each slice in a process with as many plays. A request has two parts under way, so it adds 2,000 codes
a second, which takes about 4 % of the process's time."""

T = TypeVar("T")


def problem(code: str) -> str | None:
    """The problem of a stripped code, or None."""
    if not code:
        return "is empty"
    if len(code) > CODE_CHARACTERS_MAX:
        return f"is longer than {CODE_CHARACTERS_MAX} characters"
    if " " in code or not code.isprintable():
        return "contains white space or unprintable characters"
    return None


def _expiry_problem(end: int, now: float) -> str | None:
    """The problem of a code's expiry (unix seconds, 0: never), or None."""
    if end < 0 or end > TIME_MAX:
        return "has an invalid expiry"
    return "has already expired" if 0 < end <= now else None


@dataclass(slots=True)
class Sifted:
    """The valid codes of a part, each with its line and its expiry, and the lines that were rejected."""

    lines_of: dict[str, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    duplicates: int = 0
    invalid: int = 0
    found: list[tuple[int, str]] = field(default_factory=list)

    def reply(self, present: Iterable[str]) -> m.ImportCodesReply:
        """The part's reply. present: the codes that were stored before."""
        duplicates = [(self.lines_of[code], "duplicate") for code in present]
        return m.ImportCodesReply(
            added=len(self.lines_of) - len(duplicates),
            duplicates=self.duplicates + len(duplicates),
            invalid=self.invalid,
            errors=[m.CodeError(line=line, reason=why) for line, why in sorted(self.found + duplicates)[:ERRORS_MAX]],
        )


def sift(
    request: m.ImportCodesRequest,
    now: float,
    *,
    canonical: Callable[[str], str] = str.strip,
    why_not: Callable[[str], str | None] = problem,
) -> Sifted:
    """Checks a part, at most PART_MAX codes. canonical: the form in which equal codes are the same."""
    if not request.codes:
        raise invalid("codes", "is required")
    if len(request.codes) > PART_MAX:
        raise invalid("codes", f"must be at most {PART_MAX} in one part")
    if request.lines and len(request.lines) != len(request.codes):
        raise invalid("lines", "must have one item for each code")
    if request.expiries and len(request.expiries) != len(request.codes):
        raise invalid("expiries", "must have one item for each code")
    if request.expires_at and not now < request.expires_at <= TIME_MAX:
        raise invalid("expires_at", "must be a future time, in unix seconds")
    sifted = Sifted()
    for index, text in enumerate(request.codes):
        line = request.lines[index] if request.lines else index + 1
        end = (request.expiries[index] if request.expiries else 0) or request.expires_at
        code = canonical(text)
        if (wrong := why_not(code) or _expiry_problem(end, now)) is not None:
            sifted.invalid += 1
            sifted.found.append((line, wrong))
        elif code in sifted.lines_of:
            sifted.duplicates += 1
            sifted.found.append((line, "duplicate"))
        else:
            sifted.lines_of[code] = line
            sifted.ends.append(end)
    return sifted


def part_hashes(engine: Engine, request: m.ImportCodesRequest) -> list[bytes]:
    """The part's request hash under each encryption key. A plain hash of a few codes could be found by guessing."""
    vault = vault_of(engine.keyring.code)
    text = "\n".join([*request.codes, str(request.lines), str(request.more)])
    if request.expires_at or request.expiries:
        text += f"\n{request.expires_at} {request.expiries}"
    return vault.fingerprints(text.encode(errors="backslashreplace").decode(), "import")


async def in_slices(codes: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The codes in slices, with a pause after each: a short one, or PAUSE_SECONDS in a process with many plays."""
    for first in range(0, len(codes), SLICE):
        yield codes[first : first + SLICE]
        await _PACE.pause()


class _Pace:
    """Slows imports down while this process has many plays."""

    def __init__(self) -> None:
        self._plays, self._since, self._busy = 0, 0.0, False

    async def pause(self) -> None:
        """Yields to other work between slices; to plays for PAUSE_SECONDS."""
        now = time.monotonic()
        if now - self._since >= WINDOW_SECONDS:
            plays = CALLS.values.get(("Play", "OK"), 0)
            self._busy = plays - self._plays > BUSY_PLAYS_PER_SECOND * (now - self._since)
            self._plays, self._since = plays, now
        await asyncio.sleep(PAUSE_SECONDS if self._busy else 0)


_PACE: Final = _Pace()
