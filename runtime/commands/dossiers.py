"""Writes the dossier of a campaign: one file that an auditor checks without the service.

JSON lines; each is an object with one field, which names its kind:

    head      format, campaign, when it was made, and the public key of the sealed lines ("": there are none)
    verifier  a program that checks the file with Node alone: its name, text and SHA-256
    checkpoint   the signed checkpoint of the tenant's log       leaves   the hashes of all its leaves (tiles in base64)
    stamp     the newest checkpoint that a time-stamping authority has stamped, and its response
    prize     a prize, with its stock, and why a unit in stock may be unavailable
    stock_move   a change of a prize's total
    game      a game's milestones, as they are now, and the scope of its balances ("": they are not in the file)
    board     a finalized leaderboard, also if archived since
    ledger    a movement of a balance in these scopes
    mark      the last entry of the log: every row from before its time is in the log
    terms     the text of terms, before the first play that they decided
    opening   the text of the opening of a prize's release, whose commitment is in these terms
    play      what decides a play again, and its entry in the log, as rewards, adjustments and audit entries have; the
              session without its MAC and player
    reward    a reward, and its origin: play, milestone, or the winner of a draw or leaderboard
    winner    a rank of a draw or leaderboard, and its reward
    evidence  a line of a draw's evidence file
    audit     an entry of the audit log about the campaign. line: the text that the log hashes, with persons masked
    sealed    an entry or a winner with contacts, encrypted for the authority
    end       the number of lines before it, and their SHA-256

Players are pseudonyms under a key that only this dossier has, and that only its sealed lines contain. Lines are written
as they arrive, so memory does not grow with the campaign.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, Final

import aiohttp

from runtime import web
from runtime.commands.connection import Edge, Refused
from runtime.rules.log.entries import read_bundle
from runtime.rules.log.notes import read_checkpoint
from runtime.rules.log.tiles import TILE_WIDTH, Tile
from runtime.rules.sealing import Seal

FORMAT: Final = "tombola-dossier-1"

VERIFIERS: Final = tuple(
    f"{name}.mjs" for name in ("verify", "dossier", "awards", "draws", "stamps", "stock", "releases", "sha256")
)
"""Programs that the file carries: dossier.mjs imports the others."""

PSEUDONYM_BYTES: Final = 16

_PERSONAL: Final = frozenset({"player_id", "display_name", "contact", "email", "phone", "avatar_url", "actor"})
_CONTACT: Final = re.compile(r"[^\s@\"'<>]+@[\w-]+(?:\.[\w-]+)+|\+\d{7,15}|\b(?:player|guest)_[0-9a-z]{26}\b")
"""An e-mail address, a phone number, or the id of a player that this service made."""
_OWN: Final = "export.read"
"""Audit entries of the downloads that make a dossier are later than its checkpoint: they are left to the next one."""
_CUTS_MAX: Final = 5
_NONCE_END: Final = 31
"""The end of a session's nonce (runtime/actors/game/sessions.py)."""
_REWARD: Final = (
    *("id", "won_at", "game_id", "play_id", "milestone_id", "prize_id", "prize", "type", "value", "quantity"),
    *("status", "claimed_at", "fulfilled_at", "expires_at"),
)
_LEDGER: Final = (
    *("id", "created_at", "scope_key", "currency", "amount", "balance_after"),
    *("reason", "reference_id", "reward_id", "seq"),
)
_PRIZE: Final = ("id", "name", "type", "value", "campaign_id", "stock")
_BOARD: Final = ("id", "game_id", "metric", "mode", "start_date", "end_date", "prizes", "finalized_at")
_AUDIT: Final = ("id", "created_at", "actor", "merchant_id", "action", "subject_type", "subject_id", "trace_id")
_PLAY: Final = (
    *("id", "game_id", "played_at", "revision", "revision_hash"),
    *("seed", "client_seed", "payload", "outcome", "erased"),
)


class Pseudonyms:
    """Replaces players by pseudonyms, and personal texts of audit entries by theirs."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)

    def of(self, text: str) -> str:
        """The pseudonym of a player's id, contact or name; "" of an empty one."""
        return hmac.digest(self.key, text.encode(), "sha256")[:PSEUDONYM_BYTES].hex() if text else ""

    def without_persons(self, value: Any) -> Any:
        """A JSON value with pseudonyms in place of players, contacts and staff."""
        match value:
            case dict():
                return {name: self._field(name, item) for name, item in value.items()}
            case list():
                return [self.without_persons(item) for item in value]
            case str():
                return _CONTACT.sub(lambda found: self.of(found[0]), value)
        return value

    def _field(self, name: str, item: Any) -> Any:
        return self.of(item) if name in _PERSONAL and isinstance(item, str) else self.without_persons(item)


class Writer:
    """Writes the lines of a dossier, and counts them by kind."""

    def __init__(self, file: BinaryIO) -> None:
        self.counts: dict[str, int] = {}
        self._file = file
        self._digest = hashlib.sha256()

    def line(self, kind: str, value: Any) -> None:
        """Writes a line."""
        text = json.dumps({kind: value}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._file.write(text)
        self._digest.update(text)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def end(self) -> None:
        """Writes the last line."""
        self.line("end", {"lines": sum(self.counts.values()), "sha256": self._digest.hexdigest()})


async def write(
    edge: Edge, campaign: dict[str, Any], file: BinaryIO, authority: Seal | None, consumer_url: str = ""
) -> dict[str, int]:
    """Writes the dossier of a campaign. Returns the number of lines by kind. Raises Refused."""
    writer, pseudonyms = Writer(file), Pseudonyms()
    campaign_id = campaign["id"]
    public = {name: campaign[name] for name in ("id", "name", "status", "start_date", "end_date", "timezone", "frozen")}
    sealed_for = authority.head if authority is not None else ""
    writer.line("head", {"format": FORMAT, "campaign": public, "made_at": int(time.time()), "sealed_for": sealed_for})
    for name in VERIFIERS:
        program = web.read(f"verifiers/{name}")
        hashed = hashlib.sha256(program).hexdigest()
        writer.line("verifier", {"name": name, "sha256": hashed, "text": program.decode()})
    size = await _log(edge, writer)
    prizes: set[str] = set()

    async def prize(prize_id: str) -> None:
        if prize_id and prize_id not in prizes:
            prizes.add(prize_id)
            one = await edge.get(f"/prizes/{prize_id}")
            writer.line("prize", {name: one[name] for name in _PRIZE} | {"limits": _limits(one)})
            async for move in edge.each(f"/prizes/{prize_id}/stock/moves"):
                writer.line("stock_move", pseudonyms.without_persons(move))

    async for one in _each(edge, "prize", campaign_id):
        await prize(one["id"])
    scopes = set()
    async for game in _each(edge, "game", campaign_id):
        scope = await _scope(edge, campaign, game["wallet_scope"])
        if scope != campaign_id and not (game["milestones"] or {}).get("rungs"):
            scope = ""  # Other campaigns share its balances.
        scopes.add(scope)
        writer.line("game", {"id": game["id"], "scope": scope, "milestones": game["milestones"]})
    known, opened = set[str](), set[str]()
    async for play in rows(edge, "play_receipts", campaign_id):
        if (revision := play["revision_hash"]) and revision not in known:
            known.add(revision)
            promised = await edge.get(f"/revisions/{revision}")
            writer.line("terms", promised["terms"])
            for opening in promised["openings"]:  # Of the releases whose last unit is free.
                if opening not in opened:
                    opened.add(opening)
                    writer.line("opening", opening)
        writer.line("play", _play(play, pseudonyms, size))
    # After the plays, so that the ledger has the credits of each play in the file.
    async for entry in rows(edge, "ledger", campaign_id if scopes <= {campaign_id} else ""):
        if entry["scope_key"] in scopes:
            movement = {name: entry[name] for name in _LEDGER} | _logged(entry, size)
            writer.line("ledger", {**movement, "player": pseudonyms.of(entry["player_id"])})
    async for contest, board, path in _contests(edge, campaign_id):
        if board is not None:
            writer.line("board", board)
        async for winner in edge.each(path):
            named = {name: winner[name] for name in ("rank", "prize_id", "reward_id", "reason")}
            named |= {"holder": winner.get("holder", ""), "score": winner.get("score")}
            if winner["reason"] in ("REVOKED", "EXPIRED"):
                named["reason"] = ""  # The rank has a reward, whose line says how it ended.
            writer.line("winner", {"of": contest, **named, "player": pseudonyms.of(winner["player_id"])})
    async for line in _evidence(edge, campaign_id, consumer_url):
        if line.get("leaf_index", -1) >= size:
            del line["leaf_index"], line["entry"]
        writer.line("evidence", line)
    async for reward in rows(edge, "rewards", campaign_id):
        await prize(reward["prize_id"])
        won = {name: reward[name] for name in _REWARD} | _logged(reward, size)
        writer.line("reward", {**won, "player": pseudonyms.of(reward["player_id"])})
    async for entry in rows(edge, "audit", campaign_id):
        if entry["leaf_index"] is not None or entry["action"] != _OWN:
            writer.line("audit", _audit(entry, pseudonyms, size))
    if authority is not None:
        writer.line("sealed", authority.seal({"pseudonym_key": pseudonyms.key.hex()}))
        for kind in ("participants", "winners"):
            async for row in rows(edge, kind, campaign_id):
                writer.line("sealed", authority.seal({**row, "player": pseudonyms.of(row["player_id"])}))
    writer.end()
    return writer.counts


async def _log(edge: Edge, writer: Writer) -> int:
    """Writes the tenant's log, if there is one. Returns the size of its checkpoint."""
    stamped = await _if_any(edge, "/log/stamp")  # Read first, so that the checkpoint is not older than the stamp.
    if not (note := (await _if_any(edge, "/log/checkpoint", fresh="true")).decode()):
        return 0
    writer.line("checkpoint", note)
    if stamped:
        writer.line("stamp", json.loads(stamped))
    size = read_checkpoint(note).size
    for first in range(0, size, TILE_WIDTH):
        tile = Tile(0, first // TILE_WIDTH, min(TILE_WIDTH, size - first))
        writer.line("leaves", base64.b64encode(await _whole(edge, f"/log/{tile.path}")).decode())
    number, left = divmod(size - 1, TILE_WIDTH)
    try:
        *_, mark = read_bundle(await _whole(edge, f"/log/{Tile(0, number, left + 1, entries=True).path}"))
        writer.line("mark", mark.decode())
    except Refused as refused:
        if refused.http != 403:  # A merchant's staff may not read entries.
            raise
    return size


async def _if_any(edge: Edge, path: str, **query: str) -> bytes:
    """The body, empty for a missing resource."""
    try:
        return await _whole(edge, path, **query)
    except Refused as refused:
        if refused.http != 404:
            raise
        return b""


async def _whole(edge: Edge, path: str, **query: str) -> bytes:
    return b"".join([piece async for piece in edge.read(path, **query)])


def _play(row: dict[str, Any], pseudonyms: Pseudonyms, log_size: int) -> dict[str, Any]:
    """log_size: the entries from this index on are not under the checkpoint."""
    head, key_id, terms, *_ = row["session_id"].split(".")
    seed_hash = hashlib.sha256(bytes.fromhex(row["seed"])).hexdigest()
    promise = f"{seed_hash}:{row['revision_hash']}:{row['session_id']}"
    shown = {name: row[name] for name in _PLAY} | _logged(row, log_size)
    shown["commitment"] = hashlib.sha256(promise.encode()).hexdigest()
    # Without its MAC and player: with the MAC, the commitment would tell whether a guessed player is the right one.
    shown["session"] = f"{head[:_NONCE_END]}.{key_id}.{terms}"
    return {**shown, "player": pseudonyms.of(row["player_id"])}


def _logged(row: dict[str, Any], log_size: int) -> dict[str, Any]:
    """The row's entry in the log, if the checkpoint covers it."""
    is_covered = row["leaf_index"] is not None and row["leaf_index"] < log_size
    return {name: row[name] for name in ("leaf_index", "entry")} if is_covered else {}


def _audit(row: dict[str, Any], pseudonyms: Pseudonyms, log_size: int) -> dict[str, Any]:
    sides = ("before", "after")
    shown = {name: row[name] for name in _AUDIT} | {side: row[side] and json.loads(row[side]) for side in sides}
    if shown["subject_type"] == "player":
        shown["subject_id"] = pseudonyms.of(shown["subject_id"])
    line = {"line": row["line"]} if row["line"] and not _CONTACT.search(row["line"]) else {}
    return {**pseudonyms.without_persons(shown), **line, **_logged(row, log_size)}


def _limits(prize: dict[str, Any]) -> list[str]:
    """Why a unit may be unavailable although the stock has one."""
    found = [name for name, most in (prize["constraints"] or {}).items() if most]
    found += ["release"] * bool(prize["release"]) + ["status"] * (prize["status"] != "PRIZE_STATUS_ACTIVE")
    return found + ["codes"] * ((prize["fulfillment"] or {}).get("channel") == "voucher_code")


async def _scope(edge: Edge, campaign: dict[str, Any], kind: str) -> str:
    """The scope of the balances of a game of this kind."""
    if kind == "WALLET_SCOPE_TENANT":
        return str((await edge.get("/me"))["tenant_id"])
    return str((kind == "WALLET_SCOPE_MERCHANT" and campaign["merchant_id"]) or campaign["id"])


async def _each(edge: Edge, kind: str, campaign_id: str) -> AsyncIterator[dict[str, Any]]:
    """Every item of a campaign. Archived ones come last: an item may be archived meanwhile."""
    known = set[str]()
    for status in ("", f"{kind}_status_archived".upper()):
        async for item in edge.each(f"/{kind}s", campaign_id=campaign_id, status=status):
            if item["id"] not in known:
                known.add(item["id"])
                yield item


async def _contests(edge: Edge, campaign_id: str) -> AsyncIterator[tuple[str, dict[str, Any] | None, str]]:
    """The id of each draw and leaderboard, the terms of a leaderboard, and the path of its winners."""
    async for draw in edge.each("/draws", campaign_id=campaign_id):
        if draw["result_hash"]:
            yield draw["id"], None, f"/draws/{draw['id']}/winners"
    async for board in _each(edge, "leaderboard", campaign_id):
        if board["finalized_at"]:
            yield board["id"], {name: board[name] for name in _BOARD}, f"/leaderboards/{board['id']}/standings"


async def _evidence(edge: Edge, campaign_id: str, consumer_url: str) -> AsyncIterator[dict[str, Any]]:
    """The lines of the evidence files of the campaign's draws, which the consumer edge publishes."""
    me = await edge.get("/me")
    async for draw in edge.each("/draws", campaign_id=campaign_id):
        if draw["tickets_root"] and (base := consumer_url or me["consumer_url"]):
            url = f"{base}/api/v1/draws/{draw['id']}/file?tenant_id={me['tenant_id']}"
            # Not through the edge's client, which would send the token of staff.
            async with aiohttp.ClientSession(raise_for_status=True) as http, http.get(url) as answer:
                rest = b""
                async for piece in answer.content.iter_any():
                    *whole, rest = (rest + piece).split(b"\n")
                    for line in whole:
                        yield json.loads(line)


async def rows(edge: Edge, name: str, campaign_id: str) -> AsyncIterator[dict[str, Any]]:
    """The rows of an export. A download that is cut off resumes after the last row."""
    cursor, cuts = "", 0
    while True:
        try:
            url = f"/exports/{name}"
            async for line in edge.lines(url, format="jsonl", campaign_id=campaign_id, cursor=cursor):
                row = json.loads(line)
                cursor, cuts = next(iter(row.values())), 0
                yield row
            return
        except aiohttp.ClientPayloadError:
            cuts += 1
            if cuts > _CUTS_MAX:
                raise
