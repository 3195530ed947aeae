"""Packs: codes that players enter, and receipts, for turns or a currency."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.packs.codes import generate_codes, import_pack_codes, withdraw_pack_codes
from runtime.operations.packs.pack_admin import (
    create_pack,
    delete_pack,
    get_pack,
    list_packs,
    list_player_redemptions,
    list_redemptions,
    update_pack,
)
from runtime.operations.packs.receipts import report_receipt, rotate_pack_secret, verify_receipt
from runtime.operations.packs.redemption import redeem_code
from runtime.operations.row import (
    DESIGNERS,
    REWARD_MANAGERS,
    SIGNED,
    STAFF,
    Access,
    Command,
    Consumer,
    Operation,
    RoutePolicy,
)
from runtime.wire.shape import Shape

_PACK: Final = {"pack": "The pack's id."}
_GRANTED: Final = {"granted": Shape(optional=frozenset({"turns", "tickets"}))}

REPORT_RECEIPT: Final = Operation(
    "ReportReceipt",
    "POST /packs/{id}/receipts",
    run=report_receipt,
    admin=SIGNED,
    refusals=(
        "CAMPAIGN_CLOSED",
        "CODE_ENDED",
        "ENTRY_REQUIRED",
        "NOT_ELIGIBLE",
        "BALANCE_FULL",
        "IDEMPOTENCY_MISMATCH",
        "UNKNOWN_PLAYER",
    ),
    example={"receipt_id": "till-7/4711", "player_id": "customer-81"},
    shape=Shape(without=frozenset({"guest_player_id"}), inner=_GRANTED, name="PaidReceipt"),
)
VERIFY_RECEIPT: Final = Operation(
    "VerifyReceipt",
    "POST /packs/{id}/receipts/verify",
    run=verify_receipt,
    while_suspended=True,
    example={
        "webhook_id": "msg_1",
        "webhook_timestamp": "1767225600",
        "webhook_signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        "body": '{"receipt_id": "till-7/4711", "player_id": "customer-81"}',
    },
)

ROWS: Final = (
    Operation(
        "CreatePack",
        "POST /packs",
        run=create_pack,
        resource="pack",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={"campaign_id": samples.CAMPAIGN, "name": "Bottle caps", "gives": {"turns": 1}},
        command=Command("packs create FILE", "Create a pack from a file.", outcome="{id} {name}"),
    ),
    Operation(
        "GetPack",
        "GET /packs/{id}",
        run=get_pack,
        admin=STAFF,
        command=Command("packs show PACK", "Show a pack and the counts of its codes."),
    ),
    Operation(
        "ListPacks",
        "GET /packs",
        run=list_packs,
        admin=STAFF,
        command=Command(
            "packs list --status --campaign --q",
            "List packs, newest first.",
            help={"status": "Only packs with this status: active, paused, archived. Default: all but archived."},
            columns="id, pack=name, status, codes, free, used, withdrawn, receipts",
        ),
    ),
    Operation(
        "UpdatePack",
        "PUT /packs/{id}",
        run=update_pack,
        resource="pack",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={"status": "PACK_STATUS_PAUSED"},
        command=Command(
            "packs update PACK FILE",
            "Update a pack with the fields in a file; other fields are unchanged.",
            help=_PACK,
            outcome="{id} {name}",
        ),
    ),
    Operation(
        "DeletePack",
        "DELETE /packs/{id}",
        run=delete_pack,
        admin=DESIGNERS,
        invalidates_cache=True,
        command=Command(
            "packs remove PACK",
            "Remove a pack, or archive it if it has codes or receipts.",
            help=_PACK,
            confirm="Remove {pack}? Its codes can no longer be entered.",
            outcome="{pack} is {archived:removed}",
        ),
    ),
    Operation(
        "ImportPackCodes",
        "POST /packs/{id}/codes",
        run=import_pack_codes,
        admin=REWARD_MANAGERS,
        streamed=True,
        refusals=("ILLEGAL_TRANSITION",),
        example={"codes": ["AB4K-7Q2M-9XPD-31TW"]},
    ),
    Operation(
        "GenerateCodes",
        "POST /packs/{id}/codes/generate",
        run=generate_codes,
        admin=REWARD_MANAGERS,
        confidential=True,
        refusals=("ILLEGAL_TRANSITION",),
        example={"count": 1_000},
    ),
    Operation(
        "WithdrawPackCodes",
        "POST /packs/{id}/codes/withdraw",
        run=withdraw_pack_codes,
        admin=REWARD_MANAGERS,
        example={"codes": ["AB4K-7Q2M-9XPD-31TW"], "reason": "the delivery was lost"},
        command=Command(
            "packs withdraw PACK CODES... --reason",
            "Withdraw unused codes for good.",
            help={**_PACK, "codes": "The codes.", "reason": "The reason, for the audit log."},
            outcome="{withdrawn} withdrawn, {kept} unchanged",
        ),
    ),
    Operation(
        "ListRedemptions",
        "GET /packs/{id}/redemptions",
        run=list_redemptions,
        admin=STAFF,
        command=Command(
            "packs redemptions PACK",
            "List the codes and receipts that players redeemed, newest first.",
            help=_PACK,
            columns="id, player=player_id, receipt=receipt_id, when={redeemed_at:minute}",
        ),
    ),
    Operation("ListPlayerRedemptions", "GET /players/{id}/redemptions", run=list_player_redemptions, admin=STAFF),
    Operation(
        "RedeemCode",
        "POST /codes/redeem",
        run=redeem_code,
        consumer=Consumer(Access.EITHER, RoutePolicy.ACT),
        bounded=True,
        refusals=(
            "UNKNOWN_CODE",
            "CODE_USED",
            "CODE_ENDED",
            "CODE_UNAVAILABLE",
            "CAMPAIGN_CLOSED",
            "ENTRY_REQUIRED",
            "NOT_ELIGIBLE",
            "BALANCE_FULL",
            "RATE_LIMITED",
            "TOKEN_MISSING",
            "LOGIN_REQUIRED",
            "UNKNOWN_CAMPAIGN",
            "UNKNOWN_TENANT",
        ),
        example={"campaign_id": samples.CAMPAIGN, "code": "AB4K-7Q2M-9XPD-31TW"},
        shape=Shape(without=frozenset({"guest_player_id"}), added=frozenset({"guest_token"}), inner=_GRANTED),
    ),
    Operation(
        "RotatePackSecret",
        "POST /packs/{id}/rotate-secret",
        run=rotate_pack_secret,
        admin=REWARD_MANAGERS,
        example={},
        command=Command(
            "packs rotate-secret PACK --end-previous",
            "Create a secret for a pack's receipts and print it once; a previous one stays valid.",
            help={**_PACK, "end_previous": "Create no secret; instead, end the previous one."},
            outcome="{id} {name}\n{secret}",
        ),
    ),
    REPORT_RECEIPT,
    VERIFY_RECEIPT,
)
