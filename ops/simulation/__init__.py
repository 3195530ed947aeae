"""The simulation: Tombola whole, in one process, on a clock of its own, with faults that a seed draws.

    seed -> plan (faults.py, workload.py) -> run (world.py, on loop.py) -> history (history.py)
         -> judged (judging/) -> shrunk by shrink.py -> told by story.py

Core, its actors, mailboxes, committer and operations run as they are; the two stores stand behind their seam
(`runtime/stores/database.py`, `runtime/stores/ephemeral.py`) as models of what the real ones promise. One seed is
one run, byte for byte: time, randomness and the order of everything that is ready come from it alone.

The approach is FoundationDB's (Zhou et al., SIGMOD 2021, section 4) and TigerBeetle's VOPR.
"""
