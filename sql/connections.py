"""One connection to Postgres: its codecs, its transactions, and the errors by which it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

T = TypeVar("T")

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # The backend ended while its connection was idle.
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
)
"""Errors after which the connection cannot be used."""


IDLE_SECONDS: Final = 20.0
"""How long a transaction may wait for its process's next statement: longer than ranking a million scores takes."""


def session_settings(statement_seconds: float) -> dict[str, str]:
    """The settings of a process's sessions. See sql/pooler.py."""
    return {
        "application_name": "tombola",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        # An abandoned backend would keep waiting, with its locks, and retries would queue behind it.
        "client_connection_check_interval": f"{max(1, round(statement_seconds * 250))}ms",
        # A paused process would keep its row locks.
        "idle_in_transaction_session_timeout": f"{round(IDLE_SECONDS * 1000)}ms",
        # The connections of a lost machine would stay for hours.
        "tcp_keepalives_idle": "10",
        "tcp_user_timeout": "30s",
    }


async def in_transaction(connection: asyncpg.Connection, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Commits `work`; rolls it back if it raises."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        result = await work(connection)
    except (*LOST, asyncio.CancelledError):
        # The connection is closed, which ends the transaction. A ROLLBACK would wait for the same frozen backend again.
        raise
    except BaseException:
        await transaction.rollback()
        raise
    await transaction.commit()
    return result


async def prepare(connection: asyncpg.Connection) -> None:
    """Sets the codecs of JSON."""
    # Binary: the composite types of commit.sql accept only binary values.
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=_encode_json, decoder=msgspec.json.decode, format="binary"
    )
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + _encode_json(value),
        decoder=lambda data: msgspec.json.decode(data[1:]),
        format="binary",
    )


def _encode_json(value: Any) -> bytes:
    """`bytes` are JSON already (the play path encodes once, for the row and the reply); anything else is encoded."""
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


def throw_away(connection: asyncpg.Connection) -> None:
    """Closes the socket without a goodbye, for which a frozen server would never answer."""
    # Raised if the server has closed the connection already.
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
