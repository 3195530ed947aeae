"""Examples for the OpenAPI documents: of every response and of every body.

Responses are built field by field from values by name. Bodies are the operation rows' examples, in the edges' form;
`core_body` converts them to Core's. A test validates each example against its schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from runtime.operations import Operation, samples
from runtime.wire.codec import Int64As
from runtime.wire.schema import Field, Kind, fields_of
from runtime.wire.shape import Shape, apply

_SEED: Final = "4c1f0d9e8b7a65544332211000ffeeddccbbaa99887766554433221100ffeedd"
_SEED_HASH: Final = hashlib.sha256(bytes.fromhex(_SEED)).hexdigest()

_TERMS: Final = (
    f'{{"fallback_prize_id":"","game_id":"{samples.GAME}","handler_config":{{"prizes":[{{"prize_id":"{samples.PRIZE}",'
    f'"probability":0.05}}]}},"on_unavailable":"lose","prizes":[["{samples.PRIZE}","Fair mug","voucher",8.0]],'
    '"reward_handler":"probability","seed_generator":"none","validator":"basic"}'
)

_REVISION_HASH: Final = hashlib.sha256(_TERMS.encode()).hexdigest()

_TEXTS: Final[Mapping[str, str]] = {
    "campaign_id": samples.CAMPAIGN,
    "game_id": samples.GAME,
    "prize_id": samples.PRIZE,
    "player_id": samples.PLAYER,
    "reward_id": "reward_01kgk3wq7tfk1rb3m8ec5ya6zn",
    "play_id": "play_01kgk3wq7sew89vt4xd2hb6jpf",
    "milestone_id": samples.MILESTONE,
    "leaderboard_id": "board_01kgk3vd8mfa2b",
    "quest_id": "quest_01kgk3vcf5ejhd",
    "integration_id": "integ_01kgk3vf3pes7k",
    "merchant_id": "merchant_01kgk3tz",
    "tenant_id": "tenant_01kgk3tx",
    "session_id": samples.SESSION,
    "reference_id": "play_01kgk3wq7sew89vt4xd2hb6jpf",
    "event_id": "evt_01kgk3wq9he7a",
    "scope_key": samples.CAMPAIGN,
    "currency": "points",
    "timezone": "Europe/Berlin",
    "type": "voucher",
    "channel": "voucher_code",
    "seed": _SEED,
    "seed_hash": _SEED_HASH,
    "commitment": hashlib.sha256(f"{_SEED_HASH}:{_REVISION_HASH}:{samples.SESSION}".encode()).hexdigest(),
    "revision_hash": _REVISION_HASH,
    "terms": _TERMS,
    "unavailable": samples.PRIZE,
    "check": "prize_awarded",
    "holds": "The awarded units of a prize are those that its rewards hold.",
    "expected": "11",
    "found": "12",
    "client_seed": "clover",
    "value": "ada@example.com",
    "display_name": "Ada",
    "avatar_url": "https://example.com/ada.png",
    "locale": "de-DE",
    "day": "2026-03-01",
    "next_cursor": "",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "actor": "staff_ines",
    "action": "game.update",
    "subject_type": "game",
    "subject_id": samples.GAME,
    "event_type": "prize_won",
    "seed_generator": "none",
    "reward_handler": "probability",
    "validator": "basic",
    "at": "",
    "code": "CIDER-0007",
    "reason": "",
    "error": "",
    "last_error": "",
    "fallback_prize_id": "",
}
_IDS: Final[Mapping[str, str]] = {
    "Campaign": samples.CAMPAIGN,
    "Game": samples.GAME,
    "Render": samples.GAME,
    "Prize": samples.PRIZE,
    "Player": samples.PLAYER,
    "Reward": _TEXTS["reward_id"],
    "RewardRecord": _TEXTS["reward_id"],
    "PlayRecord": _TEXTS["play_id"],
    "Rung": _TEXTS["milestone_id"],
    "MilestoneProgress": _TEXTS["milestone_id"],
    "GrantedMilestone": _TEXTS["milestone_id"],
    "Leaderboard": _TEXTS["leaderboard_id"],
    "Quest": _TEXTS["quest_id"],
    "Integration": _TEXTS["integration_id"],
    "Tenant": _TEXTS["tenant_id"],
    "Merchant": _TEXTS["merchant_id"],
    "PlannedDrop": "drop_0",
    "Contact": "contact_01kgk3w4",
    "LedgerEntry": "entry_01kgk3wq",
    "Task": "task_01kgk3wq",
    "AuditEntry": "audit_01kgk3wr",
    "Violation": "violation_01kgk3wt",
    "IntegrationDelivery": "delivery_01kgk3ws",
}
_NAMES: Final[Mapping[str, str]] = {
    "Campaign": "Spring sale",
    "Game": "Spring wheel",
    "Render": "Spring wheel",
    "Quest": "Visit the stall",
    "Leaderboard": "Best of spring",
    "Tenant": "Fair & Co.",
    "Merchant": "Main street",
    "Rung": "Five stars",
    "MilestoneProgress": "Five stars",
    "GrantedMilestone": "Five stars",
}
_TYPES: Final[Mapping[str, str]] = {"Game": "spin_wheel", "Render": "spin_wheel", "PlannedDrop": "star"}
_NUMBERS: Final[Mapping[str, int]] = {
    "created_at": 1_767_225_600,
    "updated_at": 1_767_225_600,
    "revision": 1,
    "quantity": 1,
    "rank": 1,
    "from_rank": 1,
    "to_rank": 3,
    "score": 420,
    "balance": 30,
    "balance_after": 30,
    "amount": 10,
    "threshold": 50,
    "turns": 3,
    "turns_granted": 3,
    "total": 100,
    "remaining": 99,
    "awarded": 1,
    "max_plays_per_day": 3,
    "plays": 120,
    "players": 80,
    "wins": 50,
    "added": 2,
    "available": 2,
    "codes_available": 2,
    "attempts": 1,
    "http_status": 200,
    "duration_ms": 31,
    "dispatched": 1,
    "free_plays_remaining": 2,
    "remaining_turns": 0,
    "resets_at": samples.LATER,
    "expires_at": samples.LATER,
    "played_at": 1_767_225_660,
    "promised_at": 1_767_225_600,
    "won_at": 1_767_225_660,
    "claimed_at": 1_767_225_720,
    "fulfilled_at": 1_767_225_720,
    "achieved_at": 1_767_225_660,
    "disqualified_at": 1_767_225_660,
    "first_seen_at": 1_767_225_660,
    "last_seen_at": 1_767_225_720,
}
_OBJECTS: Final[Mapping[str, dict[str, Any]]] = {
    "handler_config": {"prizes": [{"prize_id": samples.PRIZE, "probability": 0.05}]},
    "ui": {
        "theme": {"primary": "#c2410c", "accent": "#facc15"},
        "wheel": {"segments": [{"emoji": "☕", "prize_id": samples.PRIZE}, {"emoji": "🍃"}]},
    },
    "metadata": {"slot_index": 0},
    "settings": {"theme": {"primary": "#c2410c"}},
}
_SHOWN_ENUMS: Final[Mapping[str, str]] = {
    "RewardStatus": "REWARD_STATUS_FULFILLED",
    "TaskStatus": "TASK_STATUS_DELIVERED",
    "CampaignStatus": "CAMPAIGN_STATUS_ACTIVE",
    "GameStatus": "GAME_STATUS_ACTIVE",
    "QuestStatus": "QUEST_STATUS_ACTIVE",
    "ContactType": "CONTACT_TYPE_EMAIL",
    "AuthMethod": "AUTH_METHOD_EMAIL_OTP",
}
_FLAGS: Final = frozenset({"can_play", "matches", "verified", "delivered", "available", "created"})


def answer(message: Any, shape: Shape, int64_as: Int64As) -> dict[str, Any]:
    """An example response of a message."""
    return apply(shape, _shown(message, int64_as))


def _shown(message: Any, int64_as: Int64As) -> dict[str, Any]:
    return {name: _field(message.__name__, field, int64_as) for name, field in fields_of(message).items()}


def _field(owner: str, field: Field, int64_as: Int64As) -> Any:
    value = _value(owner, field, int64_as)
    return [value] if field.repeated else value


def _value(owner: str, field: Field, int64_as: Int64As) -> Any:
    name = field.name
    match field.kind:
        case Kind.TEXT if name == "id":
            return _IDS.get(owner, f"{owner.lower()}_01kgk3v6w5e9nb7q")
        case Kind.TEXT if name == "name":
            return _NAMES.get(owner, "Fair mug")
        case Kind.TEXT if name == "type":
            return _TYPES.get(owner, "voucher")
        case Kind.TEXT if name == "events":
            return "prize_won"
        case Kind.TEXT:
            return _TEXTS.get(name, "")
        case Kind.INT32:
            return _NUMBERS.get(name, 0)
        case Kind.INT64:
            number = _NUMBERS.get(name, 0)
            return str(number) if int64_as == "quoted" else number
        case Kind.NUMBER:
            return 0.6 if name == "progress" else 8.0
        case Kind.FLAG:
            return name in _FLAGS
        case Kind.ENUM:
            members = [member.proto_name for member in field.type]
            return _SHOWN_ENUMS.get(field.type.__name__, members[1])
        case Kind.MESSAGE:
            return _shown(field.type, int64_as)
        case Kind.MAP:
            return {"fulfilled": 40, "won": 10}
        case _:
            return _OBJECTS.get(name, {})


# -- bodies ----------------------------------------------------------------------------------


def core_body(operation: Operation) -> dict[str, Any]:
    """The example body in Core's form: with a scope and a player, the resource wrapped, int64 quoted."""
    body = dict(operation.example or {})
    if operation.resource:
        body = {operation.resource: body}
    if operation.of_player and "player_id" not in body:
        body = {"player_id": samples.PLAYER, **body}
    return {"scope": {"tenant_id": _TEXTS["tenant_id"]}, **_quoted(operation.request, body)}


def _quoted(message: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _quoted_value(fields_of(message)[name], value) for name, value in body.items()}


def _quoted_value(field: Field, value: Any) -> Any:
    if isinstance(value, list):
        one = Field(field.name, field.kind, field.type, False)
        return [_quoted_value(one, item) for item in value]
    if field.kind is Kind.INT64:
        return str(value)
    return _quoted(field.type, value) if field.kind is Kind.MESSAGE else value


def text(name: str) -> str:
    """An example value for a text field of this name."""
    return _TEXTS.get(name, "")
