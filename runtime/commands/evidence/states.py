"""Compares the states in a dossier with its audit entries: those of rewards, and the stock of prizes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from runtime.commands.evidence.findings import same_but_persons

TABLES: Final = """
    CREATE TABLE audits (id PRIMARY KEY, at, logged_at, is_whole);
    CREATE TABLE changes (audit_id, reward_id, status);
    CREATE TABLE audited_totals (prize_id, audit_id, total);
    CREATE TABLE audited_moves (prize_id, seq, total_before, total_after, remaining_before, remaining_after);
    CREATE INDEX changes_reward ON changes (reward_id, audit_id);
"""

_MISSTATED: Final = """
    SELECT r.id FROM rewards AS r LEFT JOIN changes AS c ON c.reward_id = r.id
        AND c.audit_id = (SELECT max(audit_id) FROM changes WHERE reward_id = r.id)
    WHERE (r.status = 'revoked') <> (coalesce(c.status, '') = 'revoked')
       OR (c.status = 'fulfilled' AND r.status <> 'fulfilled')
"""
_MISMOVED: Final = """
    SELECT a.prize_id FROM audited_moves AS a LEFT JOIN moves AS m ON m.prize_id = a.prize_id AND m.seq = a.seq
    WHERE m.seq IS NULL OR (m.total_before, m.total_after, m.remaining_before, m.remaining_after)
        <> (a.total_before, a.total_after, a.remaining_before, a.remaining_after)
"""
_MISCOUNTED: Final = """
    SELECT p.id FROM prizes AS p JOIN audited_totals AS a ON a.prize_id = p.id
    WHERE a.audit_id = (SELECT max(audit_id) FROM audited_totals WHERE prize_id = p.id) AND a.total <> p.total
"""
CHECKS: Final = (
    ("rewards have the state that the audit log says", "rewards", _MISSTATED),
    ("stock moves are those of the audit log", "audited_moves", _MISMOVED),
    ("totals of stock are those of the audit log", "prizes", _MISCOUNTED),
)
"""(text, table, statement that finds exceptions)"""


def logged_audit(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that the log has of an audit entry. ValueError if its line says something else."""
    facts = {"id": entry["id"], "action": entry["action"]}
    if "line" in entry:
        names = ("subject_type", "subject_id", "before", "after", "trace_id", "merchant_id")
        is_same = same_but_persons(json.loads(entry["line"]), [entry[name] for name in names], {})
        facts["row"] = hashlib.sha256(entry["line"].encode()).hexdigest() if is_same else ""
    return facts


def read_audit(database: sqlite3.Connection, entry: Mapping[str, Any], at: int, logged_at: int | None) -> None:
    """What an audit entry says about rewards and stock."""
    about, after, subject = entry["id"], entry["after"] or {}, entry["subject_id"]
    database.execute("INSERT INTO audits VALUES (?, ?, ?, ?)", (about, at, logged_at, "line" in entry))
    if entry["action"] == "player.merge_surplus":
        for reward_id in after["rewards"]:
            database.execute("INSERT INTO changes VALUES (?, ?, 'revoked')", (about, reward_id))
    if entry["subject_type"] == "reward" and "status" in after:
        database.execute("INSERT INTO changes VALUES (?, ?, ?)", (about, subject, after["status"]))
    if entry["action"] == "prize.move_stock":
        names = ("total_before", "total_after", "remaining_before", "remaining_after")
        facts = (subject, int(after["id"]), *(after[name] for name in names))
        database.execute("INSERT INTO audited_moves VALUES (?, ?, ?, ?, ?, ?)", facts)
        database.execute("INSERT INTO audited_totals VALUES (?, ?, ?)", (subject, about, after["total_after"]))
    elif entry["subject_type"] == "prize" and "total" in after:
        database.execute("INSERT INTO audited_totals VALUES (?, ?, ?)", (subject, about, after["total"]))
