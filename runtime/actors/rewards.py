"""A reward: its states, the one table of the moves between them, and its message.

                   claim                attempt                deliver
            won ----------> claimed ----------------> fulfilling -------> fulfilled
             |  \\-- attempt (on_win) ------------------^  |  ^
             |                                   give_up  v  | attempt (an admin retried)
             +-- expire --> expired                      failed

    claim   goes straight to fulfilled where the channel is instant
    fulfill (an admin's hand) goes from won, claimed, fulfilling and failed to fulfilled; an attempt under way then
            records nothing
    revoke  goes from every state but expired and revoked to revoked

`attempt`, `deliver` and `give_up` are the delivery workers' (runtime/streams), `fulfill` and `revoke`
an admin's (runtime/operations/rewards/reward_admin.py), `expire` is time's. Each is one conditional update.

A reward that is won, claimed or fulfilling holds its units of stock, and its code where it has one. What
nobody was shown comes back where it ends there: expired, failed, revoked. A failed one whose delivery is
tried again takes its units anew, where there are some.

A code is opened only here, and only for whom the caller names as its owner: the list and the claim of
a player. Whoever would deliver one that no key of CODE_KEYS opens is refused, in the transaction that would have,
and the reward stays what it was until the key is back. A win that is delivered at once opens nothing (no play waits
for that): its reward has the code, and says in the list that it cannot be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import asyncpg
import structlog
from prometheus_client import Counter

import sql
from runtime import messages as m
from runtime.actors import answers
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.outgoing.vault import VaultError, code_context, vault_of
from runtime.wire.enums import enum

_SQL: Final = sql.load("rewards")

CODES_UNAVAILABLE: Final = Counter(
    "tombola_codes_unavailable", "Times that a reward's code was wanted, and no key of CODE_KEYS opened it."
)
RETRY_SECONDS: Final = 60
"""An operator must bring the key back."""

log = structlog.get_logger(__name__)


class CodeUnavailable(Fault):
    """A reward's code is there, and no key opens it. Nothing was changed."""

    def __init__(self, reward_id: str) -> None:
        message = f"the code of reward {reward_id} cannot be opened now; nothing was used up"
        super().__init__(Status.UNAVAILABLE, "CODE_UNAVAILABLE", message, retry_after_seconds=RETRY_SECONDS)


class Move(NamedTuple):
    """A legal move: from one of these stored states to one of those."""

    before: frozenset[str]
    after: frozenset[str]


def _move(before: str, after: str) -> Move:
    return Move(frozenset(before.split()), frozenset(after.split()))


STATES: Final = ("won", "claimed", "fulfilling", "fulfilled", "expired", "revoked", "failed")

MOVES: Final[dict[str, Move]] = {
    "claim": _move("won", "claimed fulfilled"),
    "attempt": _move("won claimed failed", "fulfilling"),
    "deliver": _move("fulfilling", "fulfilled"),
    "give_up": _move("fulfilling", "failed"),
    "fulfill": _move("won claimed fulfilling failed", "fulfilled"),
    "revoke": _move("won claimed fulfilling fulfilled failed", "revoked"),
    "expire": _move("won", "expired"),
}
"""The legal moves of a reward (contract.md, "Rewards and tasks"); the drawing above is of this table."""

HOLDING: Final = frozenset({"won", "claimed", "fulfilling"})
"""States in which a reward holds stock, and maybe a code, that nobody was shown yet."""


async def hold_returns(
    connection: asyncpg.Connection, tenant_id: str, reward_ids: Sequence[str], prize_ids: Sequence[str]
) -> None:
    """Locks what rewards of these prizes may give back, stock and codes: before the rewards (sql/locks.py)."""
    await connection.execute(_SQL["hold_stock"], tenant_id, list(prize_ids))
    await connection.execute(_SQL["hold_codes"], tenant_id, list(reward_ids))


async def hold(connection: asyncpg.Connection, tenant_id: str, reward_id: str, prize_id: str) -> str:
    """Locks a reward, and before it what it may give back or take; its stored state."""
    await hold_returns(connection, tenant_id, [reward_id], [prize_id])
    return str(await connection.fetchval(_SQL["hold"], tenant_id, reward_id))


async def give_back(connection: asyncpg.Connection, tenant_id: str, reward_ids: Sequence[str]) -> None:
    """Returns the stock and the codes of rewards that this transaction has moved out of a HOLDING state."""
    if reward_ids:
        await connection.execute(_SQL["give_back"], tenant_id, list(reward_ids))


async def take_again(connection: asyncpg.Connection, tenant_id: str, reward_id: str) -> None:
    """Takes the stock of a reward that failed, and is now delivered after all. OUT_OF_STOCK."""
    if await connection.fetchval(_SQL["take_again"], tenant_id, reward_id) is None:
        raise out_of_stock(reward_id)


def illegal(row: Any, move: str) -> Fault:
    """FAILED_PRECONDITION ILLEGAL_TRANSITION for a reward (reward_id, status) whose state forbids `move`."""
    status = enum(m.RewardStatus, row["status"])
    return Fault(
        Status.FAILED_PRECONDITION,
        "ILLEGAL_TRANSITION",
        f"reward {row['reward_id']} is {row['status']}; {move} works from {', '.join(sorted(MOVES[move].before))}",
        reward_status=status.proto_name,
    )


def out_of_stock(reward_id: str) -> Fault:
    """FAILED_PRECONDITION OUT_OF_STOCK: the reward's prize has no unit, or no code, left to give."""
    return Fault(Status.FAILED_PRECONDITION, "OUT_OF_STOCK", f"nothing is left for reward {reward_id}; try again later")


# -- as a message ----------------------------------------------------------------------------

FIELDS: Final = (
    "prize_id",
    "name",
    "type",
    "value",
    "quantity",
    "game_id",
    "play_id",
    "campaign_id",
    "milestone_id",
    "won_at",
    "claimed_at",
    "fulfilled_at",
    "expires_at",
)
"""Columns that are the message's fields as they are; times are unix seconds, 0 where unset."""


def message(row: Any) -> m.Reward:
    """A reward without its code. `row` has reward_id, status (stored token), prize (of prize_content()) and FIELDS."""
    return m.Reward(
        id=row["reward_id"],
        status=enum(m.RewardStatus, row["status"]),
        prize=content(row["prize"]),
        **{name: row[name] for name in FIELDS},
    )


def content(stored: Mapping[str, Any]) -> m.PrizeContent:
    """The message of what prize_content() says of a prize."""
    return m.PrizeContent(**{**stored, "claim_fields": answers.fields_shown(stored["claim_fields"])})


def for_owner(engine: Engine, tenant_id: str, row: Any) -> m.Reward:
    """A reward as its owner sees it: with the code that key_id and ciphertext of `row` hold (None: no code).

    CodeUnavailable.
    """
    reward = message(row)
    if row["ciphertext"] is not None:
        reward.code = open_code(engine, tenant_id, row, reward.id, reward.prize_id)
    return reward


def listed_for_owner(engine: Engine, tenant_id: str, row: Any) -> m.Reward:
    """As `for_owner`, but what is wrong with its code is said in the reward: the others are not to suffer from it."""
    try:
        return for_owner(engine, tenant_id, row)
    except CodeUnavailable as error:
        reward = message(row)
        reward.code_error = error.reason
        return reward


def open_code(engine: Engine, tenant_id: str, row: Any, reward_id: str, prize_id: str) -> str:
    """The code that key_id and ciphertext of `row` hold. CodeUnavailable, logged and counted."""
    try:
        context = code_context(tenant_id, prize_id)
        return vault_of(engine.keyring.code).open(row["key_id"], row["ciphertext"], context)
    except (VaultError, ValueError) as error:
        CODES_UNAVAILABLE.inc()
        log.error("code_not_opened", reward_id=reward_id, key_id=row["key_id"], why=str(error))
        raise CodeUnavailable(reward_id) from None
