"""Loaded by Python itself at its start: the wall clock of this process is off by SKEW_SECONDS.

What Python code asks for (`time.time`, `time.time_ns`), which is all by which the service can know of it.
"""

from __future__ import annotations

import os
import time

_seconds = float(os.environ.get("SKEW_SECONDS", "0"))
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _seconds
time.time_ns = lambda: _time_ns() + round(_seconds * 1_000_000_000)
