"""Compares the states in a dossier with its audit entries: games, boards, prizes and their stock, and rewards."""

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
    CREATE TABLE stated (kind, id, facts);
    CREATE TABLE audited (id, audit_id, facts, is_whole);
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
_MISSTATED_TERMS: Final = """
    SELECT id FROM stated AS s
    WHERE kind = '{}' AND id IN (SELECT id FROM audited) AND NOT EXISTS (
        SELECT 1 FROM audited AS a WHERE a.id = s.id AND a.facts = s.facts AND a.audit_id >= (
            SELECT coalesce(max(audit_id) FILTER (WHERE is_whole), max(audit_id)) FROM audited WHERE id = s.id))
"""
"""Entries after the last one that the log has whole may be later than the line."""

UNAUDITED: Final = """
    SELECT id FROM stated WHERE id NOT IN (SELECT id FROM audited)
    UNION SELECT id FROM boards WHERE id NOT IN (SELECT board FROM closings)
"""
CHECKS: Final = (
    *(
        (f"{kind}s are those of the audit log", f"stated WHERE kind = '{kind}'", _MISSTATED_TERMS.format(kind))
        for kind in ("game", "board", "prize")
    ),
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


def read_line(database: sqlite3.Connection, kind: str, one: Mapping[str, Any]) -> None:
    """Stores the facts of a game, board or prize that the checks compare. kind: game, board or prize."""
    ((campaign_id,),) = database.execute("SELECT campaign FROM head")
    if kind == "prize":
        facts = [one["campaign_id"], sorted(one["limits"])]
    else:
        facts = _board(one) if kind == "board" else _game(one["milestones"], is_own=one["scope"] == campaign_id)
    database.execute("INSERT INTO stated VALUES (?, ?, ?)", (kind, one["id"], json.dumps(facts)))


def _audited(kind: str, after: Mapping[str, Any]) -> list[Any] | None:
    """The same facts from an audit entry, in the same shape. kind: game, leaderboard or prize. None: it states none."""
    match kind, after:
        case "game", {"definition": {"wallet_scope": scope, "milestones": milestones}}:
            return _game(milestones, is_own=scope not in ("merchant", "tenant"))
        case "leaderboard", {"metric": _}:
            return _board(after)
        case "prize", {"channel": channel}:
            limits = [name for name in ("max_per_user", "max_per_day", "release") if after[name]]
            limits += ["status"] * (after["status"] != "active") + ["codes"] * (channel == "voucher_code")
            return [after["campaign_id"], sorted(limits)]
    return None


def _game(block: Mapping[str, Any] | None, *, is_own: bool) -> list[Any]:
    if not block or not block.get("rungs"):
        return [is_own]
    rungs = [[rung[name] for name in ("id", "currency", "threshold", "prize_id")] for rung in block["rungs"]]
    return [is_own, rungs, str(block["mode"]).lower().endswith("spend_exchange"), bool(block["auto_grant"])]


def _board(board: Mapping[str, Any]) -> list[Any]:
    facts = [board[name].rpartition("_")[2].lower() for name in ("metric", "mode")]
    facts += [board[name] for name in ("game_id", "start_date", "end_date")]
    return [*facts, [[one[name] for name in ("from_rank", "to_rank", "prize_id")] for one in board["prizes"]]]


def read_audit(database: sqlite3.Connection, entry: Mapping[str, Any], at: int, logged_at: int | None) -> None:
    """What an audit entry says about games, boards, prizes, stock and rewards."""
    about, after, subject = entry["id"], entry["after"] or {}, entry["subject_id"]
    database.execute("INSERT INTO audits VALUES (?, ?, ?, ?)", (about, at, logged_at, "line" in entry))
    if (audited := _audited(entry["subject_type"], after)) is not None:
        is_whole = logged_at is not None and "line" in entry
        database.execute("INSERT INTO audited VALUES (?, ?, ?, ?)", (subject, about, json.dumps(audited), is_whole))
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
