"""Recognises a connection pooler before Postgres, and refuses an unsuitable one at start.

In transaction mode a pooler gives each transaction any of its server connections. That works, since nothing but
`tombola tenants move` depends on a session, if two things hold:

- Prepared statements go along: PgBouncer 1.21 or newer with max_prepared_statements above 0. Otherwise a statement
  fails whenever its transaction gets another server connection.
- The settings of a session come from the role or the database, since the pooler drops those of the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import asyncpg

Connect: TypeAlias = Callable[[], Awaitable[asyncpg.Connection]]

ROUNDS: Final = 5
"""Tries to get another server connection. In session mode there is none, and nothing to find out."""

SETTINGS: Final = (
    *("jit", "plan_cache_mode", "client_connection_check_interval", "idle_in_transaction_session_timeout"),
    *("tcp_keepalives_idle", "tcp_user_timeout"),
)
"""Settings of a session that a pooler drops. Those of TCP concern its own connections."""

_PID: Final = "SELECT pg_backend_pid()"
_VALUES: Final = """
SELECT name, setting FROM pg_settings
WHERE name = 'jit' AND setting <> 'off' OR name = 'plan_cache_mode' AND setting <> 'force_generic_plan'
   OR name IN ('client_connection_check_interval', 'idle_in_transaction_session_timeout') AND setting = '0'
ORDER BY name
"""


class PoolerUnsuitable(RuntimeError):
    """The pooler cannot be used; the message says how to configure it."""


async def is_pooled(connection: asyncpg.Connection) -> bool:
    """Whether a pooler answers: it makes up the process id that identifies a client for cancellation."""
    return bool(connection.get_server_pid() != await connection.fetchval(_PID))


def refuse_startup(error: BaseException | None) -> None:
    """Raises PoolerUnsuitable if a pooler refused the connection's settings."""
    if isinstance(error, asyncpg.PostgresError) and "unsupported startup parameter" in str(error):
        raise PoolerUnsuitable(
            f"the connection pooler refuses Tombola's connection ({error}). In pgbouncer.ini, set"
            f" ignore_startup_parameters = {','.join(SETTINGS)}"
        ) from error


async def refuse_unsuitable(connection: asyncpg.Connection, connect: Connect) -> None:
    """Raises PoolerUnsuitable. `connection` leads through a pooler, as do those of `connect`."""
    await _refuse_lost_statements(connection, connect)
    wrong = await connection.fetch(_VALUES)
    if wrong:
        values = ", ".join(f"{row['name']} is {row['setting']}" for row in wrong)
        raise PoolerUnsuitable(
            f"the connection pooler drops settings of the session ({values}). Give them to the role of DATABASE_URL:"
            " ALTER ROLE ... SET jit = off; ALTER ROLE ... SET plan_cache_mode = force_generic_plan;"
            " ALTER ROLE ... SET client_connection_check_interval = '300ms';"
            " ALTER ROLE ... SET idle_in_transaction_session_timeout = '20s'; then RECONNECT in the pooler's console"
        )


async def _refuse_lost_statements(connection: asyncpg.Connection, connect: Connect) -> None:
    """Executes a prepared statement again while another client has the server connection that prepared it."""
    other = await connect()
    try:
        for _ in range(ROUNDS):
            first = await connection.fetchval(_PID)
            async with other.transaction():
                # Takes the server connection that is free: the first one, unless it is busy.
                await other.fetchval(_PID)
                if await connection.fetchval(_PID) != first:
                    return
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError) as error:
        raise PoolerUnsuitable(
            f"the connection pooler loses prepared statements ({error.args[0]}). Transaction mode needs PgBouncer 1.21"
            " or newer with max_prepared_statements above 0"
        ) from error
    except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError) as error:
        if "statement pooling" not in str(error):
            raise
        raise PoolerUnsuitable(
            f"the connection pooler allows no transactions ({error}). Set pool_mode = transaction"
        ) from error
    except TimeoutError as error:
        raise PoolerUnsuitable(
            "the connection pooler gave no second server connection in time. Raise default_pool_size"
        ) from error
    finally:
        other.terminate()
