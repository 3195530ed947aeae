"""The ranks of draws in a dossier: each has the winner and the prize of the evidence, until it is replaced.

The tables are in the database of the check (dossier.py), which has those of winners and rewards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any, Final

from runtime.commands.evidence.awards import Problem

TABLES: Final = """
    CREATE TABLE results (contest, rank, holder, prize_id, is_replaced);
    CREATE TABLE replacements (audit_id, contest, rank, alternate, is_logged);
    CREATE INDEX results_contest ON results (contest, rank);
"""
"""results: the ranks of the evidence. prize_id: "" for an alternate."""

_LATER: Final = (
    """
    DELETE FROM results WHERE contest IN (SELECT id FROM draws WHERE logged_at IS NULL)
        AND contest NOT IN (SELECT contest FROM winners)
    RETURNING contest, rank
    """,
    """
    DELETE FROM replacements WHERE NOT is_logged
        AND (contest, rank) IN (SELECT contest, rank FROM winners WHERE reason <> 'REPLACED')
    RETURNING contest, rank, alternate
    """,
)
"""Removes results from after the winners were read. Returns their ranks."""

_REPLACEMENTS: Final = """
    SELECT contest, rank, alternate FROM replacements WHERE contest IN (SELECT contest FROM results) ORDER BY audit_id
"""
_PASSED_OVER: Final = "SELECT rank FROM results WHERE contest = ?1 AND rank < ?3 AND prize_id = ''"
_CALL: Final = """
    UPDATE results SET prize_id = f.prize_id FROM results AS f
    WHERE f.contest = ?1 AND f.rank = ?2 AND f.prize_id <> '' AND NOT f.is_replaced
      AND results.contest = ?1 AND results.rank = ?3 AND results.prize_id = ''
"""
_REPLACE: Final = "UPDATE results SET is_replaced = true WHERE contest = ? AND rank = ?"

_UNDRAWN: Final = """
    SELECT e.contest || ' rank ' || e.rank FROM results AS e
    LEFT JOIN winners AS n ON n.contest = e.contest AND n.rank = e.rank
    LEFT JOIN rewards AS r ON r.id = n.reward_id
    WHERE n.rank IS NULL OR (n.holder, n.prize_id, n.reason = 'REPLACED') <> (e.holder, e.prize_id, e.is_replaced)
       OR CASE WHEN e.is_replaced THEN r.status NOT IN ('revoked', 'expired') ELSE n.reason = '' AND r.id IS NULL END
    UNION ALL
    SELECT contest || ' rank ' || rank FROM winners AS n WHERE contest IN (SELECT contest FROM results)
    GROUP BY contest, rank
    HAVING count(*) > 1 OR NOT EXISTS (SELECT 1 FROM results AS e WHERE e.contest = n.contest AND e.rank = n.rank)
"""
"""An awarded rank has a reward and an empty reason. A replaced one has no reward, or one revoked or expired."""

_UNREWARDED: Final = """
    SELECT contest || ' rank ' || rank || ' (' || reason || ')' FROM winners
    WHERE prize_id <> '' AND reason NOT IN ('', 'REPLACED') AND contest IN (SELECT contest FROM results)
"""


def read_result(database: sqlite3.Connection, draw: Mapping[str, Any], result: list[Mapping[str, Any]]) -> None:
    """The result in the evidence of a draw. draw: the first line of the evidence."""
    of_terms = (one["prize_id"] for one in draw["prizes"] for _ in range(one["count"]))
    for rank, (one, prize_id) in enumerate(zip(result, chain(of_terms, repeat("")), strict=False), 1):
        database.execute("INSERT INTO results VALUES (?, ?, ?, ?, false)", (draw["id"], rank, one["holder"], prize_id))


def read_audit(database: sqlite3.Connection, entry: Mapping[str, Any]) -> None:
    """What an audit entry says about replaced winners."""
    if entry["action"] == "draw.replace":
        facts = (entry["id"], entry["subject_id"], entry["after"]["rank"], entry["after"]["alternate"])
        database.execute("INSERT INTO replacements VALUES (?, ?, ?, ?, ?)", (*facts, "entry" in entry))


def problems(database: sqlite3.Connection) -> Iterator[Problem]:
    """The findings about the ranks of draws."""
    found = [row for query in _LATER for row in database.execute(query).fetchall()]
    later = [f"{contest} rank {rank}" for contest, *ranks in found for rank in ranks]
    wrong, passed_over = list[str](), list[str]()
    for contest, *ranks in database.execute(_REPLACEMENTS).fetchall():
        over = database.execute(_PASSED_OVER, (contest, *ranks)).fetchall()
        if database.execute(_CALL, (contest, *ranks)).rowcount == 1:
            database.execute(_REPLACE, (contest, ranks[0]))
            passed_over += [f"{contest} rank {rank}" for (rank,) in over]
        else:
            wrong.append(f"{contest} rank {ranks[0]}")
    wrong += [name for (name,) in database.execute(_UNDRAWN)]
    text = "winners are those of the evidence"
    yield Problem(text, "winners", [name for name in wrong if name not in later])
    if later:
        yield Problem(f"{text}: the others were drawn or replaced later", "winners", later, is_open=True)
    text = "alternates were called in order: the skipped ones may be suspended or erased, which only the operator knows"
    if passed_over:
        yield Problem(text, "results", passed_over, is_open=True)
    if waiting := [name for (name,) in database.execute(_UNREWARDED)]:
        text = "drawn ranks have their reward: the others have none, as the operator states"
        yield Problem(text, "results", waiting, is_open=True)
