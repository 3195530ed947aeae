"""The limits of the process that computes one forecast."""

from __future__ import annotations

import os
import resource
import signal
from typing import Final

CPU_SECONDS: Final = 10
MEMORY_BYTES: Final = 1024 * 1024 * 1024
TOO_LARGE: Final = 3
"""The exit status of a forecast that needs more memory."""
LIMITED: Final = (-signal.SIGXCPU, -signal.SIGKILL, TOO_LARGE)
"""The exit statuses of a process that reached a limit."""
_PRIORITY: Final = 10


def limit(cpu_seconds: int) -> None:
    """Limits this process."""
    os.nice(_PRIORITY)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
