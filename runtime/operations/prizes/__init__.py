"""Prizes: their stock, caps and delivery, and the pools of codes of those that are vouchers."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.prizes.codes import import_codes
from runtime.operations.prizes.pool import expire_codes, list_codes, withdraw_codes
from runtime.operations.prizes.prize_admin import (
    create_prize,
    delete_prize,
    get_prize,
    list_prize_summary,
    list_prizes,
    update_prize,
)
from runtime.operations.prizes.stock import list_stock_moves, move_stock
from runtime.operations.row import DESIGNERS, REWARD_MANAGERS, STAFF, Command, Operation

ROWS: Final = (
    Operation(
        "CreatePrize",
        "POST /prizes",
        run=create_prize,
        resource="prize",
        admin=DESIGNERS,
        stales=True,
        confides=True,
        refusals=("APPROVAL_NEEDED",),
        example={
            "name": "Fair mug",
            "type": "goods",
            "value": 8,
            "campaign_id": samples.CAMPAIGN,
            "stock": {"total": 100},
            "constraints": {"max_per_user": 1, "max_per_day": 20},
            "fulfillment": {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"},
            "expires_after_days": 30,
            "description": "Stoneware, holds a pint.",
            "image_url": "https://example.com/mug.png",
            "terms": "To be fetched at the stall.",
            "currency": "EUR",
        },
        command=Command(
            "prizes create FILE",
            "Make a prize of a file.",
            says="{prize_id} {name}",
        ),
    ),
    Operation("GetPrize", "GET /prizes/{id}", run=get_prize, admin=STAFF),
    Operation("ListPrizes", "GET /prizes", run=list_prizes, admin=STAFF),
    Operation(
        "UpdatePrize",
        "PUT /prizes/{id}",
        run=update_prize,
        resource="prize",
        admin=DESIGNERS,
        stales=True,
        refusals=("STOCK_BELOW_AWARDED", "IN_USE", "APPROVAL_NEEDED"),
        example={"stock": {"total": 150}},
        command=Command(
            "prizes update PRIZE FILE",
            "Set the fields of a prize that a file gives; the others stay.",
            help={"prize": "Its id."},
            says="{prize_id} {name}",
        ),
    ),
    Operation(
        "DeletePrize", "DELETE /prizes/{id}", run=delete_prize, admin=DESIGNERS, stales=True, refusals=("IN_USE",)
    ),
    Operation(
        "ListPrizeSummary",
        "GET /prizes/summary",
        run=list_prize_summary,
        admin=STAFF,
        command=Command(
            "prizes list --status --campaign --type --q --most",
            "List prizes with what is left of them, the newest first.",
            help={
                "status": "Only those of this status: active, archived. All but archived where it is left out.",
                "type": "Only those of this type, such as goods.",
            },
            columns="id=prize_id, prize=name, type, left={:left}, given=awarded, codes={:pool}",
        ),
    ),
    Operation(
        "MoveStock",
        "POST /prizes/{id}/stock",
        run=move_stock,
        admin=DESIGNERS,
        stales=True,
        refusals=("STOCK_BELOW_AWARDED",),
        example={"change": 50, "reason": "the potter delivered"},
        command=Command(
            "prizes stock PRIZE --reason! --change --total --[no-]unlimited --key",
            "Move a prize's stock: by `change`, or to `total`, or to unlimited.",
            help={
                "prize": "Its id.",
                "reason": "Why: it stays beside the move.",
                "change": "How many more, or fewer, there are.",
                "total": "How many there are in all.",
                "unlimited": "There are as many as are won.",
                "key": "An Idempotency-Key: under one it is moved once, however often this is run.",
            },
            says="{total_before:stock} -> {total_after:stock}",
        ),
    ),
    Operation("ListStockMoves", "GET /prizes/{id}/stock/moves", run=list_stock_moves, admin=STAFF),
    Operation(
        "ImportCodes",
        "POST /prizes/{id}/codes",
        run=import_codes,
        admin=REWARD_MANAGERS,
        lengthy=True,
        streamed=True,
        stales=True,
        example={"codes": ["CIDER-0007", "CIDER-0008"]},
    ),
    Operation(
        "ListCodes",
        "GET /prizes/{id}/codes",
        run=list_codes,
        admin=STAFF,
        command=Command(
            "codes list PRIZE --state --most",
            "List a prize's codes by their ids, the newest first; those that were won by their last characters, too.",
            help={"prize": "The prize's id."},
            columns="id, code=masked, state, reward=reward_id",
        ),
    ),
    Operation(
        "WithdrawCodes",
        "POST /prizes/{id}/codes/withdraw",
        run=withdraw_codes,
        admin=REWARD_MANAGERS,
        lengthy=True,
        stales=True,
        example={"ids": ["code_01kgk3v9d3w7q1x8m2z6b5t4ch"], "reason": "printed twice"},
        command=Command(
            "codes withdraw PRIZE CODES...=ids --all-free --reason",
            "Take codes out of a prize's pool for good. Ends with 1 where one was won, or withdrawn, before.",
            help={
                "prize": "The prize's id.",
                "codes": "The codes' ids, as `tombola codes list` shows them.",
                "all_free": "Withdraw every free one instead.",
                "reason": "Why, for the audit log.",
            },
            confirm="Withdraw {:which_codes}?",
            says="{withdrawn:,} withdrawn, {available:,} free still",
            kept="{id}: {state:code_state}",
        ),
    ),
    Operation(
        "ExpireCodes",
        "POST /prizes/{id}/codes/expiry",
        run=expire_codes,
        admin=REWARD_MANAGERS,
        lengthy=True,
        stales=True,
        example={"all_free": True, "expires_at": 1_924_992_000, "reason": "the shop takes them for another season"},
        command=Command(
            "codes expire PRIZE CODES...=ids --until=expires_at --never --all-free --all-expired --ending --reason",
            "Set when codes of a prize's pool end. Ends with 1 where one was won, or withdrawn, before.",
            help={
                "prize": "The prize's id.",
                "codes": "The codes' ids, as `tombola codes list` shows them.",
                "until": "Until when they are given out: unix seconds, ISO 8601, or a last day such as 2026-12-31 "
                "(UTC).",
                "never": "They are given out for ever.",
                "all_free": "Every free one instead.",
                "all_expired": "Every expired one instead: they can be won again.",
                "ending": "Of every free or expired one, those alone that end then.",
                "reason": "Why, for the audit log.",
            },
            confirm="Have {:which_codes} end {:until_when}?",
            says="{changed:,} changed, {available:,} free now",
            kept="{id}: {state:code_state}",
        ),
    ),
)
