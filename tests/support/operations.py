"""A tenant with one thing of every kind, and what to ask of every operation: for tests that loop over them all.

An operation that is added has to be given its body here (`BODIES`), or those tests fail by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from runtime import ids
from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import fields_of
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import Stack

Ids = dict[str, str]
Body = dict[str, Any]

RECEIVER: Final = "http://203.0.113.7/hook"
"""An address for documentation (RFC 5737): nothing is ever sent there in these tests."""

BY_PATH: Final = {
    "campaigns": "campaign",
    "public": "campaign",
    "games": "game",
    "plays": "play",
    "prizes": "prize",
    "rewards": "reward",
    "quests": "quest",
    "leaderboards": "leaderboard",
    "integrations": "integration",
    "fulfillment": "task",
}
"""A path's first part -> what its {id} is the id of."""

WITH_BODY: Final = tuple(row for row in OPERATIONS if row.verb in ("POST", "PUT"))


async def furnish(stack: Stack, player: str = "player_ann") -> Ids:
    """The ids of one thing of every kind, all of the stack's tenant and all used."""
    campaign_id = (await make_campaign(stack))["id"]
    channel = {"channel": "webhook", "redemption_mode": "on_claim", "config": {"url": RECEIVER}}
    prize_id = await make_prize(stack, campaign_id=campaign_id, fulfillment=channel)
    rung = {"name": "Ten", "currency": "points", "threshold": 1, "prize_id": prize_id}
    milestones = {"mode": "cumulative_unlock", "rungs": [rung]}
    made = await stack.admin("POST", "/admin/games", wheel(campaign_id, prize_id, milestones=milestones))
    game_id = made.data["id"]
    quest = {"campaign_id": campaign_id, "name": "Visit", "type": "one_time", "turns": 1, "status": "active"}
    board = {"campaign_id": campaign_id, "game_id": game_id, "name": "Best", "metric": "plays", "mode": "sum"}
    hook = {"type": "webhook", "events": ["play_completed"], "config": {"url": RECEIVER}, "campaign_id": campaign_id}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    merchant_id = (await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data["id"]
    session = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).data["session_id"]
    body = {"session_id": session, "payload": {}}
    played = (await stack.consumer("POST", f"/games/{game_id}/play", body, player=player)).data
    reward_id = played["rewards"][0]["reward_id"]
    assert (await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player)).data
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player)).data
    points = {"player_id": player, "scope_key": campaign_id, "currency": "points", "amount": 5, "reference_id": "r"}
    entry = (await stack.admin("POST", "/admin/wallet/adjustments", points)).data
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    integration_id = (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
    task = (await stack.admin("GET", "/admin/fulfillment/tasks")).data["items"][0]
    return {
        "campaign": campaign_id,
        "game": game_id,
        "prize": prize_id,
        "quest": quest_id,
        "leaderboard": board_id,
        "merchant": merchant_id,
        "integration": integration_id,
        "play": played["play_id"],
        "reward": reward_id,
        "task": task["id"],
        "entry": entry["id"],
        "session": session,
        "milestone": made.data["milestones"]["rungs"][0]["id"],
        "player": player,
    }


def unknown_like(known: Ids) -> Ids:
    """Ids of the same form and length that nothing has."""
    return {kind: re.sub(r"[0-9A-Za-z](?=[^_]*$)", "0", identifier) for kind, identifier in known.items()}


def path_of(operation: Operation, known: Ids) -> str:
    """The operation's path with its {id}."""
    if "{id}" not in operation.path:
        return operation.path
    return operation.path.replace("{id}", known[BY_PATH[operation.path.split("/")[1]]])


def _named(resource: str, **fields: Any) -> Callable[[Ids], Body]:
    return lambda known: {resource: {"name": "Other", **fields}}


def _game(known: Ids) -> Body:
    rung = {"id": "rung_b", "name": "Ten", "currency": "points", "threshold": 3, "prize_id": known["prize"]}
    more = {
        "rules": {"max_plays_per_user": 9, "max_plays_per_day": 3, "requires_turn": False},
        "ui": {"theme": {"primary": "#fff"}},
        "milestones": {"mode": "cumulative_unlock", "auto_grant": False, "rungs": [rung]},
        "seed_generator": "none",
        "validator": "basic",
    }
    return {"game": wheel(known["campaign"], known["prize"], **more)}


def _prize(known: Ids) -> Body:
    return {
        "prize": {
            "name": "Mug",
            "type": "goods",
            "value": 5,
            "campaign_id": known["campaign"],
            "stock": {"total": 100},
            "constraints": {"max_per_user": 50, "max_per_day": 60},
            "fulfillment": {"redemption_mode": "on_claim", "channel": "webhook", "config": {"url": RECEIVER}},
            "expires_after_days": 3,
        }
    }


def _quest(known: Ids) -> Body:
    fields = {"description": "Come by", "type": "one_time", "turns": 1, "status": "active", "start_date": 1}
    return {"quest": {"campaign_id": known["campaign"], "name": "Visit", **fields}}


def _board(known: Ids) -> Body:
    prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": known["prize"]}]
    fields = {"name": "Best", "metric": "plays", "mode": "sum", "prizes": prizes}
    return {"leaderboard": {"campaign_id": known["campaign"], "game_id": known["game"], **fields}}


def _integration(known: Ids) -> Body:
    fields = {"type": "webhook", "events": ["prize_won"], "config": {"url": RECEIVER}}
    return {"integration": {"campaign_id": known["campaign"], **fields}}


def _contact(known: Ids) -> Body:
    return {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": "ann@example.com"}}


def _player(known: Ids) -> Body:
    return {"player_id": known["player"]}


def _nothing(known: Ids) -> Body:
    return {}


BODIES: Final[dict[str, Callable[[Ids], Body]]] = {
    "CreateCampaign": _named("campaign", timezone="UTC", settings={"a": 1}, start_date=1, end_date=4_000_000_000),
    "UpdateCampaign": _named("campaign"),
    "DuplicateCampaign": lambda known: {"name": "Copy"},
    "CreateGame": _game,
    "UpdateGame": _game,
    "Start": _player,
    "Play": lambda known: {**_player(known), "session_id": known["session"], "payload": {}, "client_seed": "x"},
    "ReplayPlay": _nothing,
    "CreatePrize": _prize,
    "UpdatePrize": _prize,
    "ImportCodes": lambda known: {"codes": ["AAAA-1"]},
    "AdjustBalance": lambda known: {
        **_player(known),
        "scope_key": known["campaign"],
        "currency": "points",
        "amount": 5,
        "reference_id": "because",
    },
    "Redeem": lambda known: {**_player(known), "milestone_id": known["milestone"]},
    "ClaimReward": _player,
    "FulfillReward": lambda known: {"note": "by hand"},
    "RevokeReward": lambda known: {"reason": "a mistake"},
    "CreateQuest": _quest,
    "UpdateQuest": _quest,
    "CompleteQuest": _player,
    "ResolvePlayer": _contact,
    "UpdatePlayer": lambda known: {
        **_player(known),
        "player": {"display_name": "Ann", "avatar_url": "https://example.com/a.png", "locale": "en", "attributes": {}},
    },
    "LinkContact": lambda known: {**_player(known), **_contact(known)},
    "CreateLeaderboard": _board,
    "UpdateLeaderboard": _board,
    "FinalizeLeaderboard": _nothing,
    "DisqualifyPlayer": lambda known: {**_player(known), "reason": "cheated"},
    "AdjustScore": lambda known: {**_player(known), "delta": 3, "reason": "a bonus"},
    "CreateIntegration": _integration,
    "EmitEvent": lambda known: {"type": "prize_won", "campaign_id": known["campaign"], "data": {"a": 1}},
    "RetryTask": _nothing,
    "CompleteTask": lambda known: {"status": "delivered", "external_id": "x", "callback_id": ids.make("event")},
    "VerifyCallback": lambda known: {
        "webhook_id": "msg_1",
        "webhook_timestamp": "1767225600",
        "webhook_signature": "v1,AAAA",
        "body": "{}",
    },
    "CreateTenant": _named("tenant"),
    "CreateMerchant": _named("merchant"),
}
"""A body that each operation takes, as Core has it, without the scope."""


def body_of(operation: Operation, known: Ids) -> Body:
    """The operation's body on Core, without the scope."""
    return BODIES[operation.name](known)


def edge_body(operation: Operation, known: Ids) -> Body:
    """The operation's body on an edge: the resource itself, and nobody's player_id on the consumer edge."""
    body = body_of(operation, known)
    return dict(body[operation.resource]) if operation.resource else body


def is_list(operation: Operation) -> bool:
    """True where the reply is a collection."""
    return "items" in fields_of(operation.reply)
