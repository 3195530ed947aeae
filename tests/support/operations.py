"""A tenant with one thing of every kind, and what to ask of every operation: for tests that loop over them all.

What is asked are the rows' own examples. A kind of thing that is new is made from its maker's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

import sql
from runtime import ids
from runtime import messages as m
from runtime.operations import OPERATIONS, Operation, samples
from runtime.wire.schema import fields_of
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import Stack

Ids = dict[str, str]
Body = dict[str, Any]

RECEIVER: Final = "http://203.0.113.7/hook"
"""An address for documentation (RFC 5737): nothing is ever sent there in these tests."""

SUBJECTS: Final = frozenset(row.subject for row in OPERATIONS if row.subject)
"""Every kind of thing that a path names."""

WITH_BODY: Final = tuple(row for row in OPERATIONS if row.has_body)


async def furnish(stack: Stack, player: str = "player_ann", **campaign: Any) -> Ids:
    """The ids of one thing of every kind, all of the stack's tenant, of one campaign, and all used."""
    campaign_id = (await make_campaign(stack, **campaign))["id"]
    channel = {"channel": "webhook", "redemption_mode": "on_claim", "config": {"url": RECEIVER}}
    prize_id = await make_prize(stack, campaign_id=campaign_id, fulfillment=channel)
    assert (await stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": ["PERRY-0001"]})).data["added"]
    counted = {"unlimited": True, "reason": "counted"}
    assert (await stack.admin("POST", f"/admin/prizes/{prize_id}/stock", counted)).data
    rung = {"name": "Ten", "currency": "points", "threshold": 1, "prize_id": prize_id}
    milestones = {"mode": "cumulative_unlock", "rungs": [rung]}
    made = await stack.admin("POST", "/admin/games", wheel(campaign_id, prize_id, milestones=milestones))
    game_id = made.data["id"]
    quest = {"campaign_id": campaign_id, "name": "Visit", "type": "one_time", "turns": 1, "status": "active"}
    board = {"campaign_id": campaign_id, "game_id": game_id, "name": "Best", "metric": "plays", "mode": "sum"}
    hook = {"type": "webhook", "events": ["play_completed"], "config": {"url": RECEIVER}, "campaign_id": campaign_id}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    merchant_id = campaign.get("merchant_id") or await make_merchant(stack)
    started = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).data
    session = started["session_id"]
    body = {"session_id": session, "payload": {}}
    played = (await stack.consumer("POST", f"/games/{game_id}/play", body, player=player)).data
    reward_id = played["rewards"][0]["reward_id"]
    assert (await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player)).data
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player)).data
    assert (await stack.admin("POST", f"/admin/games/{game_id}/test-plays", {})).data
    points = {"player_id": player, "scope_key": campaign_id, "currency": "points", "amount": 5, "reference_id": "r"}
    entry = (await stack.admin("POST", "/admin/wallet/adjustments", points)).data
    contact = {"player_id": player, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": f"{player}@example.com"}}
    linked = await stack.core("POST", "/players/me/contacts", contact)
    begun = {"player_id": player, "login_id": f"login_{uuid.uuid4().hex}"}
    assert (await stack.core("POST", "/logins", begun)).http == 200
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    integration_id = (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
    task = (await stack.admin("GET", "/admin/fulfillment/tasks", campaign_id=campaign_id)).data["items"][0]
    violation_id = await make_violation(stack, campaign_id, prize_id)
    approval_id = await make_approval(stack, player, campaign_id, campaign.get("merchant_id", ""))
    token = {"name": "ci", "roles": ["designer"], "merchant_id": campaign.get("merchant_id", "")}
    known = {
        "token": (await stack.admin("POST", "/admin/tokens", token)).data["id"],
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
        "violation": violation_id,
        "approval": approval_id,
        "entry": entry["id"],
        "session": session,
        "revision": started["revision_hash"],
        "milestone": made.data["milestones"]["rungs"][0]["id"],
        "player": player,
        "contact": linked.data["contact"]["id"],
        "tenant": stack.tenant_id,
        "receiver": RECEIVER,
    }
    for row in OPERATIONS:
        if row.makes and row.scoped and row.resource not in known:
            body = edge_body(row, known)
            known[row.resource] = (await stack.admin("POST", f"/admin{row.path}", body)).data["id"]
    return known


async def make_merchant(stack: Stack) -> str:
    """The id of a new merchant."""
    return str((await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data["id"])


async def make_violation(stack: Stack, campaign_id: str, prize_id: str) -> str:
    """The id of a violation of a campaign, as the auditor notes one."""
    violation_id = ids.make("violation")
    await stack.database.execute(
        "INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, scope_key, expected, found,"
        " deviation, first_seen_at, last_seen_at) VALUES ($1, $2, 'prize_held', $3, $4, '1', '2', '1', now(), now())",
        *(stack.tenant_id, violation_id, prize_id, campaign_id),
    )
    return violation_id


async def make_approval(stack: Stack, player: str, scope_key: str, merchant_id: str) -> str:
    """The id of an adjustment that waits for a second person, as one is kept where a setting holds it back."""
    approval_id = ids.make("approval")
    scope = m.Scope(tenant_id=stack.tenant_id, merchant_id=merchant_id)
    request = m.AdjustBalanceRequest(scope=scope, player_id=player, scope_key=scope_key, currency="points", amount=5)
    shown = {"scope_key": scope_key, "currency": "points"}
    asked = (merchant_id, "AdjustBalance", "AdjustBalance", bytes(request), b"", None)
    about = (player, {}, shown, "somebody", b"")
    await stack.database.execute(sql.load("approvals")["keep"], stack.tenant_id, approval_id, *asked, *about)
    return approval_id


def unknown_like(known: Ids) -> Ids:
    """Ids of the same form and length that nothing has."""
    ids = {kind: re.sub(r"[0-9A-Za-z](?=[^_]*$)", "0", identifier) for kind, identifier in known.items()}
    return {**ids, "receiver": known["receiver"]}


def path_of(operation: Operation, known: Ids) -> str:
    """The operation's path with its {id}."""
    return operation.path.replace("{id}", known[operation.subject]) if operation.subject else operation.path


def edge_body(operation: Operation, known: Ids) -> Body:
    """The row's example, a body as the edges take it, about these things."""
    body: Body = _about(operation.example, known)
    return body


def body_of(operation: Operation, known: Ids) -> Body:
    """The operation's body on Core, without the scope."""
    body = edge_body(operation, known)
    if operation.resource:
        body = {operation.resource: body}
    return {"player_id": known["player"], **body} if operation.of_player else body


def whole_body(operation: Operation, known: Ids) -> Body:
    """As `body_of`; an update's resource with all that its maker's example gives."""
    body = body_of(operation, known)
    makers = (row for row in OPERATIONS if row.makes and row.resource and row.resource == operation.resource)
    for maker in makers:
        body[operation.resource] = {**edge_body(maker, known), **body[operation.resource]}
    return body


def _about(value: Any, known: Ids) -> Any:
    """A copy of an example that names what is known in place of what it made up."""
    if isinstance(value, Mapping):
        return {name: _about(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [_about(item, known) for item in value]
    if isinstance(value, str) and value in samples.STAND_FOR:
        return known[samples.STAND_FOR[value]]
    return value


def is_list(operation: Operation) -> bool:
    """True where the reply is a collection."""
    return "items" in fields_of(operation.reply)
