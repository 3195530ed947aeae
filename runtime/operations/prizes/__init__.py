"""Prizes: stock, caps, delivery, and the code pools of voucher prizes."""

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
        invalidates_cache=True,
        confidential=True,
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
            "Create a prize from a file.",
            outcome="{prize_id} {name}",
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
        invalidates_cache=True,
        refusals=("STOCK_BELOW_AWARDED", "IN_USE", "HAS_HISTORY", "FROZEN", "APPROVAL_NEEDED"),
        example={"stock": {"total": 150}},
        command=Command(
            "prizes update PRIZE FILE",
            "Update a prize with the fields in a file; other fields are unchanged.",
            help={"prize": "The prize's id."},
            outcome="{prize_id} {name}",
        ),
    ),
    Operation(
        "DeletePrize",
        "DELETE /prizes/{id}",
        run=delete_prize,
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("IN_USE", "FROZEN"),
    ),
    Operation(
        "ListPrizeSummary",
        "GET /prizes/summary",
        run=list_prize_summary,
        admin=STAFF,
        command=Command(
            "prizes list --status --campaign --type --q --most",
            "List prizes and their remaining stock, newest first.",
            help={
                "status": "Only prizes with this status: active, archived. Default: all but archived.",
                "type": "Only prizes of this type, such as goods.",
            },
            columns="id=prize_id, prize=name, type, left={:remaining}, given=awarded, codes={:pool}",
        ),
    ),
    Operation(
        "MoveStock",
        "POST /prizes/{id}/stock",
        run=move_stock,
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("STOCK_BELOW_AWARDED", "FROZEN"),
        example={"change": 50, "reason": "the potter delivered"},
        command=Command(
            "prizes stock PRIZE --reason! --change --total --[no-]unlimited",
            "Change a prize's stock: by `change`, to `total`, or to unlimited.",
            help={
                "prize": "The prize's id.",
                "reason": "The reason, stored with the change.",
                "change": "The units to add, or to remove if negative.",
                "total": "The new total.",
                "unlimited": "Make the stock unlimited.",
            },
            outcome="{total_before:stock} -> {total_after:stock}",
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
        invalidates_cache=True,
        example={"codes": ["CIDER-0007", "CIDER-0008"]},
    ),
    Operation(
        "ListCodes",
        "GET /prizes/{id}/codes",
        run=list_codes,
        admin=STAFF,
        command=Command(
            "codes list PRIZE --state --most",
            "List a prize's codes by id, newest first; assigned codes also show their last characters.",
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
        invalidates_cache=True,
        refusals=("FROZEN",),
        example={"ids": ["code_01kgk3v9d3w7q1x8m2z6b5t4ch"], "reason": "printed twice"},
        command=Command(
            "codes withdraw PRIZE CODES...=ids --all-free --reason",
            "Withdraw codes from a prize's pool permanently. Exits with 1 if one was already assigned or withdrawn.",
            help={
                "prize": "The prize's id.",
                "codes": "The codes' ids, as `tombola codes list` shows them.",
                "all_free": "Withdraw every free code instead.",
                "reason": "The reason, for the audit log.",
            },
            confirm="Withdraw {:which_codes}?",
            outcome="{withdrawn:,} withdrawn, {available:,} free",
            failure="{id}: {state:code_state}",
        ),
    ),
    Operation(
        "ExpireCodes",
        "POST /prizes/{id}/codes/expiry",
        run=expire_codes,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("FROZEN",),
        example={"all_free": True, "expires_at": 1_924_992_000, "reason": "the shop takes them for another season"},
        command=Command(
            "codes expire PRIZE CODES...=ids --until=expires_at --never --all-free --all-expired --ending --reason",
            "Set the expiry of a prize's codes. Exits with 1 if one was already assigned or withdrawn.",
            help={
                "prize": "The prize's id.",
                "codes": "The codes' ids, as `tombola codes list` shows them.",
                "until": "The new expiry: unix seconds, ISO 8601, or a last day such as 2026-12-31 (UTC).",
                "never": "The codes do not expire.",
                "all_free": "Every free code instead.",
                "all_expired": "Every expired code instead; they can be won again.",
                "ending": "With --all-free or --all-expired: only codes that expire at this time.",
                "reason": "The reason, for the audit log.",
            },
            confirm="Set the expiry of {:which_codes} to {:until_when}?",
            outcome="{changed:,} changed, {available:,} free now",
            failure="{id}: {state:code_state}",
        ),
    ),
)
