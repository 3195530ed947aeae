"""The simulation: the whole play path of Tombola in one process, on a virtual clock, with faults drawn from a seed.

    seed -> plan (workload.py, faults.py) -> run (world.py, on loop.py) -> history, judged (ops/history)
         -> shrunk by shrink.py -> printed by story.py

Core, its actors, mailboxes and committer run unchanged. The database is a model (postgres.py) of the statements that
plays, claims, redeems and an idempotent write use (statements.py, keyed_statements.py). A seed determines a run: time,
randomness and scheduling all derive from it.

The approach is FoundationDB's (Zhou et al., SIGMOD 2021, section 4) and TigerBeetle's VOPR.
"""

from ops.simulation import keyed_statements, statements

__all__ = ["keyed_statements", "statements"]
