"""The receipt of a play: all that anybody needs to decide the play again, without a server.

`tombola verify` (runtime/commands/evidence/receipts.py) and runtime/web/verifiers/verify.mjs check one.
"""

from __future__ import annotations

from typing import Any, Final

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.sessions import commitment_of
from runtime.errors import invalid, unknown
from runtime.operations.campaigns.archives import refuse_archived_play
from runtime.operations.log.proofs import prove_play
from runtime.operations.plays import ERASED, QUERIES, play_record
from runtime.operations.row import STAFF, Access, Command, Consumer, Operation
from runtime.rules import Words
from runtime.rules.replay import RECEIPT_FORMAT
from runtime.wire.scope import merchant_of, tenant_of
from runtime.wire.shape import Shape


async def get_play_receipt(engine: Engine, request: m.GetPlayReceiptRequest) -> m.PlayReceiptReply:
    """The receipt of a play: its terms, seeds, words, decision path, outcome and rewards.

    `tombola verify` checks it without a server. Players get the receipts of their own plays, with the terms only if
    SHOW_ODDS is on. NOT_FOUND UNKNOWN_PLAY, or PLAY_ARCHIVED: the play is in the dossier of its campaign.
    """
    if request.for_players and not request.player_id:
        raise invalid("player_id", "is required")
    # The player's merchant does not restrict the player's own plays.
    merchant_id = "" if request.for_players else merchant_of(request)
    row = await engine.database.fetchrow(QUERIES["play"], tenant_of(request), request.id, merchant_id)
    if row is None:
        asker = {"merchant_id": merchant_id, "player_id": request.player_id}
        await refuse_archived_play(engine, tenant_of(request), request.id, **asker)
    if row is None or (request.player_id and row["player_id"] != request.player_id):
        raise unknown("play", request.id)
    receipt = _receipt(row)
    if not receipt.client_seed and not receipt.payload:  # An erasure has cleared both.
        about = (tenant_of(request), row["player_id"], receipt.played_at)
        receipt.erased = bool(await engine.database.fetchval(ERASED, *about))
    receipt.log = await prove_play(engine, tenant_of(request), request.id)
    if receipt.log is not None and not receipt.log.pending:
        receipt.log.payload, receipt.log.outcome = row["stored_payload"], row["stored_outcome"]
    return m.PlayReceiptReply(receipt=receipt)


def _receipt(row: Any) -> m.PlayReceipt:
    play, decided = play_record(row), row["outcome"]["decided"]
    return m.PlayReceipt(
        format=RECEIPT_FORMAT,
        play_id=play.id,
        game_id=play.game_id,
        session_id=play.session_id,
        played_at=play.played_at,
        revision=play.revision,
        revision_hash=play.revision_hash,
        terms=(row["terms"] or b"").decode(),
        commitment=commitment_of(play.seed_hash, play.revision_hash, play.session_id),
        seed_hash=play.seed_hash,
        seed=play.seed,
        client_seed=play.client_seed,
        payload=row["payload"],
        words=_words(Words(row["seed"], row["client_seed"]), decided["path"]),
        outcome=decided,
        rewards=play.rewards,
    )


def _words(words: Words, path: list[Any]) -> list[m.DrawWord]:
    """The words that the path used, computed again from the seeds."""
    used = [step[1] for step in path if isinstance(step, list) and step[:1] == ["word"]]
    return [m.DrawWord(index=i, bytes=words.first_bytes(i).hex(), value=words.word(i)) for i in used]


ROWS: Final = (
    Operation(
        "GetPlayReceipt",
        "GET /plays/{id}/receipt",
        run=get_play_receipt,
        consumer=Consumer(Access.PLAYER, marks="for_players", setting="show_odds", withholds="terms"),
        admin=STAFF,
        refusals=("PLAY_ARCHIVED",),
        shape=Shape(opened="receipt", inner={"receipt": Shape(optional=frozenset({"log"}))}),
        command=Command("games receipt PLAY", "Print the receipt of a play, for `tombola verify`.", as_json=True),
    ),
)
