"""`tombola keys rotate`: stores voucher codes and receivers' secrets anew, under the first key of CODE_KEYS.

To rotate: put a new key in front of CODE_KEYS and restart every process, one by one; run this; drop the old key
and restart again.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from runtime.commands.environment import settings_for
from runtime.commands.loop import app_of
from runtime.errors import Fault
from runtime.operations.key_rotation import NotDone, Rotated, rotate_all

app = app_of("keys")


@app.command
def rotate(*, tenant: str = "") -> None:
    """Store codes and secrets anew under the first key of CODE_KEYS. Safe while everything runs, and to run again.

    Parameters
    ----------
    tenant
        Only this tenant's.
    """
    settings = settings_for("migrate")
    if not settings.code_keys:
        sys.exit("tombola keys rotate: CODE_KEYS must be set")
    columns = TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        shown = progress.add_task("reading", total=None)

        def report(done: Rotated) -> None:
            progress.update(shown, description=f"{done.codes:,} codes, {done.secrets:,} configs with secrets")

        try:
            done = asyncio.run(rotate_all(settings, tenant, report))
        except NotDone as error:
            sys.exit(f"tombola keys rotate: {error}")
        except (Fault, OSError, asyncpg.PostgresError) as error:
            sys.exit(f"tombola keys rotate: {error}; run it again to go on")
    key = settings.code_keys[0].id
    print(f"under key {key!r} now: {done.codes} codes and {done.secrets} configs with secrets")
    if done.unopened:
        sys.exit(f"{done.unopened} are under a key that CODE_KEYS does not name, and stay as they are")
