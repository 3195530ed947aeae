"""A reward: its states, the table of moves between them, and its message.

                   claim                attempt                deliver
            won ----------> claimed ----------------> fulfilling -------> fulfilled
             |  \\-- attempt (on_win) ------------------^  |  ^
             |                                   give_up  v  | attempt (an admin retried)
             +-- expire --> expired                      failed

    claim   goes straight to fulfilled if the channel is instant
    fulfill (by an admin) goes from won, claimed, fulfilling and failed to fulfilled; a concurrent attempt then
            records nothing
    revoke  goes from every state but expired and revoked to revoked

`attempt`, `deliver` and `give_up` belong to the delivery workers (runtime/streams), `fulfill` and `revoke` to admins
(runtime/operations/rewards/reward_admin.py), `expire` to the clock. Each is one conditional update.

A reward that is won, claimed or fulfilling reserves its units of stock, and its code if it has one. If it ends there
without being shown to anyone (expired, failed, revoked), both are returned. A failed reward whose delivery is retried
takes its units again, if any are available.

A code is decrypted only here, and only for the owner named by the caller: the player's list and claim. If no key of
CODE_KEYS decrypts it, the transaction that would deliver it is refused, and the reward keeps its state until the key
is restored. A win that is delivered at once decrypts nothing, so that no play waits for it: the reward has the code,
and the list reports that it cannot be shown.
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
    "tombola_codes_unavailable", "Requests for reward codes that no key of CODE_KEYS could decrypt."
)
RETRY_SECONDS: Final = 60
"""Retry-After: an operator must restore the key."""

log = structlog.get_logger(__name__)


class CodeUnavailable(Fault):
    """A reward has a code that no key decrypts. Nothing was changed."""

    def __init__(self, reward_id: str) -> None:
        message = f"the code of reward {reward_id} cannot be decrypted now; nothing was changed"
        super().__init__(Status.UNAVAILABLE, "CODE_UNAVAILABLE", message, retry_after_seconds=RETRY_SECONDS)


class Move(NamedTuple):
    """A legal move: from one of the states in `before` to one in `after`."""

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
"""The legal moves of a reward; the drawing above shows this table."""

HOLDING: Final = frozenset({"won", "claimed", "fulfilling"})
"""States in which a reward reserves stock, and maybe a code, that was not shown to anyone yet."""


async def lock_returns(
    connection: asyncpg.Connection, tenant_id: str, reward_ids: Sequence[str], prize_ids: Sequence[str]
) -> None:
    """Locks the stock and codes that these rewards may return. Call before locking the rewards (sql/locks.py)."""
    await connection.execute(_SQL["lock_stock"], tenant_id, list(prize_ids))
    await connection.execute(_SQL["lock_codes"], tenant_id, list(reward_ids))


async def lock_reward(connection: asyncpg.Connection, tenant_id: str, reward_id: str, prize_id: str) -> str:
    """Locks a reward's stock and code, then the reward. Returns its stored state."""
    await lock_returns(connection, tenant_id, [reward_id], [prize_id])
    return str(await connection.fetchval(_SQL["lock"], tenant_id, reward_id))


async def give_back(connection: asyncpg.Connection, tenant_id: str, reward_ids: Sequence[str]) -> None:
    """Returns the stock and codes of rewards that this transaction moved out of a HOLDING state."""
    if reward_ids:
        await connection.execute(_SQL["return_stock"], tenant_id, list(reward_ids))


async def take_again(connection: asyncpg.Connection, tenant_id: str, reward_id: str) -> None:
    """Takes the stock of a failed reward again, because it is delivered after all. OUT_OF_STOCK."""
    if await connection.fetchval(_SQL["retake_stock"], tenant_id, reward_id) is None:
        raise out_of_stock(reward_id)


def illegal(row: Any, move: str) -> Fault:
    """FAILED_PRECONDITION ILLEGAL_TRANSITION: the state of a reward (reward_id, status) forbids `move`."""
    status = enum(m.RewardStatus, row["status"])
    return Fault(
        Status.FAILED_PRECONDITION,
        "ILLEGAL_TRANSITION",
        f"reward {row['reward_id']} is {row['status']}; {move} works from {', '.join(sorted(MOVES[move].before))}",
        reward_status=status.proto_name,
    )


def out_of_stock(reward_id: str) -> Fault:
    """FAILED_PRECONDITION OUT_OF_STOCK: the reward's prize has no unit or no code left."""
    return Fault(Status.FAILED_PRECONDITION, "OUT_OF_STOCK", f"no stock left for reward {reward_id}; try again later")


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
"""Columns that equal the message's fields; times are unix seconds, 0 if unset."""


def message(row: Any) -> m.Reward:
    """A reward without its code. `row` has reward_id, status (stored token), prize (of prize_content()) and FIELDS."""
    return m.Reward(
        id=row["reward_id"],
        status=enum(m.RewardStatus, row["status"]),
        prize=content(row["prize"]),
        **{name: row[name] for name in FIELDS},
    )


def content(stored: Mapping[str, Any]) -> m.PrizeContent:
    """The message of a prize's prize_content()."""
    return m.PrizeContent(**{**stored, "claim_fields": answers.claim_fields_of(stored["claim_fields"])})


def for_owner(engine: Engine, tenant_id: str, row: Any) -> m.Reward:
    """A reward for its owner, with the code in key_id and ciphertext of `row` (None: no code).

    CodeUnavailable.
    """
    reward = message(row)
    if row["ciphertext"] is not None:
        reward.code = open_code(engine, tenant_id, row, reward.id, reward.prize_id)
    return reward


def listed_for_owner(engine: Engine, tenant_id: str, row: Any) -> m.Reward:
    """As `for_owner`, but reports a code error in the reward itself, so that the other rewards are still listed."""
    try:
        return for_owner(engine, tenant_id, row)
    except CodeUnavailable as error:
        reward = message(row)
        reward.code_error = error.reason
        return reward


def open_code(engine: Engine, tenant_id: str, row: Any, reward_id: str, prize_id: str) -> str:
    """Decrypts the code in key_id and ciphertext of `row`. CodeUnavailable, logged and counted."""
    try:
        context = code_context(tenant_id, prize_id)
        return vault_of(engine.keyring.code).open(row["key_id"], row["ciphertext"], context)
    except (VaultError, ValueError) as error:
        CODES_UNAVAILABLE.inc()
        log.error("code_not_opened", reward_id=reward_id, key_id=row["key_id"], why=str(error))
        raise CodeUnavailable(reward_id) from None
