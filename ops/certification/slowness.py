"""How slow the machine is just now: what a fixed piece of work takes, against the least that it took in this run.

The work is done in a process of its own, so that it is the machine that is measured and not this process' loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from dataclasses import dataclass, field
from typing import Final

PIECES: Final = 5
ROUNDS: Final = 40


def work() -> float:
    """The seconds of the fixed piece of work: hashing, and what an interpreter does."""
    began = time.perf_counter()
    digest = b""
    for nth in range(ROUNDS):
        digest = hashlib.sha256(digest + b"x" * 65536).digest()
        sum(nth * each % 7 for each in range(2000))
    return time.perf_counter() - began


@dataclass
class Slowness:
    """best_seconds: the least that the work took yet."""

    best_seconds: float = float("inf")
    readings: list[float] = field(default_factory=list)

    async def read(self) -> float:
        """Factor by which the machine is slower now than at its best: the median of a few pieces of the work."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", _SCRIPT.format(path=__file__, pieces=PIECES), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        taken = sorted(map(float, said.split()))
        self.best_seconds = min(self.best_seconds, taken[0])
        factor = taken[len(taken) // 2] / self.best_seconds
        self.readings.append(factor)
        return factor


_SCRIPT: Final = """
import runpy
work = runpy.run_path({path!r})["work"]
print(*(work() for _ in range({pieces})))
"""
