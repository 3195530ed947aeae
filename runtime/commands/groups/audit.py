"""`tombola audit`: looks at everything there is now, whether it adds up.

The same checks run all the time (`tombola worker auditor`); this is for who wants to know now, after a restore
say. What it finds is kept like what the auditor finds, and shown with what was found before and nobody has closed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Annotated, Any

import asyncpg
from cyclopts import Parameter

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNREACHABLE, people, print_json, table
from runtime.commands.environment import EXIT_USE, settings_for
from runtime.commands.loop import app_of
from runtime.commands.progress import progress
from runtime.errors import Fault, Status
from runtime.operations.conservation.checks import CHECKS, KINDS
from runtime.operations.conservation.violations import audited

app = app_of("audit")


@app.default
def look(*, tenant: str = "", as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> None:
    """Look at every player, play, prize, reward, task, board and count in the database, whether it all adds up.

    Changes nothing but the list of violations, and holds nothing up. Ends with 1 where one is open: found now, or
    before and closed by nobody (POST /admin/violations/{id}/close).

    Parameters
    ----------
    tenant
        Only this tenant's.
    as_json
        Print JSON for machines instead of text for people.
    """
    settings = settings_for("worker:auditor")
    done: Counter[str] = Counter()
    with progress(as_json) as bar:
        shown = bar.add_task("connecting", total=None)

        def report(tenant_id: str, kind: str, count: int) -> None:
            done[kind] += count
            bar.update(shown, description=f"{done[kind]:,} of kind {kind}, of {tenant_id}")

        try:
            open_ones = asyncio.run(audited(settings, tenant, report))
        except (Fault, OSError, asyncpg.PostgresError) as error:
            misnamed = isinstance(error, Fault) and error.status is Status.NOT_FOUND
            print(f"tombola audit: {getattr(error, 'message', error)}", file=sys.stderr)
            sys.exit(EXIT_USE if misnamed else EXIT_UNREACHABLE)
    looked_at = {kind: done[kind] for kind in KINDS}
    if as_json:
        print_json({"checks": len(CHECKS), "looked_at": looked_at, "open": open_ones})
    else:
        _print(looked_at, open_ones)
    if open_ones:
        sys.exit(EXIT_REFUSED)


def _print(looked_at: dict[str, int], open_ones: list[dict[str, Any]]) -> None:
    console = people()
    counted = ", ".join(f"{count:,} of kind {kind}" for kind, count in looked_at.items() if count)
    console.print(f"{len(CHECKS)} checks over {counted or 'nothing'}")
    if not open_ones:
        console.print("everything adds up")
        return
    shown = table("violation", "tenant", "check", "of", "expected", "found")
    for row in open_ones:
        of = f"{row['subject_id']} {row['row_id']}".strip()
        shown.add_row(row["id"], row["tenant_id"], row["check"], of, row["expected"], row["found"])
    console.print(shown)
