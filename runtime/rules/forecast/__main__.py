"""Computes one forecast: the task on standard input as JSON, the answer on standard output.

A process of its own, so that seconds of computation delay no play.
"""

from __future__ import annotations

import sys

import msgspec

from runtime.rules.forecast import Answer, Task, answer

if __name__ == "__main__":
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    done: Answer = answer(task)
    sys.stdout.buffer.write(msgspec.json.encode(done))
