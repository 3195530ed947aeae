"""Checks the dossier of a campaign, without the service: `tombola verify FILE`.

runtime/commands/dossiers.py describes the file. What its lines say goes into a temporary database, so memory does not
grow with the campaign.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from runtime.commands.dossiers import FORMAT
from runtime.commands.evidence import draws, receipts
from runtime.commands.evidence.findings import Finding, read_object
from runtime.commands.evidence.witnessed import compare
from runtime.commands.groups.log.witness import State
from runtime.rules.log.entries import BACKDATED_MICROSECONDS, mark_of
from runtime.rules.log.notes import BadNote, VerifierKey, read_checkpoint, verify_note
from runtime.rules.log.tree import HASH_BYTES, MerkleTree, hash_leaf

KIND: Final = "the dossier of a campaign"

_NAMED_MAX: Final = 5
"""Failures of one kind that are named."""

_TABLES: Final = """
    CREATE TABLE plays (id PRIMARY KEY, player, at, logged_at);
    CREATE TABLE won (reward_id, play_id, prize_id, name, type, value, quantity, at);
    CREATE TABLE rewards (
        id PRIMARY KEY, player, play_id, milestone_id, prize_id, name, type, value, quantity, status, at);
    CREATE TABLE draws (id PRIMARY KEY, at, logged_at);
    CREATE TABLE winners (reward_id, contest, rank, prize_id, holder, player);
    CREATE TABLE results (contest, rank, holder);
    CREATE TABLE prizes (id PRIMARY KEY, total);
    CREATE TABLE moves (prize_id, seq, total_before, total_after, remaining_before, remaining_after, at);
    CREATE INDEX won_reward ON won (reward_id);
    CREATE INDEX winners_reward ON winners (reward_id);
    CREATE INDEX winners_contest ON winners (contest, rank);
    CREATE INDEX results_contest ON results (contest, rank);
    CREATE INDEX rewards_prize ON rewards (prize_id);
"""

_UNLOGGED: Final = "SELECT id FROM {} WHERE logged_at IS NULL AND at < ?"
_UNREWARDED: Final = """
    SELECT w.play_id FROM won AS w LEFT JOIN rewards AS r ON r.id = w.reward_id
    WHERE w.reward_id <> '' AND (r.id IS NULL OR (r.play_id, r.prize_id, r.name, r.type, r.value, r.quantity)
        <> (w.play_id, w.prize_id, w.name, w.type, w.value, w.quantity))
"""
_UNFOUNDED: Final = """
    SELECT id FROM rewards AS r WHERE milestone_id = ''
        AND NOT EXISTS (SELECT 1 FROM won AS w WHERE w.reward_id = r.id AND r.play_id = w.play_id)
        AND NOT EXISTS (SELECT 1 FROM winners AS n WHERE n.reward_id = r.id AND n.prize_id = r.prize_id)
"""
_MISGIVEN: Final = """
    SELECT r.id FROM rewards AS r JOIN plays AS p ON p.id = r.play_id
    WHERE r.milestone_id = '' AND r.player <> p.player AND r.status <> 'revoked'
    UNION ALL
    SELECT r.id FROM rewards AS r JOIN winners AS n ON n.reward_id = r.id
    WHERE r.player <> n.player AND r.status <> 'revoked'
      AND NOT EXISTS (SELECT 1 FROM winners AS o WHERE o.contest = n.contest AND o.player = r.player)
"""
"""A merged guest keeps its surplus, which is revoked. If both had a rank, the guest keeps one, without its reward."""

_UNDRAWN: Final = """
    SELECT n.contest || ' rank ' || n.rank FROM winners AS n JOIN results AS e ON e.contest = n.contest
    WHERE e.rank = n.rank AND e.holder <> n.holder
    UNION ALL
    SELECT n.contest || ' rank ' || n.rank FROM winners AS n
    WHERE n.contest IN (SELECT contest FROM results)
      AND NOT EXISTS (SELECT 1 FROM results AS e WHERE e.contest = n.contest AND e.rank = n.rank)
"""
_BROKEN_MOVES: Final = """
    SELECT prize_id FROM (
        SELECT *, lag(total_after) OVER (PARTITION BY prize_id ORDER BY seq) AS previous FROM moves
    ) WHERE previous <> total_before OR remaining_after < 0 OR remaining_before < 0
    UNION ALL
    SELECT p.id FROM prizes AS p JOIN moves AS m ON m.prize_id = p.id
    WHERE m.seq = (SELECT max(seq) FROM moves AS o WHERE o.prize_id = p.id) AND m.total_after <> p.total
"""
_OVERDRAWN: Final = """
    WITH taken AS (
        SELECT prize_id, quantity, at FROM rewards WHERE status NOT IN ('revoked', 'expired')
        UNION ALL
        SELECT prize_id, quantity, at FROM won WHERE reward_id = '' AND prize_id <> ''
    ),
    totals AS (
        SELECT prize_id, total_before AS total, at AS until FROM moves
        UNION ALL
        SELECT id, total, 1e300 FROM prizes
    )
    SELECT DISTINCT t.prize_id FROM totals AS t
    WHERE t.total > 0 AND t.total < (
        SELECT sum(quantity) FROM taken AS k WHERE k.prize_id = t.prize_id AND k.at < t.until)
"""
"""The units taken until a total ended are at most that total. Returned units do not count, so it is a lower bound."""


def is_dossier(path: Path) -> bool:
    """Whether the file begins as a dossier."""
    with path.open("rb") as file:
        first = file.readline()
    return first.startswith(b'{"head":') and FORMAT.encode() in first


def verify(path: Path, *, key: VerifierKey | None = None, witness: State | None = None) -> list[Finding]:
    """The findings. key: of the log, from a source other than the file's. witness: of the log. Raises ValueError."""
    with TemporaryDirectory() as folder, closing(sqlite3.connect("")) as database:
        database.executescript(_TABLES)
        try:
            return list(_Check(database, Path(folder), key, witness).findings(path))
        except BadNote as error:
            raise ValueError(str(error)) from None
        except (KeyError, TypeError, AttributeError, IndexError, sqlite3.Error) as error:
            raise ValueError(f"not {KIND}: {error!r}") from None


class _Check:
    """One pass over the file, then the comparison of what is in it."""

    def __init__(
        self, database: sqlite3.Connection, folder: Path, key: VerifierKey | None, witness: State | None
    ) -> None:
        self.database = database
        self.folder = folder
        self.terms: dict[str, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.failed: list[str] = []
        self.failures = 0
        self.evidence: list[Path] = []
        self.key = key
        self.witness = witness
        self.seen: bytes | None = None  # The root of as many leaves as the witness has seen.
        self.note, self.mark = "", ""
        self.misdrawn: list[str] = []
        self.tree = MerkleTree()
        self.leaves = folder / "leaves"
        self.leaves.touch()

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
                if reader := getattr(self, f"_read_{kind}", None):
                    reader(value)
        lines = sum(self.counts.values())
        whole = end is not None and (end["lines"], end["sha256"]) == (lines, digest.hexdigest())
        yield Finding(f"the file has all of its {lines:,} lines", whole)
        yield from self._of_log()
        yield from self._of_plays()
        yield self._none("rewards are those of their plays", "won", _UNREWARDED)
        yield self._none("rewards have a play, a milestone, or a rank of a draw or leaderboard", "rewards", _UNFOUNDED)
        yield self._none("rewards belong to the players of their plays and ranks", "rewards", _MISGIVEN)
        yield from self._of_draws()
        yield self._none("stock moves continue each other", "moves", _BROKEN_MOVES)
        yield self._none("prizes were never given beyond their stock", "prizes", _OVERDRAWN)
        yield from self._open()

    def _read_checkpoint(self, note: str) -> None:
        self.note = note

    def _read_mark(self, entry: str) -> None:
        self.mark = entry

    def _read_leaves(self, tile: str) -> None:
        hashes = base64.b64decode(tile, validate=True)
        for first in range(0, len(hashes), HASH_BYTES):
            self.tree.add_hash(hashes[first : first + HASH_BYTES])
            if self.witness is not None and self.witness.size == self.tree.size:
                self.seen = self.tree.digest()
        with self.leaves.open("ab") as file:
            file.write(hashes)

    def _is_logged(self, play: dict[str, Any], score: int) -> bool:
        """Whether the log has the play as it is in the file."""
        own = {name: play[name] for name in ("id", "game_id", "revision", "revision_hash", "seed")}
        own |= {"kind": "play", "score": score, "outcome": hashlib.sha256(play["outcome"].encode()).hexdigest()}
        return self._has(play, play["played_at"], own)

    def _has(self, line: dict[str, Any], at: int, own: dict[str, Any]) -> bool:
        """Whether the line's entry has these facts, and is the leaf of its index."""
        facts = read_object(line["entry"], "an entry of the log")
        is_leaf = self._leaf(line["leaf_index"]) == hash_leaf(line["entry"].encode())
        same_time = facts["at"] // 1_000_000 == at
        return is_leaf and same_time and all(facts.get(name) == value for name, value in own.items())

    def _leaf(self, index: int) -> bytes:
        with self.leaves.open("rb") as file:
            file.seek(max(index, 0) * HASH_BYTES)
            return file.read(HASH_BYTES)

    def _read_terms(self, text: str) -> None:
        self.terms[hashlib.sha256(text.encode()).hexdigest()] = read_object(text, "terms")

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
        if "entry" in play:
            findings.append(Finding("its entry is in the log", self._is_logged(play, stored["decided"]["score"])))
        logged_at = read_object(play["entry"], "an entry of the log")["at"] if "entry" in play else None
        about = (play["id"], play["player"], play["played_at"], logged_at)
        self.database.execute("INSERT INTO plays VALUES (?, ?, ?, ?)", about)
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
        won_at = _seconds(one["won_at"])
        self.database.execute(
            "INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*(one[name] for name in names), won_at),
        )

    def _read_winner(self, one: dict[str, Any]) -> None:
        names = ("reward_id", "of", "rank", "prize_id", "holder", "player")
        self.database.execute("INSERT INTO winners VALUES (?, ?, ?, ?, ?, ?)", [one[name] for name in names])

    def _read_prize(self, one: dict[str, Any]) -> None:
        self.database.execute("INSERT INTO prizes VALUES (?, ?)", (one["id"], one["stock"]["total"]))

    def _read_stock_move(self, one: dict[str, Any]) -> None:
        names = ("prize_id", "total_before", "total_after", "remaining_before", "remaining_after", "created_at")
        prize_id, *facts = [one[name] for name in names]
        self.database.execute("INSERT INTO moves VALUES (?, ?, ?, ?, ?, ?, ?)", (prize_id, int(one["id"]), *facts))

    def _read_evidence(self, line: dict[str, Any]) -> None:
        """Collects the evidence file of each draw, and its result."""
        if "format" in line:
            self.evidence.append(self.folder / f"{len(self.evidence)}.jsonl")
            self.draw = line
        with self.evidence[-1].open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if "result" not in line:
            return
        draw_id, entry = self.draw["id"], line.get("entry")
        for rank, one in enumerate(line["result"], 1):
            self.database.execute("INSERT INTO results VALUES (?, ?, ?)", (draw_id, rank, one["holder"]))
        logged_at = None
        if entry is not None:
            facts = read_object(entry, "an entry of the log")
            own = {name: self.draw[name] for name in ("id", "campaign_id", "tickets_root", "ticket_count")}
            own |= {"kind": "draw", "value": line["value"], "result_hash": line["result_hash"]}
            if not self._has(line, line["drawn_at"], own):
                self.misdrawn.append(draw_id)
            logged_at = facts["at"]
        self.database.execute("INSERT INTO draws VALUES (?, ?, ?)", (draw_id, line["drawn_at"], logged_at))

    def _of_log(self) -> Iterator[Finding]:
        if self.witness is not None:
            yield compare(self.witness, read_checkpoint(self.note) if self.note else None, self.seen)
        if not self.note:
            if self.key is not None:
                yield Finding("the file contains the log of the key", False)
            yield Finding("the file has no log: nothing shows that plays were left out or written later", None)
            return
        checkpoint = read_checkpoint(self.note)
        is_whole = (checkpoint.size, checkpoint.root) == (self.tree.size, self.tree.digest())
        yield Finding(f"the log's {self.tree.size:,} leaves have the root of the checkpoint", is_whole)
        if self.key is None:
            yield Finding("the checkpoint is signed: give the log's key to check it", None)
        else:
            with suppress(BadNote):
                verify_note(self.note, [self.key])
                self.key = None
            yield Finding("the checkpoint is signed by the key", self.key is None)
        yield from self._of_unlogged()

    def _of_unlogged(self) -> Iterator[Finding]:
        """The mark, which is the last entry, states the time before which every row is in the log."""
        (newest,) = self.database.execute("SELECT max(logged_at) FROM plays").fetchone()
        if self.mark:
            facts = read_object(self.mark, "a mark of the log")
            is_last = facts["kind"] == "mark" and self._leaf(self.tree.size - 1) == hash_leaf(self.mark.encode())
            yield Finding("the log ends with a mark: no back-dated rows follow it", is_last)
            newest = mark_of(facts) if is_last else newest
        else:
            yield Finding("the file has no mark of its log: nothing shows that its latest plays are logged", None)
        until = float("inf") if newest is None else (newest - BACKDATED_MICROSECONDS) / 1_000_000
        for kind in ("plays", "draws"):
            query = _UNLOGGED.format(kind)
            yield self._none(f"{kind} are in the log, or later than its checkpoint", kind, query, until)
            if count := self._count(f"{kind} WHERE logged_at IS NULL"):
                yield Finding(f"{count:,} {kind} are not in the log yet: write the dossier again to check them", None)
        if self.misdrawn:
            yield Finding(f"draws are those of the log; not {', '.join(self.misdrawn)}", False)

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
            wrong = [finding.text for finding in draws.verify(path) if finding.ok is False]
            yield Finding(
                f"draw {head['id']} follows from its evidence" + "".join(f"; not: {one}" for one in wrong), not wrong
            )
        yield self._none("winners are those of the evidence", "winners", _UNDRAWN)

    def _none(self, text: str, table: str, query: str, *values: object) -> Finding:
        """A finding about the rows of a table: the query finds no exception."""
        wrong = [str(name) for (name,) in self.database.execute(query, values)]
        if wrong:
            return Finding(f"{text}; not {', '.join(wrong[:_NAMED_MAX])}, {len(wrong):,} in all", False)
        return Finding(f"{self._count(table):,} {text}", True)

    def _count(self, rows: str) -> int:
        (count,) = self.database.execute(f"SELECT count(*) FROM {rows}").fetchone()
        return int(count)

    def _open(self) -> Iterator[Finding]:
        if count := self._count("rewards WHERE milestone_id <> ''"):
            yield Finding(f"{count:,} rewards are of milestones: the balances are not in the file", None)
        if count := self._count("winners WHERE reward_id <> '' AND contest NOT IN (SELECT contest FROM results)"):
            yield Finding(f"{count:,} rewards are of leaderboards, or of draws without evidence in the file", None)
        yield Finding("the operator wrote the file: compare plays with the receipts of their players", None)


def _seconds(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp())
