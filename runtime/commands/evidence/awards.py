"""Recomputes the milestones and the leaderboards of a dossier, from its plays, movements and audit entries.

The tables are in the database of the check (dossier.py), which has those of plays, rewards and winners.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

TABLES: Final = """
    CREATE TABLE games (id PRIMARY KEY, scope);
    CREATE TABLE rungs (game, id, currency, threshold, prize_id, spends, is_auto, is_current);
    CREATE TABLE changed (id);
    CREATE TABLE ledger (
        id, player, scope, currency, seq, amount, balance_after, reason, reference, reward_id, at, logged_at);
    CREATE TABLE unfounded (id, is_open);
    CREATE TABLE credits (play_id, currency, amount);
    CREATE TABLE granted (play_id, game, milestone, prize_id, reward_id);
    CREATE TABLE boards (id PRIMARY KEY, game, metric, mode, starts, ends, closed);
    CREATE TABLE board_prizes (board, first, last, prize_id);
    CREATE TABLE closings (board, at);
    CREATE TABLE corrections (board, player, delta, at);
    CREATE TABLE disqualified (board, player);
    CREATE TABLE scores (board, is_early, player, score, reached);
    CREATE INDEX rungs_game ON rungs (game, id);
    CREATE INDEX ledger_wallet ON ledger (player, scope, currency, seq);
    CREATE INDEX ledger_reference ON ledger (reference);
    CREATE INDEX ledger_reward ON ledger (reward_id);
    CREATE INDEX granted_reward ON granted (reward_id);
    CREATE INDEX scores_board ON scores (board, player);
    CREATE VIEW movements AS
        SELECT *, min(at) OVER (PARTITION BY player, scope, currency ORDER BY seq DESC, id DESC) AS before FROM ledger;
    CREATE VIEW adjustments AS SELECT id, before AS at, logged_at FROM movements WHERE reason = 'adjustment';
    CREATE VIEW strangers AS SELECT * FROM winners WHERE player NOT IN (SELECT player FROM plays);
    CREATE VIEW free AS
        WITH
            least AS (SELECT prize_id, min(nullif(total, 0)) AS total FROM totals GROUP BY prize_id),
            counted AS (
                SELECT prize_id, sum(quantity) AS units,
                       sum(quantity * (status NOT IN ('revoked', 'expired', 'failed'))) AS held
                FROM taken GROUP BY prize_id)
        SELECT z.id, coalesce(t.total, 1e300) - coalesce(k.units, 0) AS units
        FROM head AS h JOIN prizes AS z ON z.campaign = h.campaign
        JOIN least AS t ON t.prize_id = z.id LEFT JOIN counted AS k ON k.prize_id = z.id
        WHERE z.limits = '' AND z.awarded <= coalesce(k.held, 0) AND z.id NOT IN (SELECT id FROM changed);
"""

"""free: the units of a prize that were free all the time; no row if a limit, change or other campaign can deny them."""
"""strangers: ranks of guests that were merged since: their plays are those of another player. Or of players who have
corrections or tickets only."""
"""before: a time by which the movement existed: the earliest of it and the later movements of its balance."""

_POINTS: Final = "points"

_UNCREDITED: Final = """
    SELECT DISTINCT play_id FROM (
        SELECT play_id, currency, amount FROM credits
        UNION ALL
        SELECT p.id, l.currency, -l.amount FROM ledger AS l JOIN plays AS p ON p.id = l.reference
        WHERE l.reason = 'play_reward' AND l.reward_id = ''
    ) GROUP BY play_id, currency HAVING sum(amount) <> 0
"""
_BROKEN_BALANCES: Final = """
    SELECT id FROM (
        SELECT *, lag(balance_after, 1, 0) OVER (PARTITION BY player, scope, currency ORDER BY seq, id) AS before
        FROM ledger
    ) WHERE before + amount <> balance_after
"""
_FIND_UNFOUNDED: Final = """
    INSERT INTO unfounded
    SELECT id, is_founded IS NULL OR scope <> (SELECT campaign FROM head)
            OR before >= coalesce(?, (SELECT max(at) - 60 FROM plays), 0)
    FROM (
        SELECT l.*, CASE
            WHEN l.reason = 'milestone_spend' THEN r.id IS NOT NULL AND l.amount < 0
            WHEN l.reason = 'play_reward' AND l.reward_id = '' THEN p.player IS l.player
            WHEN l.reason = 'play_reward' THEN (r.type, l.currency) IS ('points', 'points')
                AND CAST(r.value AS integer) * r.quantity = (
                    SELECT sum(amount) FROM ledger AS o WHERE o.reward_id = l.reward_id AND o.reason = 'play_reward')
            WHEN l.reason = 'reversal' AND l.reward_id <> '' THEN EXISTS (
                SELECT 1 FROM ledger AS o WHERE o.reward_id = l.reward_id
                  AND (o.player, o.scope, o.currency) = (l.player, l.scope, l.currency)
                GROUP BY o.reward_id
                HAVING sum(o.amount) BETWEEN min(0, sum(o.amount * (o.reason <> 'reversal')))
                    AND max(0, sum(o.amount * (o.reason <> 'reversal'))))
            WHEN l.reason = 'adjustment' AND l.logged_at IS NOT NULL THEN true END AS is_founded
        FROM movements AS l
        LEFT JOIN rewards AS r ON r.id = l.reward_id LEFT JOIN plays AS p ON p.id = l.reference
    )
    WHERE is_founded IS NOT true
"""
"""Movements that follow from no play, reward or logged adjustment of the file. A reversal takes back what its reward
moved, or less. ?: rows from before this time are in the log. is_open: of another reason, another campaign, or later."""

_UNGRANTED: Final = """
    SELECT g.play_id FROM granted AS g LEFT JOIN rewards AS r ON r.id = g.reward_id
    WHERE r.id IS NULL
       OR (r.play_id, r.game, r.milestone_id, r.prize_id) <> (g.play_id, g.game, g.milestone, g.prize_id)
"""
_UNREACHED: Final = """
    SELECT r.id FROM rewards AS r LEFT JOIN games AS o ON o.id = r.game
    WHERE r.milestone_id <> '' AND r.status <> 'revoked' AND (r.logged_at IS NOT NULL OR ? IS NULL) AND (
        (r.play_id <> '' AND NOT EXISTS (SELECT 1 FROM granted AS g WHERE g.reward_id = r.id))
        OR o.id IS NULL
        OR (o.scope <> '' AND NOT EXISTS (
            SELECT 1 FROM rungs AS g
            JOIN ledger AS l ON l.player = r.player AND l.scope = o.scope AND l.currency = g.currency
            WHERE g.game = r.game AND g.id = r.milestone_id AND g.prize_id = r.prize_id AND r.quantity = 1
              AND CASE WHEN g.spends THEN l.reward_id = r.id AND l.amount = -g.threshold
                       ELSE l.balance_after >= g.threshold AND l.at <= r.at END)))
"""
"""A rung counts as the game has it now, or had it by an audit entry. A merged guest's surplus is revoked."""

_REACHED: Final = """
    SELECT 'rung ' || g.id || ' of ' || l.player FROM rungs AS g
    JOIN games AS o ON o.id = g.game AND o.scope <> ''
    JOIN ledger AS l ON l.scope = o.scope AND l.currency = g.currency AND l.balance_after >= g.threshold
    LEFT JOIN plays AS p ON g.is_auto AND p.id = l.reference AND p.game = g.game AND l.reason = 'play_reward'
    LEFT JOIN free AS f ON f.id = g.prize_id
    WHERE g.is_current AND NOT EXISTS (
        SELECT 1 FROM rewards AS r
        WHERE r.milestone_id <> '' AND r.milestone_id = g.id AND r.player = l.player AND r.game = g.game)
    GROUP BY g.game, g.id, l.player
    HAVING CASE
        WHEN max(p.id) IS NULL THEN 'redeemed'
        WHEN max(f.units) >= 1 AND g.game NOT IN (SELECT id FROM changed) THEN 'withheld'
        ELSE 'unavailable' END = ?
"""
"""Milestones reached and not granted: units were free all the time; the prize may have been unavailable; the player has
to redeem it."""
_UNGIVEN: Final = {
    "unavailable": "their prizes may have been unavailable, as the operator states",
    "redeemed": "the others have not redeemed them",
}
_CLOSE: Final = "UPDATE boards SET closed = coalesce((SELECT min(at) FROM closings WHERE board = id), closed)"

_SCORES: Final = """
    INSERT INTO scores
    WITH counted AS (
        SELECT p.id, p.player, p.micro, CASE b.metric
            WHEN 'score' THEN p.score WHEN 'wins' THEN p.wins WHEN 'points' THEN p.points ELSE 1 END AS value
        FROM boards AS b JOIN plays AS p ON b.game IN ('', p.game)
        WHERE b.id = ?1 AND p.micro < b.closed + ?2 AND p.at >= b.starts AND (b.ends = 0 OR p.at < b.ends)
    ),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY player ORDER BY value DESC, micro) AS best,
               row_number() OVER (PARTITION BY player ORDER BY micro DESC, id DESC) AS latest
        FROM counted
    ),
    reduced AS (
        SELECT player, CASE (SELECT mode FROM boards WHERE id = ?1)
                   WHEN 'sum' THEN sum(value) WHEN 'best' THEN max(value)
                   ELSE max(value) FILTER (WHERE latest = 1) END AS value,
               CASE (SELECT mode FROM boards WHERE id = ?1)
                   WHEN 'sum' THEN coalesce(max(micro) FILTER (WHERE value <> 0), min(micro))
                   WHEN 'best' THEN max(micro) FILTER (WHERE best = 1)
                   ELSE max(micro) END AS reached
        FROM ranked GROUP BY player
    ),
    corrected AS (
        SELECT player, sum(delta) AS delta, max(at) AS at FROM corrections WHERE board = ?1 GROUP BY player
    )
    SELECT ?1, ?2 < 0, player, sum(value), max(reached) FROM (
        SELECT player, value, reached FROM reduced UNION ALL SELECT player, delta, at FROM corrected
    )
    WHERE player NOT IN (SELECT player FROM disqualified WHERE board = ?1)
    GROUP BY player
"""
"""As sql/leaderboards.sql defines a score (`scores`)."""

_UNCERTAIN_MICROSECONDS: Final = 10_000_000
"""Plays within this time before or after a board was closed may count or not."""

_MISRANKED: Final = """
    WITH stated AS (
        SELECT w.rank, w.player, w.score, w.prize_id, early.score AS least, late.score AS most, late.reached,
               early.score IS late.score AND early.reached IS late.reached AS is_certain,
               row_number() OVER (ORDER BY w.rank) AS nth,
               w.player IN (SELECT player FROM strangers) AND w.score IS NOT late.score AS is_stranger,
               (SELECT mode = 'latest' FROM boards WHERE id = ?1) AS is_latest
        FROM winners AS w
        LEFT JOIN scores AS early ON early.board = ?1 AND early.is_early AND early.player = w.player
        LEFT JOIN scores AS late ON late.board = ?1 AND NOT late.is_early AND late.player = w.player
        WHERE w.contest = ?1
    ),
    judged AS (
        SELECT w.rank, (
                (w.most IS NULL AND NOT w.is_stranger) OR w.rank <> w.nth OR n.score > w.score
                OR (w.score > w.most AND NOT w.is_latest AND NOT w.is_stranger)
                OR w.prize_id <> CASE WHEN w.score <= 0 THEN '' ELSE coalesce((
                    SELECT prize_id FROM board_prizes WHERE board = ?1 AND w.rank BETWEEN first AND last), '') END
            ) IS true AS is_wrong, (
                w.is_stranger
                OR (n.score = w.score AND w.is_certain AND n.is_certain AND n.reached < w.reached)
                OR CASE WHEN w.is_latest THEN w.is_certain AND w.score <> w.most
                        ELSE w.score < coalesce(w.least, w.most) END
            ) IS true AS is_unshown
        FROM stated AS w LEFT JOIN stated AS n ON n.nth = w.nth + 1
    )
    SELECT 'rank ' || rank, is_wrong OR NOT EXISTS (SELECT 1 FROM stated WHERE is_stranger)
    FROM judged WHERE is_wrong OR is_unshown
    UNION ALL
    SELECT 'a missing rank', true FROM scores
    WHERE board = ?1 AND is_early AND player NOT IN (SELECT player FROM winners WHERE contest = ?1)
"""
"""Wrong ranks, and whether the file shows that. If a guest was merged into a ranked player, the guest's plays count for
this player. Then the file cannot show the guest's own rank, a score that is too low (or a latest one), or the order of
equal scores."""


class Problem(NamedTuple):
    """A check of a table's rows. names: the rows that fail it. is_open: the file cannot decide them."""

    text: str
    table: str
    names: list[str]
    is_open: bool = False


def read_game(database: sqlite3.Connection, game: Mapping[str, Any]) -> None:
    """A game line."""
    database.execute("INSERT INTO games VALUES (?, ?)", (game["id"], game["scope"]))
    _rungs(database, game["id"], game["milestones"], is_current=True)


def _rungs(
    database: sqlite3.Connection, game_id: str, block: Mapping[str, Any] | None, *, is_current: bool = False
) -> None:
    if not block:
        return
    spends = str(block["mode"]).lower().endswith("spend_exchange")
    for rung in block.get("rungs", ()):
        facts = [rung[name] for name in ("id", "currency", "threshold", "prize_id")]
        facts += [spends, bool(block["auto_grant"]), is_current]
        database.execute("INSERT INTO rungs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (game_id, *facts))


def read_ledger(database: sqlite3.Connection, one: Mapping[str, Any], logged_at: int | None) -> None:
    """A line about a movement. logged_at: of an adjustment."""
    names = ("id", "player", "scope_key", "currency", "seq", "amount", "balance_after", "reason", "reference_id")
    facts = (*(one[name] for name in names), one["reward_id"], seconds(one["created_at"]), logged_at)
    database.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", facts)


def read_board(database: sqlite3.Connection, board: Mapping[str, Any]) -> None:
    """A leaderboard line."""
    kind = [board[name].rpartition("_")[2].lower() for name in ("metric", "mode")]
    closed = board.get("finalized_at", board.get("updated_at"))  # Earlier files have the latter.
    times = (board["start_date"], board["end_date"], closed * 1_000_000)
    database.execute("INSERT INTO boards VALUES (?, ?, ?, ?, ?, ?, ?)", (board["id"], board["game_id"], *kind, *times))
    for prize in board["prizes"]:
        ranks = [prize[name] for name in ("from_rank", "to_rank", "prize_id")]
        database.execute("INSERT INTO board_prizes VALUES (?, ?, ?, ?)", (board["id"], *ranks))


def read_outcome(
    database: sqlite3.Connection, play: Mapping[str, Any], stored: Mapping[str, Any]
) -> tuple[int, int, int]:
    """A play's credits and grants. Returns its score, wins and points, as leaderboards count them."""
    points = 0
    for won in stored["rewards"]:
        is_item = won["prize_id"] == ""  # A prize may have the type "item" too.
        amount = won["quantity"] if is_item else int(won["value"]) * won["quantity"]
        currency = won["name"] if is_item else _POINTS
        if (is_item or won["type"] == _POINTS) and amount:
            database.execute("INSERT INTO credits VALUES (?, ?, ?)", (play["id"], currency, amount))
            points += amount if currency == _POINTS else 0
    for one in stored["milestones_granted"]:
        facts = (play["id"], play["game_id"], one["id"], one["prize_id"], one["reward_id"])
        database.execute("INSERT INTO granted VALUES (?, ?, ?, ?, ?)", facts)
    return stored["decided"]["score"], len(stored["rewards"]), points


def read_audit(database: sqlite3.Connection, entry: Mapping[str, Any], micro: int) -> None:
    """What an audit entry says about rungs and boards. micro: its time."""
    subject, before, after = entry["subject_id"], entry["before"], entry["after"] or {}
    if entry["subject_type"] == "game":
        blocks = [(side.get("definition") or {}).get("milestones") for side in (before or {}, after)]
        if before is not None and blocks[0] != blocks[1]:
            database.execute("INSERT INTO changed VALUES (?)", (subject,))
        for block in blocks:
            _rungs(database, subject, block)
    elif entry["subject_type"] == "prize" and before is not None and entry["action"] != "prize.move_stock":
        database.execute("INSERT INTO changed VALUES (?)", (subject,))
    elif entry["action"] == "leaderboard.adjust":
        database.execute(
            "INSERT INTO corrections VALUES (?, ?, ?, ?)", (subject, after["player_id"], after["delta"], micro)
        )
    elif entry["action"] == "leaderboard.finalize":
        database.execute("INSERT INTO closings VALUES (?, ?)", (subject, micro))
    elif entry["action"] == "leaderboard.disqualify":
        database.execute("INSERT INTO disqualified VALUES (?, ?)", (subject, after["player_id"]))


def problems(database: sqlite3.Connection, until: float | None) -> Iterator[Problem]:
    """The findings about balances, milestones and leaderboards. until: rows from before this time are in the log; None:
    there is no log.
    """

    def names(query: str, *values: object) -> list[str]:
        return [str(name) for (name,) in database.execute(query, values)]

    # Keeps the credits of games whose movements are in the file.
    database.execute("""DELETE FROM credits WHERE play_id IN (
        SELECT p.id FROM plays AS p JOIN games AS g ON g.id = p.game WHERE g.scope = '')""")
    yield Problem("movements of balances continue each other", "ledger", names(_BROKEN_BALANCES))
    yield Problem("plays credited what they won", "plays", names(_UNCREDITED))
    database.execute(_FIND_UNFOUNDED, (until,))
    wrong = names("SELECT id FROM unfounded WHERE NOT is_open")
    yield Problem("movements are of plays and rewards in the file", "ledger", wrong)
    yield Problem("milestones that plays granted have their reward", "granted", names(_UNGRANTED))
    text = "rewards of milestones follow from the balances, or from the plays that granted them"
    yield Problem(text, "rewards WHERE milestone_id <> ''", names(_UNREACHED, until))
    text = "milestones that plays reached were granted if a unit was free"
    yield Problem(text, "granted", names(_REACHED, "withheld"))
    for fate, why in _UNGIVEN.items():
        if found := names(_REACHED, fate):
            yield Problem(f"milestones were granted to all who reached them: {why}", "granted", found, is_open=True)
    database.execute(_CLOSE)
    for board in names("SELECT id FROM boards ORDER BY id"):
        for slack in (-_UNCERTAIN_MICROSECONDS, _UNCERTAIN_MICROSECONDS):
            database.execute(_SCORES, (board, slack))
        table = "winners WHERE contest IN (SELECT id FROM boards)"
        judged = database.execute(_MISRANKED, (board,)).fetchall()
        text = f"ranks of {board} follow from the plays"
        yield Problem(text, table, [name for name, is_wrong in judged if is_wrong])
        if unshown := [name for name, is_wrong in judged if not is_wrong]:
            yield Problem(f"{text}: those of merged guests count for their players", table, unshown, is_open=True)


def seconds(iso: str) -> int:
    """The time of an export's row."""
    return int(datetime.fromisoformat(iso).timestamp())
