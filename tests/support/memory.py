"""What another process holds in memory."""

from __future__ import annotations

from pathlib import Path

import psutil


def child(*command: str) -> psutil.Process:
    """The process of this test's that runs `python -m runtime COMMAND`."""
    (own,) = [one for one in psutil.Process().children() if one.cmdline()[1:] == ["-m", "runtime", *command]]
    return own


def forget_peak(process: psutil.Process) -> int:
    """Begins to measure; the bytes that it holds now."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def peak(process: psutil.Process) -> int:
    """The most bytes that it has held since."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
