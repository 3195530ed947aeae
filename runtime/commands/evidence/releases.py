"""Checks when units of prizes were free: for plays that won them, and for plays that drew them and did not get them.

A prize's `release` frees units over time. The terms of a play have its commitment, and the opening in the dossier shows
the schedule (runtime/rules/release.py). Stock and awards in the file show how many units were left at a time.

The tables are in the database of the check (dossier.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.commands.evidence.awards import Problem
from runtime.commands.evidence.findings import read_object
from runtime.rules.release import SEALED, TIMES, Schedule, commitment, schedule

TABLES: Final = """
    CREATE TABLE releases (revision, prize_id, hash);
    CREATE TABLE openings (hash PRIMARY KEY, text);
    CREATE TABLE retaken (reward_id);
    CREATE TABLE denied (play_id, prize_id, quantity);
    CREATE TABLE asks (id INTEGER PRIMARY KEY, play_id, prize_id, quantity, is_won, low, high, hash);
    CREATE TABLE sums (ask INTEGER PRIMARY KEY, taken, kept);
    CREATE TABLE periods (prize_id, total, since, until);
    CREATE TABLE facts (prize_id PRIMARY KEY, least, limits, is_known);
    CREATE INDEX releases_revision ON releases (revision, prize_id);
    CREATE INDEX periods_prize ON periods (prize_id);
    CREATE VIEW units AS
        SELECT prize_id, quantity, play_id, coalesce(logged_at, at * 1000000) AS low,
               coalesce(logged_at, at * 1000000 + 999999) + 10000000 * (play_id = '') AS high,
               status NOT IN ('revoked', 'expired', 'failed') AS is_held,
               status NOT IN ('revoked', 'expired', 'failed') AND id NOT IN (SELECT reward_id FROM retaken) AS is_kept
        FROM rewards WHERE type <> 'points'
        UNION ALL
        SELECT w.prize_id, w.quantity, p.id, p.micro, p.micro + 999999 * (p.logged_at IS NULL), true, true
        FROM won AS w JOIN plays AS p ON p.id = w.play_id
        WHERE w.reward_id = '' AND w.prize_id <> '' AND w.type <> 'points';
"""
"""denied: what plays drew and did not get. retaken: rewards that took their unit again after they had returned it.
units: low and high are the microseconds between which a unit was taken: its row's time, or second if the log lacks it.
Other transactions than plays may take units seconds after their rows' time. is_held: the reward has its unit;
is_kept: it never returned it.
asks: what plays won of prizes with a release, and what they were denied; hash: the commitment of the prize's release.
sums, by ask: the units that may have been taken at its time, and those of others that were taken and kept."""

_ASK: Final = """
    INSERT INTO asks (play_id, prize_id, quantity, is_won, low, high, hash)
    SELECT a.play_id, a.prize_id, a.quantity, a.is_won, p.micro, p.micro + 999999 * (p.logged_at IS NULL), e.hash
    FROM (
        SELECT play_id, prize_id, quantity, false AS is_won FROM denied
        UNION ALL
        SELECT play_id, prize_id, sum(quantity), true FROM won WHERE type <> 'points' GROUP BY play_id, prize_id
    ) AS a
    JOIN plays AS p ON p.id = a.play_id
    LEFT JOIN releases AS e ON e.revision = p.revision AND e.prize_id = a.prize_id
    WHERE e.hash IS NOT NULL OR NOT a.is_won
"""
_COUNT: Final = """
    INSERT INTO sums
    WITH events AS (
        SELECT prize_id, low AS at, quantity, 0 AS kept, NULL AS ask FROM units
        UNION ALL SELECT prize_id, high, 0, quantity, NULL FROM units WHERE is_kept
        UNION ALL SELECT prize_id, high, 0, 0, id FROM asks
        UNION ALL SELECT prize_id, low, 0, 0, -id FROM asks
    ),
    summed AS (
        SELECT ask, sum(quantity) OVER earlier AS taken, sum(kept) OVER earlier AS kept
        FROM events WINDOW earlier AS (PARTITION BY prize_id ORDER BY at)
    ),
    both AS (
        SELECT abs(ask) AS id, sum(taken * (ask > 0)) AS taken, sum(kept * (ask < 0)) AS kept
        FROM summed WHERE ask IS NOT NULL GROUP BY abs(ask)
    ),
    own AS (
        SELECT p.id AS play_id, u.prize_id, sum(u.quantity) AS units
        FROM units AS u JOIN plays AS p ON p.id = u.play_id WHERE u.is_kept AND u.high <= p.micro GROUP BY 1, 2
    )
    SELECT a.id, b.taken, b.kept - coalesce(o.units, 0)
    FROM both AS b JOIN asks AS a ON a.id = b.id
    LEFT JOIN own AS o ON o.play_id = a.play_id AND o.prize_id = a.prize_id
"""
_PERIODS: Final = """
    INSERT INTO periods
    SELECT prize_id, coalesce(nullif(total, 0), 1e300), lag(until, 1, 0) OVER moves, until
    FROM totals WINDOW moves AS (PARTITION BY prize_id ORDER BY until)
"""
_FACTS: Final = """
    INSERT INTO facts
    WITH counted AS (SELECT prize_id, sum(quantity) AS units FROM units WHERE is_held GROUP BY prize_id)
    SELECT z.id, (SELECT min(total) FROM periods WHERE prize_id = z.id), z.limits,
           z.campaign = h.campaign AND z.id NOT IN (SELECT id FROM changed) AND z.awarded <= coalesce(k.units, 0)
    FROM head AS h JOIN prizes AS z LEFT JOIN counted AS k ON k.prize_id = z.id
"""
"""is_known: no other campaign and no change of the prize can have denied it."""

_FATES: Final = """
    WITH known AS (
        SELECT a.*, s.taken, s.kept, f.least,
               f.is_known AND f.limits = iif(a.hash IS NULL, '', 'release') AS is_known,
               (SELECT max(total) FROM periods AS t WHERE t.prize_id = a.prize_id
                    AND t.until >= a.low / 1000000 - 1 AND t.since <= a.high / 1000000 + 1) AS most
        FROM asks AS a JOIN sums AS s ON s.ask = a.id LEFT JOIN facts AS f ON f.prize_id = a.prize_id
        WHERE a.is_won = ?
    )
    SELECT play_id, CASE
        WHEN is_won THEN kept + quantity > most - held_back(hash, high + 1000000)
        WHEN is_known AND least - taken - held_back(hash, low - 10000000) >= quantity THEN true
        WHEN most - kept - coalesce(held_back(hash, high), 0) < quantity THEN false
        END
    FROM known
"""
"""Whether each answer was wrong; NULL: the file cannot decide. A win is wrong if its unit became free over a second
after its row's time. A denial is wrong if a unit had been free for ten seconds: plays decide before their row's time.
"""

_UNITS_MAX: Final = 10_000
_SECONDS_MAX: Final = 2 * 366 * 86_400
"""Of a schedule, as runtime/operations/prizes/release.py limits it: another opening could exhaust the memory."""


class Releases:
    """Reads the openings of a dossier, and compares its plays with them."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._schedules: dict[str, Schedule] = {}
        database.create_function("held_back", 2, self._held_back)

    def read_terms(self, revision: str, terms: Mapping[str, Any]) -> None:
        """The commitments of terms."""
        for prize_id, promised in (terms.get("releases") or {}).items():
            self._database.execute("INSERT INTO releases VALUES (?, ?, ?)", (revision, prize_id, promised))

    def read_opening(self, text: str) -> None:
        """A line about an opening."""
        self._database.execute("INSERT INTO openings VALUES (?, ?)", (commitment(text), text))

    def read_denied(self, play_id: str, stored: Mapping[str, Any]) -> None:
        """What a play drew and did not get."""
        for step in stored["decided"]["path"]:
            match step:  # Other steps have the form that their plugin chose.
                case ["available", str() as prize_id, int() as quantity, False]:
                    self._database.execute("INSERT INTO denied VALUES (?, ?, ?)", (play_id, prize_id, quantity))

    def read_audit(self, entry: Mapping[str, Any]) -> None:
        """A reward that took its unit again."""
        if entry["action"] == "reward.retake":
            self._database.execute("INSERT INTO retaken VALUES (?)", (entry["subject_id"],))

    def problems(self) -> Iterator[Problem]:
        """The findings about openings, and about the prizes that plays won or did not get."""
        opened = self._database.execute("SELECT text, hash FROM openings").fetchall()
        wrong = [name for text, hashed in opened if (name := self._open(text, hashed))]
        yield Problem("openings are those that the terms promise", "openings", wrong)
        promised = self._database.execute("SELECT DISTINCT prize_id, hash FROM releases ORDER BY prize_id").fetchall()
        if unopened := [prize_id for prize_id, hashed in promised if hashed not in self._schedules]:
            text = "release schedules are opened in the file: the others end later, or an earlier version wrote it"
            yield Problem(text, "(SELECT DISTINCT hash FROM releases)", unopened, is_open=True)
        for statement in (_ASK, _COUNT, _PERIODS, _FACTS):
            self._database.execute(statement)
        names = self._by_fate(is_won=True)
        yield Problem("prizes were won after their release had freed a unit", "asks WHERE is_won", names[True])
        names = self._by_fate(is_won=False)
        yield Problem("plays got the prizes that had a free unit", "plays", names[True])
        if names[None]:
            text = "plays got the prizes that they drew: these may have been unavailable, as the operator states"
            yield Problem(text, "plays", names[None], is_open=True)

    def _by_fate(self, *, is_won: bool) -> dict[bool | None, list[str]]:
        """The plays with a wrong answer (True), and those whose answer the file cannot decide (None)."""
        found: dict[bool | None, dict[str, None]] = {True: {}, None: {}}
        for play_id, is_wrong in self._database.execute(_FATES, (is_won,)):
            if is_wrong != 0:
                found[None if is_wrong is None else True][play_id] = None
        return {True: [*found[True]], None: [name for name in found[None] if name not in found[True]]}

    def _open(self, text: str, hashed: str) -> str:
        """Keeps the schedule of an opening. Returns "", or the prize of an opening that is not as promised."""
        found = read_object(text, "the opening of a release")
        prizes = {
            prize for (prize,) in self._database.execute("SELECT prize_id FROM releases WHERE hash = ?", (hashed,))
        }
        try:
            if prizes == {found["prize_id"]}:
                self._schedules[hashed] = _schedule(found["release"], bytes.fromhex(found["seed"]))
                return ""
        except (LookupError, TypeError, ValueError, ArithmeticError, OSError):
            pass  # The operator committed to something that is no schedule.
        return str(found.get("prize_id"))

    def _held_back(self, hashed: str | None, micro: int) -> int | None:
        """The units that became free after this time; None: their release is not opened."""
        if hashed is None:
            return 0
        found = self._schedules.get(hashed)
        return None if found is None else found.held_back(micro / 1_000_000)


def _schedule(terms: Mapping[str, Any], seed: bytes) -> Schedule:
    """The schedule of an opening. Raises an error of _open if it is none."""
    is_small = terms["kind"] == TIMES or 0 < terms["ends_at"] - terms["starts_at"] <= _SECONDS_MAX
    if not is_small or (terms["kind"] == SEALED and not 0 < terms["units"] <= _UNITS_MAX):
        raise ValueError("the schedule is too long")
    found = schedule(terms, seed)
    found.held_back(0)
    return found
