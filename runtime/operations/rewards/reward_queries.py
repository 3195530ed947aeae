"""Reads rewards: a player's own list, and the staff's search over all players.

The search never returns a code: its message has no field for one.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import msgspec
import structlog

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.actors.idempotency import Replay
from runtime.actors.rewards import FIELDS, CodeUnavailable, listed_for_owner, open_code
from runtime.errors import Fault, Status, invalid
from runtime.operations import reading
from runtime.operations.campaigns.message_samples import from_row as message
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.fulfillment import task_message
from runtime.operations.row import REWARD_MANAGERS
from runtime.outgoing.bodies import delivery_body
from runtime.outgoing.providers import ANSWER_CHARACTERS_MAX
from runtime.outgoing.vault import code_context, vault_of
from runtime.stores.database import StoreUnavailable
from runtime.wire.contacts import spellings
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

log = structlog.get_logger(__name__)

_SQL: Final = sql.load("rewards")
SENDS_NOTHING: Final = frozenset({"none", "voucher_code", "manual"})
"""Channels that send no request to a receiver."""

_MESSAGES: Final = sql.load("messages")["of_player"]
MESSAGES_MAX: Final = 20
_FILTERED: Final = sql.load("desk")["rewards"]
_CODED: Final = sql.load("desk")["coded_prizes"]
_DELIVERY: Final = sql.load("desk")["delivery_of_reward"]


async def list_rewards(engine: Engine, request: m.ListRewardsRequest) -> m.ListRewardsReply:
    """Lists the player's rewards, newest first, filtered by status, campaign, prize and game.

    An unclaimed reward counts as expired from its deadline on. The code is present while the reward is fulfilled, and
    not once it is revoked. `code_error` is set if no key opens the code.
    """
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (request.player_id, token(request.status), request.campaign_id, request.prize_id, request.game_id, "")
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, *filters, key="reward_id")
    items = [listed_for_owner(engine, tenant_id, row) for row in rows]
    return m.ListRewardsReply(items=items, pagination=pagination)


async def add_code(engine: Engine, reply: m.RedeemReply | Replay) -> m.RedeemReply | Replay:
    """The reply with the code of a reward that was delivered at once, or `code_error`.

    The redemption is committed: if the database fails now, the reply has no code, and ListRewards has it later.
    """
    reward = (reply.reply if isinstance(reply, Replay) else reply).reward
    assert reward is not None, "every redemption gives a reward"
    if reward.status is not m.RewardStatus.FULFILLED or reward.type == "points":
        return reply
    tenant_id = trace.tenant.get()
    try:
        row = await engine.database.fetchrow(_SQL["code"], tenant_id, reward.id)
        if row is not None:
            reward.code = open_code(engine, tenant_id, row, reward.id, reward.prize_id)
    except CodeUnavailable as error:
        reward.code_error = error.reason
    except (StoreUnavailable, asyncpg.PostgresError) as error:
        log.warning("code_not_read", reward_id=reward.id, why=str(error))
    return reply


async def get_reward(engine: Engine, request: m.GetRewardRequest) -> m.GetRewardReply:
    """Returns one reward, its delivery and its winner's answers to the claim form.

    The answers are hidden from staff who may not act on the reward, such as a merchant's for a reward of the tenant.
    """
    row = await reading.one(engine, _SQL["get"], request, "reward")
    answers, reveal = [m.ClaimAnswer(**answer) for answer in row["answers"]], request.reveal and row["theirs"]
    if not reveal:
        for answer in answers:
            answer.value = reading.HIDDEN
    delivery_row = await engine.database.fetchrow(_DELIVERY, tenant_of(request), request.id)
    delivery = None if delivery_row is None else _delivery(engine, tenant_of(request), delivery_row, reveal)
    about = (row["player_id"], "", request.id, merchant_of(request), None, MESSAGES_MAX)
    messages = [message(one) for one in await engine.database.fetch(_MESSAGES, tenant_of(request), *about)]
    return m.GetRewardReply(reward=_record(row), answers=answers, delivery=delivery, messages=messages)


def _delivery(engine: Engine, tenant_id: str, row: Any, reveal: bool) -> m.RewardDelivery:
    """A delivery with its attempts. The request body is rebuilt from the reward and the answers, not stored: a stored
    copy would be one more to erase, and would show data that is erased since.
    """
    delivery = m.RewardDelivery(
        task=task_message(row),
        tried_at=row["tried_at"],
        duration_ms=row["duration_ms"],
        answer=row["answer"],
        earlier=[m.DeliveryAttempt(**attempt) for attempt in row["earlier"]],
    )
    if row["tried_at"] and row["channel"] not in SENDS_NOTHING:
        shown = row["answers"] if reveal else [{**answer, "value": reading.HIDDEN} for answer in row["answers"]]
        token = reading.HIDDEN if row["secret_set"] else ""
        body = delivery_body(tenant_id, {**row, "answers": shown}, engine.settings.callback_url, token)
        delivery.request = msgspec.json.encode(body).decode()[:ANSWER_CHARACTERS_MAX]
    return delivery


async def search_rewards(engine: Engine, request: m.SearchRewardsRequest) -> m.SearchRewardsReply:
    """Lists all players' rewards, newest first, filtered by status, campaign, prize, game, player, time of the win, and
    by a whole contact of the winner or a whole code.

    Rewards that await manual fulfillment have the `status` CLAIMED and a prize with the redemption_mode MANUAL. An
    unclaimed reward counts as expired from its deadline on.

    A search by code needs a role that may act on rewards (PERMISSION_DENIED ROLE_REQUIRED): a match confirms a guess,
    and lists show the ends of codes. By contact or code, a merchant's staff finds only wins in its own campaigns.
    """
    if request.code and not request.reveal:
        roles = sorted(REWARD_MANAGERS.writers)
        message = f"searching by code requires one of the roles {', '.join(roles)}"
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", message, roles=roles)
    filters = (token(request.status), request.campaign_id, request.prize_id, request.game_id, request.player_id)
    arguments = (tenant_of(request), *filters, merchant_of(request))
    statement = _SQL["search"]
    if request.contact or request.code or request.won_from or request.won_until:
        statement, arguments = _FILTERED, (*arguments, *await _filters(engine, request))
    rows, pagination = await reading.page(engine, statement, request, *arguments, key="reward_id")
    return m.SearchRewardsReply(items=[_record(row) for row in rows], pagination=pagination)


async def _filters(engine: Engine, request: m.SearchRewardsRequest) -> tuple[Any, ...]:
    """The filters by contact, code and times: $8 to $12 of `desk.rewards`."""
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.between("won_from", request.won_from, 0, TIME_MAX)
    checks.between("won_until", request.won_until, 0, TIME_MAX)
    checks.raise_found()
    contacts = spellings(request.contact) if request.contact else None
    prizes: list[str] | None = None
    hashes: list[bytes] | None = None
    if request.code:
        # Codes are stored encrypted and found by a fingerprint, which differs for each prize and key.
        vault, prizes, hashes = vault_of(engine.keyring.code), [], []
        for row in await engine.database.fetch(_CODED, tenant_id):
            for fingerprint in vault.fingerprints(request.code.strip(), code_context(tenant_id, row["prize_id"])):
                prizes.append(row["prize_id"])
                hashes.append(fingerprint)
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
