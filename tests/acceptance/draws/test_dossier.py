import base64
import copy
import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from runtime.commands.evidence.dossier import verify
from runtime.commands.evidence.findings import Finding
from runtime.commands.groups.log.witness import State
from runtime.operations.log.stamping import _SQL as LOG
from runtime.operations.log.stamping import stamp_all
from runtime.rules.log.notes import VerifierKey
from runtime.rules.log.stamps import read_certificates
from runtime.rules.log.tree import MerkleTree
from tests.support.authority import authority
from tests.support.merkle_log import append, found, tamper
from tests.support.operations import make_merchant
from tests.support.operator import Operator
from tests.support.stack import make_tenant
from tests.support.world import COINS, COLLECTION, World, prize_ids

EMAIL: Final = "vera.winner@example.com"


@pytest.fixture(scope="module")
def module_extra_settings() -> dict[str, Any]:
    return {"merkle_log": "promo.example"}


async def written_by(world: World, tmp_path: Path) -> list[dict[str, Any]]:
    """Writes and reads a dossier with plays, a milestone, a draw, a stock move, a release and a player's contact."""
    mug, cup = [await world.prize(total=9, type=kind, campaign_id=world.campaign_id) for kind in ("item", "goods")]
    rungs = [{"id": "one", "name": "One", "currency": "coin", "threshold": 2, "prize_id": cup}]
    milestones = {"mode": "cumulative_unlock", "auto_grant": True, "rungs": rungs}
    games = [await world.wheel(mug), await world.game(COLLECTION, COINS, milestones=milestones)]
    for game_id in games:
        for player in ("vera", "walt"):
            assert (await world.round(game_id, player, client_seed="s")).code == "OK"
    sealed = {"kind": "SEALED", "units": 2, "starts_at": int(time.time()) - 90, "ends_at": int(time.time()) - 30}
    vespa = await world.prize(total=2, type="item", release=sealed, campaign_id=world.campaign_id)
    moments = {"type": "scratch_card", "reward_handler": "moments"}
    games.append(await world.game(moments, {"prizes": [{"prize_id": vespa}]}))
    won = [len(prize_ids(await world.round(games[2], player))) for player in ("vera", "walt", "vera")]
    assert won == [1, 1, 0]
    await world.stack.database.execute(
        "INSERT INTO contacts (tenant_id, contact_id, player_id, type, value) VALUES ($1, 'c1', 'vera', 'email', $2)",
        *(world.stack.tenant_id, EMAIL),
    )
    body = {"campaign_id": world.campaign_id, "name": "Draw", "tickets": {"currency": "coin"}}
    body |= {"prizes": [{"prize_id": cup, "count": 1}], "alternates": 1, "randomness": {"kind": "INTERNAL"}}
    draw_id = (await world.stack.admin("POST", "/admin/draws", body)).data["id"]
    for step in ("close", "draw", "replace", "confirm"):
        absent = {"rank": 1, "reason": "absent"} if step == "replace" else {}
        assert (await world.stack.admin("POST", f"/admin/draws/{draw_id}/{step}", absent)).code == "OK"
    board = {"campaign_id": world.campaign_id, "name": "Board", "metric": "plays", "mode": "sum"}
    board["prizes"] = [{"from_rank": 1, "to_rank": 1, "prize_id": cup}]
    board_id = (await world.stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    gems = {"player_id": "vera", "scope_key": world.campaign_id, "currency": "gem", "amount": 5, "reference_id": "gift"}
    assert (await world.stack.admin("POST", "/admin/wallet/adjustments", gems)).code == "OK"
    correction = {"player_id": "walt", "delta": 3, "reason": "a lost play"}
    assert (await world.stack.admin("POST", f"/admin/leaderboards/{board_id}/adjust", correction)).code == "OK"
    assert (await world.stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).code == "OK"
    for path in (f"leaderboards/{board_id}", f"games/{games[1]}"):
        assert (await world.stack.admin("DELETE", f"/admin/{path}")).data["archived"], "the dossier has it still"
    key = X25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "authority.pem").write_bytes(public)
    # Its refused checkpoint comes before the tenant's.
    other = await make_tenant(world.stack, "a", world.stack.database)
    for one in (world.stack, other):
        await append(one)
    notes = [(await one.database.fetchval(LOG["newest"], one.tenant_id)) for one in (other, world.stack)]
    theirs, ours = (hashlib.sha256(note.encode()).digest() for note in notes)
    async with authority(world.stack, tmp_path / "tsa") as own:
        for own.refused, has_stamp in (([theirs, ours], False), ([theirs], True)):
            await stamp_all(world.stack.engine)
            log = (await world.stack.admin("GET", "/admin/log")).data
            assert (log["stamp_size"] == log["checkpoint_size"] > 0) == has_stamp, "a refusal delays only its stamp"
    await world.stack.admin("POST", f"/admin/prizes/{mug}/stock", {"total": 4, "reason": "broken"})
    tombola, url = Operator(world.stack, tmp_path), world.stack.process.consumer_url
    words = ("--authority-key", "authority.pem", "--consumer-url", url)
    written = await tombola("campaigns", "dossier", world.campaign_id, "dossier.jsonl", *words)
    assert written.code == 0, written.err
    return [json.loads(line) for line in (tmp_path / "dossier.jsonl").read_text().splitlines()]


def first(lines: list[dict[str, Any]], kind: str) -> Any:
    return next(line[kind] for line in lines if kind in line)


def given(lines: list[dict[str, Any]], *, milestone: bool = False) -> Any:
    """The first reward that a play won, or a milestone gave."""
    return next(one for one in all_of(lines, "reward") if bool(one["milestone_id"]) == milestone and one["play_id"])


def withhold(lines: list[dict[str, Any]]) -> None:
    """A milestone that a play granted, and its reward, as if it had not been reached."""
    reward = given(lines, milestone=True)
    [play] = [one for one in all_of(lines, "play") if one["id"] == reward["play_id"]]
    play["outcome"] = re.sub(r'("milestones_granted":)\[.*\]', r"\1[]", play["outcome"])
    lines.remove({"reward": reward})
    for prize in all_of(lines, "prize"):
        prize["stock"].update(awarded=0)


def credit(lines: list[dict[str, Any]], **facts: str) -> None:
    """A movement before all others of a balance, as if it were later than the log."""
    one = first(lines, "ledger")
    more = {"id": "entry_other", "amount": 5, "balance_after": 5, "seq": 0, "created_at": "2099-01-01T00:00:00Z"}
    lines.insert(-1, {"ledger": one | more | facts})
    one.update(balance_after=7, created_at="2020-01-01T00:00:00Z")


def deny(lines: list[dict[str, Any]], nth: int = 0) -> None:
    """A play that asked for a prize in vain."""
    play = all_of(lines, "play")[nth]
    play.update(outcome=play["outcome"].replace("1,true]", "1,false]"))


def antedate(lines: list[dict[str, Any]], nth: int) -> None:
    """A play that the log does not have, from before any unit of the sealed prize was free."""
    play = all_of(lines, "play")[nth]
    del play["entry"], play["leaf_index"]
    play.update(played_at=1)


def audited(lines: list[dict[str, Any]], action: str) -> Any:
    return next(one for one in all_of(lines, "audit") if one["action"] == action)


def all_of(lines: list[dict[str, Any]], kind: str) -> list[Any]:
    return [line[kind] for line in lines if kind in line]


def relax(lines: list[dict[str, Any]]) -> None:
    """A true change of a milestone that was granted before."""
    game = all_of(lines, "game")[-1]
    entry = next(one for one in all_of(lines, "audit") if one["subject_id"] == game["id"])
    after = copy.deepcopy(entry["after"])
    for block in (game["milestones"], after["definition"]["milestones"]):
        block["rungs"][0].update(threshold=99)
    change = {"id": "audit_other", "action": "game.update", "created_at": "2099-01-01T00:00:00Z"}
    change |= {"subject_type": "game", "subject_id": game["id"], "before": entry["after"], "after": after}
    lines.insert(-1, {"audit": change})


def scarce(lines: list[dict[str, Any]]) -> None:
    """One mug less than were won, in the stock and in its move."""
    move = first(lines, "stock_move")
    mug = next(line["prize"] for line in lines if "prize" in line and line["prize"]["id"] == move["prize_id"])
    mug["stock"]["total"] = move["total_after"] = 1


def pointed(lines: list[dict[str, Any]]) -> None:
    """One mug less than were won, and the mugs as points, which take no stock: as rewards, and as those of plays."""
    scarce(lines)
    for reward in all_of(lines, "reward"):
        reward["type"] = reward["type"].replace("item", "points")
    for play in all_of(lines, "play"):
        outcome = re.sub('"reward_id":"[^"]*"', '"reward_id":""', play["outcome"])
        play.update(outcome=outcome.replace('"type":"item"', '"type":"points"'))


def other_terms(lines: list[dict[str, Any]]) -> None:
    """Terms with another hash, which the plays that they decided name in its place."""
    line = next(line for line in lines if "terms" in line)
    old, new = (hashlib.sha256(text.encode()).hexdigest() for text in (line["terms"], line["terms"] + " "))
    line["terms"] += " "
    for play in (one["play"] for one in lines if one.get("play", {}).get("revision_hash") == old):
        play.update(revision_hash=new, session=play["session"].replace(old[:32], new[:32]))


def unlogged(lines: list[dict[str, Any]]) -> None:
    """All plays without their entries, from ten minutes before the checkpoint."""
    for play in (line["play"] for line in lines if "play" in line):
        del play["entry"], play["leaf_index"]
        play["played_at"] -= 600


def drop(lines: list[dict[str, Any]], *kinds: str) -> None:
    lines[:] = [line for line in lines if not line.keys() & set(kinds)]


def last(lines: list[dict[str, Any]]) -> Any:
    """The end of the draw's evidence."""
    return next(line["evidence"] for line in lines if "result" in line.get("evidence", {}))


def declare(lines: list[dict[str, Any]], at: int, value: str = "4815") -> None:
    """A declared value of this time in place of the draw's seed."""
    first(lines, "evidence")["randomness"] = {"kind": "DECLARED", "source": "Lotto", "at": at}
    last(lines).update(value=value)


def pass_over(lines: list[dict[str, Any]]) -> None:
    """An alternate between the replaced winner and the alternate who was called."""
    last(lines)["result"].insert(1, last(lines)["result"][1])
    audited(lines, "draw.replace")["after"].update(alternate=3)


def later(lines: list[dict[str, Any]], *, drawn: bool) -> None:
    """As if the draw was drawn, or its first winner replaced, after the winners were read."""
    winner, alternate = all_of(lines, "winner")[:2]
    reward = next(one for one in all_of(lines, "reward") if one["id"] == alternate["reward_id"])
    reward.update(won_at="2099-01-01T00:00:00Z")
    changed = last(lines) if drawn else audited(lines, "draw.replace")
    changed.update(drawn_at=2**37, created_at="2099-01-01T00:00:00Z")
    del reward["entry"], changed["entry"]
    winner.update(reason="DRAWN")
    alternate.update(reason="ALTERNATE", prize_id="", reward_id="")
    for line in [{"winner": winner}, {"winner": alternate}] * drawn:
        lines.remove(line)


def add_stranger(lines: list[dict[str, Any]], **facts: object) -> None:
    """A last rank of a player with a correction and no plays, as after a merge, and a change of the rank before it."""
    one = all_of(lines, "winner")[-1]
    more = {"rank": 3, "player": "00", "score": 1, "prize_id": "", "reward_id": ""}
    lines.insert(-1, {"winner": one | more})
    audit = {name: audited(lines, "leaderboard.adjust")[name] for name in ("action", "subject_type", "subject_id")}
    audit |= {"id": "audit_other", "created_at": "2099-01-01T00:00:00Z", "before": None}
    lines.insert(-1, {"audit": audit | {"after": {"player_id": "00", "delta": -5}}})
    one.update(facts)


def hand_over(lines: list[dict[str, Any]], of: int, to: int) -> None:
    """A rank's reward in the hands of another rank's player."""
    winners = all_of(lines, "winner")
    reward = next(one for one in all_of(lines, "reward") if one["id"] == winners[of]["reward_id"])
    reward.update(player=winners[to]["player"])


CHANGES: Final[dict[str, Callable[[list[dict[str, Any]]], object]]] = {
    "cut off": lambda lines: lines.pop(),
    "seed": lambda lines: first(lines, "play").update(seed="00" * 32),
    "client seed": lambda lines: first(lines, "play").update(client_seed="t"),
    "terms": lambda lines: lines.remove({"terms": first(lines, "terms")}),
    "other terms": other_terms,
    "time": lambda lines: first(lines, "play").update(played_at=1),
    "leaf": lambda lines: first(lines, "play").update(leaf_index=0),
    "not logged": unlogged,
    "the file contains the log": lambda lines: [unlogged(lines), drop(lines, "checkpoint", "stamp", "leaves", "mark")],
    "mark": lambda lines: next(line for line in lines if "mark" in line).update(mark=first(lines, "play")["entry"]),
    "FAILED.*two lines: head|error .*two lines: head": lambda lines: lines.insert(1, {"head": first(lines, "head")}),
    "play twice": lambda lines: lines.insert(-1, {"play": first(lines, "play")}),
    "FAILED.*Merkle root of|open .*more tickets": lambda lines: next(
        line["evidence"] for line in lines if "holder" in line.get("evidence", {})
    ).update(tickets=2**60),
    "checkpoint": lambda lines: lines.remove({"leaves": first(lines, "leaves")}),
    "the file has a stamp": lambda lines: drop(lines, "stamp"),
    "stamped note": lambda lines: first(lines, "stamp").update(stamp="MAA="),
    "session": lambda lines: first(lines, "play").update(session="sess_0.k.0"),
    "prize": lambda lines: given(lines).update(prize_id="prize_other"),
    "value": lambda lines: given(lines).update(value=99),
    "withheld reward": lambda lines: lines.remove({"reward": given(lines)}),
    "invented reward": lambda lines: lines.insert(-1, {"reward": {**given(lines), "id": "reward_other"}}),
    "another player": lambda lines: given(lines).update(player="00"),
    "another winner's player": lambda lines: all_of(lines, "winner")[1].update(player="00"),
    "winner": lambda lines: first(lines, "winner").update(holder="00"),
    "draws are those of the log": lambda lines: last(lines).update(value="00" * 32),
    "draw not logged": lambda lines: [last(lines).pop("entry"), last(lines).update(drawn_at=1)],
    "evidence": lambda lines: first(lines, "evidence").update(name="Another draw"),
    "FAILED prizes were never": scarce,
    "(?s)\\A(?!.*beyond their stock)": lambda lines: [scarce(lines), given(lines).update(status="failed")],
    "(?s)\\A(?!.*beyond their stock).": pointed,
    # These must be refuted by the finding that begins so.
    "milestones that": lambda lines: lines.remove({"reward": given(lines, milestone=True)}),
    "milestones that plays reached": withhold,
    "rewards of milestones": lambda lines: given(lines, milestone=True).update(milestone_id="other"),
    "movements of": lambda lines: first(lines, "ledger").update(amount=1),
    "plays credited": lambda lines: [first(lines, "ledger").update(amount=1, balance_after=1)],
    "movements are": lambda lines: credit(lines, reference_id="play_other"),
    "FAILED movements are": lambda lines: credit(lines, reason="reversal", reward_id=given(lines)["id"]),
    "FAILED adjustments are in": lambda lines: credit(lines, reason="adjustment"),
    "FAILED adjustments are those": lambda lines: next(
        one for one in all_of(lines, "ledger") if one["reason"] == "adjustment"
    ).update(amount=6, balance_after=6),
    "open .*does not show": lambda lines: credit(lines, reason="code"),
    "ranks of": lambda lines: all_of(lines, "winner")[-1].update(score=9),
    "(?s)\\A(?!.*FAILED).*open +ranks of .*rank 3": lambda lines: add_stranger(lines, score=1),
    "FAILED ranks of .*not rank 2, 1 in all": lambda lines: add_stranger(lines, score=5),
    "FAILED rewards belong": lambda lines: hand_over(lines, -2, -1),
    "(?s)\\A(?!.*FAILED).*rewards of ranks are": lambda lines: [
        hand_over(lines, 1, 0),
        all_of(lines, "winner")[1].update(player="00"),
    ],
    "audit entries are": lambda lines: first(lines, "audit").update(action="game.update"),
    "audit entries are those": lambda lines: audited(lines, "leaderboard.adjust")["after"].update(delta=4),
    "audited player": lambda lines: audited(lines, "leaderboard.adjust")["after"].update(player_id="walt"),
    "audited line": lambda lines: next(one for one in all_of(lines, "audit") if "line" in one).update(trace_id="x"),
    "rewards have": lambda lines: given(lines).update(status="revoked"),
    "stock moves are": lambda lines: first(lines, "stock_move").update(total_after=5),
    "totals of": lambda lines: first(lines, "prize")["stock"].update(total=99),
    "FAILED plays got the prizes": deny,
    "open .*got the prizes": lambda lines: [deny(lines), first(lines, "stock_move").update(total_before=1)],
    # The last three plays asked for a prize with a release of two units.
    "FAILED openings are": lambda lines: next(line for line in lines if "opening" in line).update(
        opening=first(lines, "opening").replace('"seed":"', '"seed":"00')
    ),
    "FAILED prizes were won": lambda lines: antedate(lines, -3),
    "FAILED plays got the prizes that had": lambda lines: deny(lines, -3),
    "(?s)\\A(?!.*got the prizes)": lambda lines: antedate(lines, -1),
    "open .*schedules are": lambda lines: [antedate(lines, -3), drop(lines, "opening")],
    # Other campaigns may have given it.
    "open .*got the prizes that": lambda lines: [
        deny(lines),
        *(one.update(campaign_id="") for one in all_of(lines, "prize")),
    ],
    "(?s)\\A(?!.*not the dossier)": lambda lines: first(lines, "play").update(
        outcome=first(lines, "play")["outcome"].replace('"path":[', '"path":[1,')
    ),
    "FAILED games are": lambda lines: all_of(lines, "game")[-1]["milestones"].update(auto_grant=False),
    "FAILED boards are": lambda lines: first(lines, "board")["prizes"][0].update(to_rank=2),
    "FAILED prizes are": lambda lines: first(lines, "prize").update(limits=["status"]),
    "open .* no audit entry": lambda lines: lines.remove({"audit": audited(lines, "leaderboard.create")}),
    "open .* have no audit entry": lambda lines: lines.remove({"audit": audited(lines, "leaderboard.finalize")}),
    "(?s)\\A(?!.*FAILED)": relax,
    "(?s)\\A(?!.*FAILED )": lambda lines: (
        (board := first(lines, "board")).update(updated_at=1) or board.pop("finalized_at")
    ),
    "(?s)\\A(?!.*FAILED).*drawn or replaced later": lambda lines: later(lines, drawn=False),
    "(?s)\\A(?!.*FAILED).*or replaced later": lambda lines: later(lines, drawn=True),
    "FAILED.*form of its kind": lambda lines: last(lines).update(value=last(lines)["value"].upper()),
    "FAILED.*frozen before the value": lambda lines: declare(lines, 1),
    "FAILED.*drawn after the close, when": lambda lines: declare(lines, 2**37),
    "(?s).*evidence.{1,2}closed_at must be a time": lambda lines: first(lines, "evidence").update(closed_at=1e300),
    "(?s).*evidence.{1,2}result.0..holder must be": lambda lines: last(lines)["result"][0].update(holder=7),
    "FAILED.*log has this close": lambda lines: first(lines, "evidence").update(tickets_root="00"),
    "FAILED.*this close, before the value": lambda lines: first(lines, "evidence")["randomness"].update(at=1),
    # The draw's ranks: the first was replaced by the second.
    "FAILED winners are": lambda lines: lines.remove({"winner": first(lines, "winner")}),
    "FAILED winners are those": lambda lines: lines.remove({"audit": audited(lines, "draw.replace")}),
    "FAILED winners are those of": lambda lines: all_of(lines, "winner")[1].update(prize_id="prize_other"),
    "FAILED winners are those of the": lambda lines: first(lines, "winner").update(reason="DRAWN"),
    "FAILED winners are those of the e": lambda lines: lines.insert(-1, {"winner": all_of(lines, "winner")[1]}),
    "FAILED winners are those of the ev": lambda lines: audited(lines, "draw.replace")["after"].update(rank=2),
    "open .*have their reward.*(GONE)": lambda lines: all_of(lines, "winner")[1].update(reason="GONE"),
    "open .*skipped": pass_over,
    "open .*root was published": lambda lines: lines.remove({"audit": audited(lines, "draw.close")}),
    "open .*compare it with 'Lotto'": lambda lines: declare(lines, 2**37),
    "(?s)\\A(?!.*form of its kind).*earlier versions": lambda lines: declare(lines, 2**37, "4 80 LOTTO"),
}
TEXTS: Final = ("draws are those of the log", "the file", "milestones", "movements", "plays credited", "rewards have")
TEXTS += ("rewards of", "ranks", "audit entries", "stock moves", "totals", "FAILED", "open", "(?s)")
"""Beginnings of findings (regular expressions). A change with this key must fail this one; other changes, any."""


async def test_dossier_is_verified_and_each_change_is_refuted(world: World, tmp_path: Path) -> None:
    """Also if the end, with the hash of all lines, was written anew. Only the authority learns who the players are."""
    whole = await written_by(world, tmp_path)
    tombola, text = Operator(world.stack, tmp_path), (tmp_path / "dossier.jsonl").read_text()
    sessions = [line["play"]["session"].partition(".")[0] for line in whole if "play" in line]
    assert all(name not in text for name in ("vera", "walt", EMAIL)) and {len(one) for one in sessions} == {31}
    (key,) = (await world.stack.admin("GET", "/admin/log")).data["keys"]
    verified = await tombola("verify", "dossier.jsonl", "--key", key, "--tsa", "tsa/root.pem")
    assert verified.code == 0 and "FAILED" not in verified.out
    assert "7 plays follow from their terms and seeds" in verified.out and "signed by the key" in verified.out
    await append(world.stack)  # The witness finds the stamped checkpoint in the grown log.
    log = f"{world.stack.process.consumer_url}/api/v1/log/{world.stack.tenant_id}"
    seen = await tombola("log", "witness", log, "--state", "seen.json", "--key", key, "--tsa", "tsa/root.pem")
    assert seen.code == 0 and re.search(r"saw the first (\d+) entries", seen.out), seen.err
    for program in all_of(whole, "verifier"):
        (tmp_path / program["name"]).write_text(program["text"])

    def in_node(file: str) -> str:
        words = ["node", "dossier.mjs", "--key", key, "--tsa", "tsa/root.pem", file]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    shop = Operator(replace(world.stack, merchant_id=await make_merchant(world.stack)), tmp_path)
    owned = "UPDATE campaigns SET merchant_id = $2 WHERE campaign_id = $1"
    await world.database.execute(owned, world.campaign_id, shop.stack.merchant_id)
    ended = await world.database.fetchval("""SELECT reward_id FROM leaderboard_standings
        WHERE reward_id <> '' AND board_id IN (SELECT draw_id FROM draws)""")
    assert (await world.stack.admin("POST", f"/admin/rewards/{ended}/revoke", {})).code == "OK"
    where = ("shop.jsonl", "--consumer-url", world.stack.process.consumer_url)
    assert (await shop("campaigns", "dossier", world.campaign_id, *where)).code == 0
    said = (await tombola("verify", "shop.jsonl")).out + in_node("shop.jsonl")
    assert "FAILED" not in said and "(REVOKED)" not in said, said
    said = in_node("dossier.jsonl")
    assert "FAILED" not in said and "7 plays and 8 rewards were read" in said, said
    assert all("leaves were stamped by the authority at 20" in one for one in (verified.out, said))
    assert not re.search(
        "not in the log yet|only their action|got the prizes that they|schedules", verified.out + said
    ), "its own log, whole entries"
    tree, leaves = MerkleTree(), base64.b64decode(first(whole, "leaves"))
    for at in range(0, len(leaves) - 64, 32):  # The witness has seen the log without its last entries.
        tree.add_hash(leaves[at : at + 32])
    for nth, code in ((0, 0), (1, 1)):
        frontier = [bytes(32).hex()] * nth + [one.hex() for one in tree.frontier[nth:]]
        State([key], size=tree.size, frontier=frontier).store(tmp_path / "witness.json")
        compared = await tombola("verify", "dossier.jsonl", "--witness", "witness.json")
        assert compared.code == code and "the log is the one that the witness has seen" in compared.out
    opened = await tombola("dossier", "open", "dossier.jsonl", "--key", "key.pem")
    (vera,) = {line["player"] for line in map(json.loads, opened.out.splitlines()) if line.get("email") == EMAIL}
    assert vera in {line["play"]["player"] for line in whole if "play" in line}
    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(other)
    refused = await tombola("dossier", "open", "dossier.jsonl", "--key", "key.pem")
    assert refused.code == 3 and "not for this key" in refused.err
    trusted = read_certificates(tmp_path / "tsa" / "root.pem")
    await tamper(world.stack, "UPDATE draws SET result_hash = '00' WHERE tenant_id = $1")
    assert {row.partition("_")[0] for _, row in await found(world.stack)} == {"draw draw"}
    await tamper(world.stack, "UPDATE draws SET result_hash = $2 WHERE tenant_id = $1", last(whole)["result_hash"])
    missed, path = [], tmp_path / "changed.jsonl"
    for name, change in CHANGES.items():
        lines = copy.deepcopy(whole)
        change(lines)
        text = "".join(json.dumps(line) + "\n" for line in lines if "end" not in line).encode()
        end = {"lines": text.count(b"\n"), "sha256": hashlib.sha256(text).hexdigest()}
        path.write_bytes(text + (json.dumps({"end": end}).encode() if "end" in lines[-1] else b""))
        try:
            found_here = verify(path, key=VerifierKey.parse(key), trusted=trusted)
        except ValueError as error:
            found_here = [Finding(str(error), False)]
        by_program = {
            "tombola": [{None: "open   ", False: "FAILED "}[one.ok] + one.text for one in found_here if not one.ok],
            "node": [line for line in in_node(path.name).splitlines() if not line.startswith("ok")],
        }
        for program, doubts in by_program.items():
            if not re.search(name if name.startswith(TEXTS) else "^(FAILED|error)", "\n".join(doubts), re.MULTILINE):
                missed.append((name, program))
    assert missed == []
