"""Checks the dossier of a campaign, without the service: `tombola verify FILE`.

runtime/commands/dossiers.py describes the file. What its lines say goes into a temporary database, so memory does not
grow with the campaign.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cryptography.x509 import Certificate

from runtime import web
from runtime.commands.dossiers import FORMAT, VERIFIERS
from runtime.commands.evidence import awards, draw_lines, draws, ranks, receipts, releases, states
from runtime.commands.evidence.findings import Finding, read_object
from runtime.commands.evidence.log_of_file import ENTRY, LogOfFile
from runtime.commands.groups.log.witness import State
from runtime.rules.log.notes import BadNote, VerifierKey

KIND: Final = "the dossier of a campaign"

NAMES: Final = {
    "plays": "plays",
    "rewards": "rewards",
    "draws": "draws",
    "audits": "audit entries",
    "adjustments": "adjustments",
}
"""Tables of the lines that have an entry in the log."""

_ONCE: Final = ("head", "checkpoint", "stamp", "mark")
"""Kinds of lines that a file has once. Those with an id are unique in their tables."""

_NAMED_MAX: Final = 5
"""Failures of one kind that are named."""

_TABLES: Final = """
    CREATE TABLE head (campaign);
    CREATE TABLE plays (id PRIMARY KEY, player, game, at, micro, score, wins, points, logged_at, revision);
    CREATE TABLE won (reward_id, play_id, prize_id, name, type, value, quantity, at);
    CREATE TABLE rewards (
        id PRIMARY KEY, player, play_id, milestone_id, prize_id, name, type, value, quantity, status, game, at,
        logged_at);
    CREATE TABLE draws (id PRIMARY KEY, at, logged_at);
    CREATE TABLE winners (reward_id, contest, rank, prize_id, holder, player, score, reason);
    CREATE TABLE prizes (id PRIMARY KEY, campaign, total, awarded, limits);
    CREATE TABLE moves (prize_id, seq, total_before, total_after, remaining_before, remaining_after, at);
    CREATE INDEX won_reward ON won (reward_id);
    CREATE INDEX winners_reward ON winners (reward_id);
    CREATE INDEX winners_contest ON winners (contest, rank);
    CREATE INDEX rewards_prize ON rewards (prize_id);
    CREATE INDEX rewards_milestone ON rewards (milestone_id, player) WHERE milestone_id <> '';
    CREATE VIEW taken AS
        SELECT prize_id, quantity, at, status FROM rewards WHERE type <> 'points'
        UNION ALL SELECT prize_id, quantity, at, 'won' FROM won
            WHERE reward_id = '' AND prize_id <> '' AND type <> 'points';
    CREATE VIEW totals AS
        SELECT prize_id, total_before AS total, at AS until FROM moves
        UNION ALL SELECT id, total, 1e300 FROM prizes;
"""

_UNLOGGED: Final = "SELECT id FROM {} WHERE logged_at IS NULL AND at < ?"
_UNREWARDED: Final = """
    SELECT w.play_id FROM won AS w LEFT JOIN rewards AS r ON r.id = w.reward_id
    WHERE w.reward_id <> '' AND (r.id IS NULL OR (r.play_id, r.prize_id, r.name, r.type, r.value, r.quantity)
        <> (w.play_id, w.prize_id, w.name, w.type, w.value, w.quantity))
"""
_UNFOUNDED: Final = """
    SELECT id FROM rewards AS r WHERE milestone_id = '' AND (logged_at IS NOT NULL OR ? IS NULL)
        AND NOT EXISTS (SELECT 1 FROM won AS w WHERE w.reward_id = r.id AND r.play_id = w.play_id)
        AND NOT EXISTS (SELECT 1 FROM winners AS n WHERE n.reward_id = r.id AND n.prize_id = r.prize_id)
"""
_MISGIVEN: Final = """
    SELECT r.id FROM rewards AS r JOIN plays AS p ON p.id = r.play_id
    WHERE r.player <> p.player AND r.status <> 'revoked'
    UNION ALL
    SELECT r.id FROM rewards AS r JOIN winners AS n ON n.reward_id = r.id
    WHERE r.player <> n.player AND r.status <> 'revoked' AND NOT (
        n.player IN (SELECT player FROM strangers)
        AND EXISTS (SELECT 1 FROM winners AS o WHERE o.contest = n.contest AND o.player = r.player))
"""
"""A merged guest keeps its surplus, which is revoked. If both had a rank, the guest keeps one, without its reward."""
_MOVED: Final = """
    rewards AS r JOIN strangers AS n ON n.reward_id = r.id
    WHERE r.player <> n.player AND r.status <> 'revoked'
        AND (n.contest NOT IN (SELECT id FROM boards) OR n.player IN (SELECT player FROM corrections))
        AND EXISTS (SELECT 1 FROM winners AS o WHERE o.contest = n.contest AND o.player = r.player)
"""
"""Rewards that another winner has. The rank's own player may have tickets or corrections without plays: not a merge."""

_BROKEN_MOVES: Final = """
    SELECT prize_id FROM (
        SELECT *, lag(total_after) OVER (PARTITION BY prize_id ORDER BY seq) AS previous FROM moves
    ) WHERE previous <> total_before OR remaining_after < 0 OR remaining_before < 0
    UNION ALL
    SELECT p.id FROM prizes AS p JOIN moves AS m ON m.prize_id = p.id
    WHERE m.seq = (SELECT max(seq) FROM moves AS o WHERE o.prize_id = p.id) AND m.total_after <> p.total
"""
_OVERDRAWN: Final = """
    SELECT DISTINCT t.prize_id FROM totals AS t
    WHERE t.total > 0 AND t.total < (
        SELECT sum(quantity) FROM taken AS k
        WHERE k.prize_id = t.prize_id AND k.at < t.until AND k.status NOT IN ('revoked', 'expired', 'failed'))
"""
"""The units taken until a total ended are at most that total. Returned units do not count, so it is a lower bound.
Points take no stock."""


def is_dossier(path: Path) -> bool:
    """Whether the file begins as a dossier."""
    with path.open("rb") as file:
        first = file.readline()
    return first.startswith(b'{"head":') and FORMAT.encode() in first


def verify(
    path: Path,
    *,
    key: VerifierKey | None = None,
    witness: State | None = None,
    trusted: Sequence[Certificate] = (),
) -> list[Finding]:
    """The findings. Raises ValueError.

    key: of the log, from a source other than the file's. witness: of the log. trusted: the root of the authority that
    stamps it.
    """
    with TemporaryDirectory() as folder, closing(sqlite3.connect("")) as database:
        database.executescript(_TABLES + awards.TABLES + states.TABLES + ranks.TABLES + releases.TABLES)
        try:
            return list(_Check(database, Path(folder), key, witness, trusted).findings(path))
        except BadNote as error:
            raise ValueError(str(error)) from None
        except (KeyError, TypeError, AttributeError, IndexError, sqlite3.Error) as error:
            raise ValueError(f"not {KIND}: {error!r}") from None


class _Check:
    """One pass over the file, then the comparison of what is in it."""

    def __init__(
        self,
        database: sqlite3.Connection,
        folder: Path,
        key: VerifierKey | None,
        witness: State | None,
        trusted: Sequence[Certificate],
    ) -> None:
        self.database = database
        self.folder = folder
        self.terms: dict[str, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.failed: list[str] = []
        self.failures = 0
        self.evidence: list[Path] = []
        self.closings: dict[str, list[tuple[dict[str, Any], int]]] = {}  # Draw -> its close in the log, and the time.
        self.verifiers: list[tuple[bool, bool]] = []  # Whether it has its hash, and is the program of this version.
        self.mislogged: dict[str, list[str]] = {kind.removesuffix("s"): [] for kind in NAMES}
        self.releases = releases.Releases(database)
        self.log = LogOfFile(folder / "leaves", key, witness, trusted)

    def findings(self, path: Path) -> Iterator[Finding]:
        digest, end = hashlib.sha256(), None
        with path.open("rb") as file:
            for line in file:
                if end is not None:
                    raise ValueError(f"not {KIND}: there are lines after the end")
                ((kind, value),) = read_object(line, KIND).items()
                if kind == "end":
                    end = value
                    continue
                digest.update(line)
                self.counts[kind] += 1
                if kind in _ONCE and self.counts[kind] > 1:
                    raise ValueError(f"not {KIND}: there are two lines: {kind}")
                if reader := getattr(self, f"_read_{kind}", None):
                    reader(value)
        lines = sum(self.counts.values())
        whole = end is not None and (end["lines"], end["sha256"]) == (lines, digest.hexdigest())
        yield Finding(f"the file has all of its {lines:,} lines", whole)
        if self.verifiers:
            claimed, current = (all(found) for found in zip(*self.verifiers, strict=True))
            text = "the programs in the file are those of this version"
            yield Finding(text if current else f"{text}: compare their hashes", (current or None) if claimed else False)
        until = yield from self._of_log()
        yield from self._of_plays()
        yield self._none("rewards are those of their plays", "won", _UNREWARDED)
        text = "rewards have a play, a milestone, or a rank of a draw or leaderboard"
        yield self._none(text, "rewards", _UNFOUNDED, until)
        yield self._none("rewards belong to the players of their plays and ranks", "rewards", _MISGIVEN)
        yield from self._of_draws()
        for problem in (
            *ranks.problems(self.database),
            *awards.problems(self.database, until),
            *self.releases.problems(),
        ):
            yield self._finding(problem.text, problem.table, problem.names, is_open=problem.is_open)
        for text, table, query in states.CHECKS:
            yield self._none(text, table, query)
        yield self._none("stock moves continue each other", "moves", _BROKEN_MOVES)
        yield self._none("prizes were never given beyond their stock", "prizes", _OVERDRAWN)
        yield from self._open()

    def _read_head(self, head: dict[str, Any]) -> None:
        self.database.execute("INSERT INTO head VALUES (?)", (head["campaign"]["id"],))

    def _read_verifier(self, one: dict[str, Any]) -> None:
        hashed = hashlib.sha256(one["text"].encode()).hexdigest()
        own = {name: hashlib.sha256(web.read(f"verifiers/{name}")).hexdigest() for name in VERIFIERS}
        self.verifiers.append((hashed == one["sha256"], own.get(one["name"]) == hashed))

    def _read_game(self, game: dict[str, Any]) -> None:
        awards.read_game(self.database, game)
        states.read_line(self.database, "game", game)

    def _read_ledger(self, one: dict[str, Any]) -> None:
        logged_at, own = None, {name: one[name] for name in ("id", "scope_key", "currency", "amount", "reference_id")}
        if one["reason"] == "adjustment":
            logged_at = self._logged(one, "adjustment", own, awards.seconds(one["created_at"]))
        awards.read_ledger(self.database, one, logged_at)

    def _read_board(self, board: dict[str, Any]) -> None:
        awards.read_board(self.database, board)
        states.read_line(self.database, "board", board)

    def _read_audit(self, entry: dict[str, Any]) -> None:
        micro = self._logged(entry, "audit", states.logged_audit(entry), awards.seconds(entry["created_at"]))
        states.read_audit(self.database, entry, awards.seconds(entry["created_at"]), micro)
        awards.read_audit(self.database, entry, micro or awards.seconds(entry["created_at"]) * 1_000_000)
        ranks.read_audit(self.database, entry)
        self.releases.read_audit(entry)
        if entry["action"] == "draw.close" and micro and "line" in entry:
            self.closings.setdefault(entry["subject_id"], []).append((entry["after"], micro))

    def _read_checkpoint(self, note: str) -> None:
        self.log.note = note

    def _read_stamp(self, value: dict[str, Any]) -> None:
        self.log.read_stamp(value)

    def _read_mark(self, entry: str) -> None:
        self.log.mark = entry

    def _read_leaves(self, tile: str) -> None:
        self.log.read_leaves(tile)

    def _logged(self, line: dict[str, Any], kind: str, own: dict[str, Any], at: int) -> int | None:
        """The time of the line's entry in the log, in microseconds; None without one. own: its facts by the line."""
        if "entry" not in line:
            return None
        if not self.log.has(line, at, {**own, "kind": kind}):
            self.mislogged[kind].append(str(own["id"]))
        return int(read_object(line["entry"], ENTRY)["at"])

    def _read_terms(self, text: str) -> None:
        revision = hashlib.sha256(text.encode()).hexdigest()
        self.terms[revision] = read_object(text, "terms")
        self.releases.read_terms(revision, self.terms[revision])

    def _read_opening(self, text: str) -> None:
        self.releases.read_opening(text)

    def _read_play(self, play: dict[str, Any]) -> None:
        stored = read_object(play["outcome"], "the outcome of a play")
        for won in stored["rewards"]:
            facts = (won["prize_id"], won["name"], won["type"], won["value"], won["quantity"], play["played_at"])
            self.database.execute(
                "INSERT INTO won VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (won["reward_id"], play["id"], *facts)
            )
        terms = self.terms.get(play["revision_hash"])
        named = {"play_id": play["id"], "revision_hash": play["revision_hash"]}
        findings = [Finding("the session is that of the play and the terms", receipts.names(play["session"], named))]
        score, wins, points = awards.read_outcome(self.database, play, stored)
        self.releases.read_denied(play["id"], stored)
        own = {name: play[name] for name in ("id", "game_id", "revision", "revision_hash", "seed")}
        own |= {"score": score, "wins": wins, "points": points}
        own["outcome"] = hashlib.sha256(play["outcome"].encode()).hexdigest()
        logged_at = self._logged(play, "play", own, play["played_at"])
        times = (play["played_at"], logged_at or play["played_at"] * 1_000_000)
        about = (play["id"], play["player"], play["game_id"], *times, score, wins, points, logged_at)
        self.database.execute(
            "INSERT INTO plays VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*about, play["revision_hash"])
        )
        if terms is None:
            findings.append(Finding("its terms are in the file", False))
        elif play["erased"]:
            findings.append(Finding("plays were erased with their players", None))
        else:
            findings.append(Finding("the terms are those of the game", terms["game_id"] == play["game_id"]))
            receipt = {
                "outcome": stored["decided"],
                "rewards": stored["rewards"],
                "payload": read_object(play["payload"], "the payload of a play"),
                "client_seed": play["client_seed"],
            }
            findings += receipts.decision(receipt, terms, bytes.fromhex(play["seed"]))
        for finding in findings:
            if finding.ok is None:
                self.opened[finding.text] += 1
            elif not finding.ok:
                self.failures += 1
                self.failed += [f"{play['id']}: {finding.text}"] * (len(self.failed) < _NAMED_MAX)

    def _read_reward(self, one: dict[str, Any]) -> None:
        names = ("id", "player", "play_id", "milestone_id", "prize_id", "prize", "type", "value", "quantity", "status")
        own = {name: one[name] for name in ("id", "prize_id", "game_id", "play_id", "milestone_id", "type", "quantity")}
        won_at = awards.seconds(one["won_at"])
        logged_at = self._logged(one, "reward", {**own, "name": one["prize"], "value": one["value"]}, won_at)
        facts = (*(one[name] for name in names), one["game_id"], won_at, logged_at)
        self.database.execute("INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", facts)

    def _read_winner(self, one: dict[str, Any]) -> None:
        names = ("reward_id", "of", "rank", "prize_id", "holder", "player", "score", "reason")
        self.database.execute("INSERT INTO winners VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [one[name] for name in names])

    def _read_prize(self, one: dict[str, Any]) -> None:
        facts = (one["stock"]["total"], one["stock"]["awarded"], " ".join(one["limits"]))
        self.database.execute("INSERT INTO prizes VALUES (?, ?, ?, ?, ?)", (one["id"], one["campaign_id"], *facts))
        states.read_line(self.database, "prize", one)

    def _read_stock_move(self, one: dict[str, Any]) -> None:
        names = ("prize_id", "total_before", "total_after", "remaining_before", "remaining_after", "created_at")
        prize_id, *facts = [one[name] for name in names]
        self.database.execute("INSERT INTO moves VALUES (?, ?, ?, ?, ?, ?, ?)", (prize_id, int(one["id"]), *facts))

    def _read_evidence(self, line: dict[str, Any]) -> None:
        """Collects the evidence file of each draw, and its result."""
        if "format" not in line and not self.evidence:
            raise ValueError(f"not {KIND}: the evidence of a draw has no first line")
        draw_lines.check(line, f"not {KIND}: evidence")
        if "format" in line:
            self.evidence.append(self.folder / f"{len(self.evidence)}.jsonl")
            self.draw = line
        with self.evidence[-1].open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if "result" not in line:
            return
        draw_id = self.draw["id"]
        ranks.read_result(self.database, self.draw, line["result"])
        own = {name: self.draw[name] for name in ("id", "campaign_id", "tickets_root", "ticket_count")}
        own |= {"value": line["value"], "result_hash": line["result_hash"]}
        logged_at = self._logged(line, "draw", own, line["drawn_at"])
        self.database.execute("INSERT INTO draws VALUES (?, ?, ?)", (draw_id, line["drawn_at"], logged_at))

    def _of_log(self) -> Generator[Finding, None, float | None]:
        """The findings, and the time before which every row is in the log; None: there is no log."""
        (newest,) = self.database.execute("SELECT max(logged_at) FROM plays").fetchone()
        until = yield from self.log.findings(newest)
        if until is None:
            return None
        for kind, name in NAMES.items():
            text = f"{name} are in the log, or later than its checkpoint"
            yield self._none(text, kind, _UNLOGGED.format(kind), until)
            if count := self._count(f"{kind} WHERE logged_at IS NULL"):
                text = f"{count:,} {name} are not in the log yet: write the dossier again to check them"
                yield Finding(text, None)
        for kind, wrong in self.mislogged.items():
            yield self._finding(f"{NAMES[kind + 's']} are those of the log", kind + "s", wrong)
        return until

    def _of_plays(self) -> Iterator[Finding]:
        total, text = self.counts["play"], "plays follow from their terms and seeds"
        checked = total - sum(self.opened.values())
        if self.failures:
            yield Finding(f"{text}; {self.failures:,} findings, such as {'; '.join(self.failed)}", False)
        else:
            yield Finding(f"{checked:,} {text}", True)
        for opened, count in self.opened.items():
            yield Finding(f"{count:,} of the plays: {opened}", None)

    def _of_draws(self) -> Iterator[Finding]:
        for path in self.evidence:
            head = json.loads(path.open().readline())
            draw, closings = f"draw {head['id']}", self.closings.get(head["id"], [])
            findings = draws.verify(path, head["tickets_root"] if closings else "")
            is_logged = all(draws.is_closing(head, *one) for one in closings)
            findings.append(Finding("the log has this close, before the value could be known", is_logged))
            wrong = [one.text for one in findings if one.ok is False]
            yield Finding(f"{draw} follows from its evidence" + "".join(f"; not: {one}" for one in wrong), not wrong)
            yield from (Finding(f"{draw}: {one.text}", None) for one in findings if one.ok is None)

    def _none(self, text: str, table: str, query: str, *values: object) -> Finding:
        """A finding about the rows of a table: the query finds no exception."""
        return self._finding(text, table, [str(name) for (name,) in self.database.execute(query, values)])

    def _finding(self, text: str, table: str, wrong: list[str], *, is_open: bool = False) -> Finding:
        if wrong:
            text = f"{text}; not {', '.join(wrong[:_NAMED_MAX])}, {len(wrong):,} in all"
            return Finding(text, None if is_open else False)
        return Finding(f"{self._count(table):,} {text}", True)

    def _count(self, rows: str) -> int:
        (count,) = self.database.execute(f"SELECT count(*) FROM {rows}").fetchone()
        return int(count)

    def _open(self) -> Iterator[Finding]:
        if count := self._count(
            "rewards AS r JOIN games AS g ON g.id = r.game AND g.scope = '' WHERE r.milestone_id <> ''"
        ):
            yield Finding(f"{count:,} rewards are of milestones without balances in the file", None)
        known = "SELECT contest FROM results UNION SELECT id FROM boards"
        if count := self._count(f"winners WHERE reward_id <> '' AND contest NOT IN ({known})"):
            yield Finding(f"{count:,} rewards are of draws without evidence in the file", None)
        if count := self._count(_MOVED):
            yield Finding(f"{count:,} rewards of ranks are those of other winners: a merge is not in the file", None)
        if count := self._count("audits WHERE logged_at IS NOT NULL AND NOT is_whole"):
            yield Finding(f"{count:,} audit entries: only their action and time are compared with the log", None)
        if count := self._count(f"({states.UNAUDITED})"):
            yield Finding(f"{count:,} games, boards and prizes have no audit entry in the file", None)
        if count := self._count("unfounded WHERE is_open"):
            text = f"{count:,} movements are of codes, merged guests, other campaigns, or later than the log"
            yield Finding(f"{text}: the file does not show what they follow from", None)
        yield Finding("the operator wrote the file: compare plays with the receipts of their players", None)
