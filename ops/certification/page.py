"""docs/certify.md: how to run it, how to read it, and every row."""

from __future__ import annotations

from typing import Final

from ops.certification import record, rows
from ops.certification.report import listed

_TEXT: Final = """\
# Certifying

`./ops/certify` makes the faults of [faults.md](faults.md) on real processes, and judges what came of them. It needs
nothing but Python: the servers are embedded, and all of it ends with the command.

    ./ops/certify --quick              # small sizes, at most ten minutes
    ./ops/certify                      # the sizes of faults.md, about two hours
    ./ops/certify --check              # some of the rows at small sizes, two minutes: part of .ci/run
    ./ops/certify --row core-killed    # one row, or several
    ./ops/certify --soak 8             # eight hours of load, with a fault now and then
    ./ops/certify --json F --junit F   # for machines
    ./ops/certify --record             # keep what came of each for the table below
    ./ops/certify --list               # every row

In a directory of its own it starts PostgreSQL (with fsync), Valkey, two Cores, both edges, each worker, and a receiver
of webhooks. Each row has a tenant of its own, in which players with three requests in flight each start, play, claim,
redeem, complete quests and look at what they have, and staff adjusts, restocks, revokes and fulfils. Each request has
its Idempotency-Key, and is tried again under it where it is not answered. Every other operation is asked meanwhile too,
by its own example, about things that are made for that.

When it is quiet again each row is judged:

- The live rankings, as Valkey has them and as a player is shown them: what the plays' rows say, place by place.
- `conservation`: the checks of [audit.md](audit.md), 0 rows.
- `unexplained`: requests whose answer cannot be right. What was done has its row, and exactly one; one key has one
  answer and one effect; some order of what was done explains every answer, cap, balance, rung, reward and look of each
  player (a checker for linearizability, after Wing and Gong, and Lowe); a code is one reward's, and a reward has one
  code; nobody is refused without cause; no error of the service but a 503 with Retry-After. Guests who logged in are
  left to conservation, and to the row that merges them.
- the row's own figures, each with its bound.

`machine x 3` beside a time says that a fixed piece of work took three times as long just then as at its best in this
run: a time that is missed on a busy machine says little. Only where a figure says `scaled` is its bound stretched by
that. A row that fails names a directory with its history (`history.jsonl`: the faults and what the judge found, then
every request with each of its attempts) and all logs. Exit status 1 where a row fails.
One that the machine does not allow (no file system may be mounted, say) is `not run`: neither held nor failed.

`--soak` goes on in chapters of five minutes, each judged like a row. Of each process there are two: what ends one
strikes its twin, and the others live through all of it. What is left between chapters is held to ceilings: memory, open
files and objects of each process (`tombola_python_blocks` of its metrics), WAL, Valkey's memory, and Valkey's keys by
their kind, of which there may be as many as there were requests, starts, players and tenants.

A deployment that is not on this machine is tried from outside by `tombola certify` ([deploy.md](deploy.md)).

## Rows

A row without a fault is beyond the page of faults.
"""
_FOUND: Final = """
## What they came to

At the sizes of the page of faults, the last time that each ran so (`./ops/certify --record` keeps it), on two cores
that the stores, all processes and the load share. A time is told with its bound, and with how slow the machine was.
"""


def page() -> str:
    """The page."""
    every = rows.load()
    return f"{_TEXT}\n{listed(list(every.values()))}\n{_FOUND}\n{record.table(every, record.read())}\n"
