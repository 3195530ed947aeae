"""The simulation: the play path of Tombola, whole, in one process, on a virtual clock, with faults that a seed draws.

    seed -> plan (workload.py, faults.py) -> run (world.py, on loop.py) -> history, judged (ops/history)
         -> shrunk by shrink.py -> printed by story.py

Core, its actors, mailboxes and committer run as they are. The database is a model (postgres.py) of the statements that
plays, claims, redeems and an idempotent write use (statements.py, keyed_statements.py). One seed is one run, byte for
byte: time, randomness and the order of everything that is ready come from it alone.

The approach is FoundationDB's (Zhou et al., SIGMOD 2021, section 4) and TigerBeetle's VOPR.
"""

from ops.simulation import keyed_statements, statements

__all__ = ["keyed_statements", "statements"]
