"""Rewards as they are read: a player's own, and an operator's search over everybody's.

What an admin is answered never has a code: the search's message has no field for it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.rewards import FIELDS, listed_for_owner
from runtime.errors import Fault, Status, invalid
from runtime.operations import reading
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.fulfillment import task_message
from runtime.operations.row import REWARD_MANAGERS
from runtime.outgoing.bodies import delivery_body
from runtime.outgoing.providers import ANSWER_CHARACTERS_MAX
from runtime.outgoing.vault import code_context, vault_of
from runtime.wire.contacts import spellings
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

HIDDEN: Final = "****"
"""What stands for an answer before those who may not read it."""

_SQL: Final = sql.load("rewards")
SENDS_NOTHING: Final = frozenset({"none", "voucher_code", "manual"})
"""Channels through which nobody outside is told anything."""

_NARROWED: Final = sql.load("desk")["rewards"]
_CODED: Final = sql.load("desk")["coded_prizes"]
_TOLD: Final = sql.load("desk")["told"]


async def list_rewards(engine: Engine, request: m.ListRewardsRequest) -> m.ListRewardsReply:
    """The player's rewards, newest first, narrowed by status, campaign, prize and game.

    A reward that was not claimed in time counts as expired from that moment on. The code is there once
    the reward is fulfilled, and gone when it is revoked; `code_error` says where no key opens it.
    """
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (request.player_id, token(request.status), request.campaign_id, request.prize_id, request.game_id)
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, *filters, key="reward_id")
    items = [listed_for_owner(engine, tenant_id, row) for row in rows]
    return m.ListRewardsReply(items=items, pagination=pagination)


async def get_reward(engine: Engine, request: m.GetRewardRequest) -> m.GetRewardReply:
    """One reward, and what its winner answered when claiming it: whole for who may move it, hidden from the others,
    as from a merchant's staff where the reward is the tenant's own.
    """
    row = await reading.one(engine, _SQL["get"], request, "reward")
    answers, reveal = [m.ClaimAnswer(**answer) for answer in row["answers"]], request.reveal and row["theirs"]
    if not reveal:
        for answer in answers:
            answer.value = HIDDEN
    told = await engine.database.fetchrow(_TOLD, tenant_of(request), request.id)
    delivery = None if told is None else _delivery(engine, tenant_of(request), told, reveal)
    return m.GetRewardReply(reward=_record(row), answers=answers, delivery=delivery)


def _delivery(engine: Engine, tenant_id: str, row: Any, reveal: bool) -> m.RewardDelivery:
    """A delivery with its attempts. What was sent is made anew, not kept a second time beside the reward and the
    winner's answers: so there is nothing more to be erased, and what is gone since is not shown.
    """
    delivery = m.RewardDelivery(
        task=task_message(row),
        tried_at=row["tried_at"],
        duration_ms=row["duration_ms"],
        answer=row["answer"],
        earlier=[m.DeliveryAttempt(**attempt) for attempt in row["earlier"]],
    )
    if row["tried_at"] and row["channel"] not in SENDS_NOTHING:
        shown = row["answers"] if reveal else [{**answer, "value": HIDDEN} for answer in row["answers"]]
        token = HIDDEN if row["secret_set"] else ""
        body = delivery_body(tenant_id, {**row, "answers": shown}, engine.settings.callback_url, token)
        delivery.request = msgspec.json.encode(body).decode()[:ANSWER_CHARACTERS_MAX]
    return delivery


async def search_rewards(engine: Engine, request: m.SearchRewardsRequest) -> m.SearchRewardsReply:
    """Every player's rewards, newest first, narrowed by status, campaign, prize, game and player, by a whole contact of
    the winner's, by a whole code, and by when they were won.

    What waits for an operator's hand is `status` CLAIMED of a prize whose redemption_mode is MANUAL. A
    reward that was not claimed in time counts as expired from that moment on.
    A code is looked for by who may move rewards alone, else it is PERMISSION_DENIED ROLE_REQUIRED: what is found tells
    that a guess was right, and lists show the ends of codes. By a contact or a code a merchant's staff finds
    what was won in its own campaigns alone.
    """
    if request.code and not request.reveal:
        roles = sorted(REWARD_MANAGERS.writers)
        message = f"a whole code may be looked for by a role of {', '.join(roles)}"
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", message, roles=roles)
    filters = (token(request.status), request.campaign_id, request.prize_id, request.game_id, request.player_id)
    asked = (tenant_of(request), *filters, merchant_of(request))
    statement = _SQL["search"]
    if request.contact or request.code or request.won_from or request.won_until:
        statement, asked = _NARROWED, (*asked, *await _further(engine, request))
    rows, pagination = await reading.page(engine, statement, request, *asked, key="reward_id")
    return m.SearchRewardsReply(items=[_record(row) for row in rows], pagination=pagination)


async def _further(engine: Engine, request: m.SearchRewardsRequest) -> tuple[Any, ...]:
    """What contact, code and times narrow a search to: $8 to $12 of `desk.rewards`."""
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.between("won_from", request.won_from, 0, TIME_MAX)
    checks.between("won_until", request.won_until, 0, TIME_MAX)
    checks.raise_found()
    contacts = spellings(request.contact) if request.contact else None
    prizes: list[str] | None = None
    hashes: list[bytes] | None = None
    if request.code:
        # A code is kept sealed: what finds it is a print of it, which is another for each prize and key.
        vault, prizes, hashes = vault_of(engine.keyring.code), [], []
        for row in await engine.database.fetch(_CODED, tenant_id):
            for made in vault.fingerprints(request.code.strip(), code_context(tenant_id, row["prize_id"])):
                prizes.append(row["prize_id"])
                hashes.append(made)
    return contacts, prizes, hashes, request.won_from, request.won_until


def _record(row: Any) -> m.RewardRecord:
    return m.RewardRecord(
        id=row["reward_id"],
        player_id=row["player_id"],
        status=enum(m.RewardStatus, row["status"]),
        answered=row["answered"],
        channel=row["channel"],
        **{name: row[name] for name in FIELDS},
    )
