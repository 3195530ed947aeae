"""`tombola audit`: checks all data for discrepancies now.

`tombola worker auditor` runs the same checks continuously; this command is for an immediate result, for example after
a restore. It stores new violations like the auditor and prints all open ones.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Annotated, Any

import asyncpg
from cyclopts import Parameter

from runtime.commands.builder import app_of
from runtime.commands.connection import EXIT_REFUSED, print_json, table, text_console
from runtime.commands.environment import settings_for
from runtime.commands.progress import progress
from runtime.commands.stores import fail_store
from runtime.errors import Fault
from runtime.operations.conservation.checks import CHECKS, KINDS
from runtime.operations.conservation.violations import audited

app = app_of("audit")


@app.default
def audit(*, tenant: str = "", as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> None:
    """Check every player, play, prize, reward, task, board and count in the database for discrepancies.

    Changes only the list of violations and does not block requests. Exits with 1 if a violation is open: found now, or
    earlier and not closed (POST /admin/violations/{id}/close).

    Parameters
    ----------
    tenant
        Only this tenant's data.
    as_json
        Print JSON instead of text.
    """
    settings = settings_for("migrate")  # Needs no Valkey.
    done: Counter[str] = Counter()
    with progress(as_json) as bar:
        shown = bar.add_task("connecting", total=None)

        def report(tenant_id: str, kind: str, count: int) -> None:
            done[kind] += count
            bar.update(shown, description=f"{done[kind]:,} of kind {kind}, of {tenant_id}")

        try:
            open_ones, more = asyncio.run(audited(settings, tenant, report))
        except (Fault, OSError, asyncpg.PostgresError) as error:
            fail_store("audit", error)
    counts = {kind: done[kind] for kind in KINDS}
    if as_json:
        print_json({"checks": len(CHECKS), "looked_at": counts, "open": open_ones, "more": more})
    else:
        _print(counts, open_ones, more)
    if open_ones:
        sys.exit(EXIT_REFUSED)


def _print(counts: dict[str, int], open_ones: list[dict[str, Any]], more: list[str]) -> None:
    console = text_console()
    checked = ", ".join(f"{count:,} of kind {kind}" for kind, count in counts.items() if count)
    console.print(f"{len(CHECKS)} checks over {checked or 'no rows'}")
    if not open_ones:
        console.print("no discrepancies")
        return
    shown = table("violation", "tenant", "check", "of", "expected", "found")
    for row in open_ones:
        of = f"{row['subject_id']} {row['row_id']}".strip()
        shown.add_row(row["id"], row["tenant_id"], row["check"], of, row["expected"], row["found"])
    console.print(shown)
    if more:
        console.print(f"there are more than listed of: {', '.join(more)}")
