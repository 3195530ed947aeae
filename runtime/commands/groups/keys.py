"""`tombola keys`: re-encrypts voucher codes and receivers' secrets; opens a notary's copies, offline.

To rotate: put a new key first in CODE_KEYS and restart every process, one by one; run this; remove the old key and
restart again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from runtime.commands.builder import app_of
from runtime.commands.environment import EXIT_FILE, fail_to_start, settings_for
from runtime.commands.stores import fail_store
from runtime.errors import Fault
from runtime.operations.key_rotation import NotDone, Rotated, rotate_all
from runtime.rules.release import commitment
from runtime.rules.sealing import opened

app = app_of("keys")


@app.command
def rotate(*, tenant: str = "") -> None:
    """Re-encrypt codes and secrets with the first key of CODE_KEYS. Safe during operation, and safe to repeat.

    Parameters
    ----------
    tenant
        Only this tenant's data.
    """
    settings = settings_for("migrate")
    if not settings.code_keys:
        fail_to_start("keys rotate: CODE_KEYS must be set")
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
            fail_store("keys rotate", error, ". Run it again to resume")
    key = settings.code_keys[0].id
    print(f"encrypted with key {key!r}: {done.codes} codes and {done.secrets} configs with secrets")
    if done.duplicates:
        print("in their pool twice (tenant, prize, code); withdraw those that are free:", *done.duplicates, sep="\n")
    if done.unopened:
        sys.exit(f"{done.unopened} use a key that is not in CODE_KEYS and are unchanged")


@app.command(name="open")
def open_copy(copy: Path, /, *, key: Path) -> None:
    """Print the opening in a notary's copy. Its hash, the prize's `release.commitment`, goes to standard error.

    Parameters
    ----------
    copy
        A file with a prize's `release.notary_copy`.
    key
        The notary's private key (X25519, PEM).
    """
    try:
        document = opened(copy.read_text(), key)["opening"]
    except (OSError, ValueError, KeyError) as error:
        print(f"tombola keys: {error}", file=sys.stderr)
        sys.exit(EXIT_FILE)
    print(document)
    print(f"commitment {commitment(document)}", file=sys.stderr)
