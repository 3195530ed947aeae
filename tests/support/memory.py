from pathlib import Path

import psutil


def child(*command: str) -> psutil.Process:
    (own,) = [one for one in psutil.Process().children() if one.cmdline()[1:] == ["-m", "runtime", *command]]
    return own


def forget_peak(process: psutil.Process) -> int:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def peak(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
