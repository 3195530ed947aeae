"""A tenant with one thing of every kind, and what to ask of every operation: for tests that loop over them all."""

import base64
import re
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import sql
from runtime import ids
from runtime import messages as m
from runtime.operations import OPERATIONS, Operation, samples
from runtime.operations.reporting import views
from runtime.stores.database import at
from runtime.wire.schema import fields_of
from tests.support.resources import font, make_campaign, make_draw, make_prize, make_violation, wheel
from tests.support.stack import BROWSER, Stack

Ids = dict[str, str]
Body = dict[str, Any]

RECEIVER: Final = "http://203.0.113.7/hook"
"""A documentation address (RFC 5737): nothing is sent there."""

SUBJECTS: Final = frozenset(row.subject for row in OPERATIONS if row.subject)

WITH_BODY: Final = tuple(row for row in OPERATIONS if row.has_body)


async def furnish(stack: Stack, player: str = "player_ann", **campaign: Any) -> Ids:
    news = {"id": "news", "text": {"en": "Send me news."}}
    campaign_id = (await make_campaign(stack, **{"entry": {"consents": [news]}, **campaign}))["id"]
    sent = await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", {"consents": {"news": True}}, player=player)
    assert sent.data["missing"] == []
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
    raffle: dict[str, Any] = {"name": "Raffle", "tickets": {"currency": "points"}, "alternates": 1}
    draw_id = await make_draw(stack, campaign_id, prize_id, **raffle)
    drawn_id = await make_draw(stack, campaign_id, prize_id, "close", "draw", **raffle)
    pack = {"campaign_id": campaign_id, "name": "Caps", "gives": {"turns": 1}}
    pack_id = (await stack.admin("POST", "/admin/packs", pack)).data["id"]
    assert (await stack.admin("POST", f"/admin/packs/{pack_id}/codes", {"codes": ["CAP-0001"]})).data["added"]
    code = {"campaign_id": campaign_id, "code": "CAP-0001"}
    redeemed = (await stack.consumer("POST", "/codes/redeem", code, player=player)).data
    integration_id = (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
    assert (await stack.consumer("POST", f"/campaigns/{campaign_id}/views", {}, headers=BROWSER)).data == {}
    await at(stack.database, views.fold(stack.engine, stack.tenant_id))
    task = (await stack.admin("GET", "/admin/fulfillment/tasks", campaign_id=campaign_id)).data["items"][0]
    violation_id = await make_violation(stack, campaign_id, prize_id)
    approval_id = await make_approval(stack, player, campaign_id, campaign.get("merchant_id", ""))
    token = {"name": "ci", "roles": ["designer"], "merchant_id": campaign.get("merchant_id", "")}
    known = {
        "participant": sent.data["entry_id"],
        "token": (await stack.admin("POST", "/admin/tokens", token)).data["id"],
        "view": await stack.database.fetchval(
            "SELECT max(view_id) FROM campaign_views WHERE campaign_id = $1", campaign_id
        ),
        "asset": await make_asset(replace(stack, merchant_id=campaign.get("merchant_id", ""))),
        "revision": started["revision_hash"],
        "milestone": made.data["milestones"]["rungs"][0]["id"],
        "contact": linked.data["contact"]["id"],
    }
    known |= {"campaign": campaign_id, "game": game_id, "prize": prize_id, "quest": quest_id, "leaderboard": board_id}
    known |= {"draw": draw_id, "pack": pack_id, "redemption": redeemed["redemption_id"], "drawn": drawn_id}
    known |= {"merchant": merchant_id, "integration": integration_id, "play": played["play_id"], "reward": reward_id}
    known |= {"task": task["id"], "violation": violation_id, "approval": approval_id, "entry": entry["id"]}
    known |= {"session": session, "player": player, "tenant": stack.tenant_id, "receiver": RECEIVER}
    for row in OPERATIONS:
        if row.creates and row.scoped and row.resource not in known:
            body = edge_body(row, known)
            known[row.resource] = (await stack.admin("POST", f"/admin{row.path}", body)).data["id"]
    return known


async def make_asset(stack: Stack) -> str:
    """A font, with other bytes for each owner: equal files have equal ids, and two merchants with one share it."""
    body = font(expanded=1_000 + zlib.crc32(f"{stack.tenant_id} {stack.merchant_id}".encode()) % 1_000_000)
    content = base64.b64encode(body).decode()
    return str((await stack.admin("POST", "/admin/assets", {"content": content})).data["id"])


async def make_merchant(stack: Stack) -> str:
    return str((await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data["id"])


async def make_approval(stack: Stack, player: str, scope_key: str, merchant_id: str) -> str:
    approval_id = ids.make("approval")
    scope = m.Scope(tenant_id=stack.tenant_id, merchant_id=merchant_id)
    request = m.AdjustBalanceRequest(scope=scope, player_id=player, scope_key=scope_key, currency="points", amount=5)
    arguments = (merchant_id, "AdjustBalance", "AdjustBalance", bytes(request), b"", None)
    about = (player, {}, {"scope_key": scope_key, "currency": "points"}, "somebody", b"")
    await stack.database.execute(sql.load("approvals")["insert"], stack.tenant_id, approval_id, *arguments, *about)
    return approval_id


def unknown_like(known: Ids) -> Ids:
    ids = {kind: re.sub(r"[0-9A-Za-z](?=[^_]*$)", "0", identifier) for kind, identifier in known.items()}
    return {**ids, "receiver": known["receiver"]}


def path_of(operation: Operation, known: Ids) -> str:
    if operation.path in ("/draws/{id}/winners", "/draws/{id}/file") and "drawn" in known:
        return operation.path.replace("{id}", known["drawn"])
    return operation.path.replace("{id}", known[operation.subject]) if operation.subject else operation.path


def edge_body(operation: Operation, known: Ids) -> Body:
    return _about(operation.example, known)


def body_of(operation: Operation, known: Ids) -> Body:
    body = edge_body(operation, known)
    if operation.resource:
        body = {operation.resource: body}
    return {"player_id": known["player"], **body} if operation.of_player else body


def whole_body(operation: Operation, known: Ids) -> Body:
    body = body_of(operation, known)
    makers = (row for row in OPERATIONS if row.creates and row.resource and row.resource == operation.resource)
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
    return "items" in fields_of(operation.reply)
