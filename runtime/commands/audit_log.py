"""`tombola audit-log`: who changed what, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cyclopts import App

from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    refusals_told,
    table,
)
from runtime.commands.times import unix

app = App(name="audit-log", help="Read who changed what.")


@app.default
async def audit_log(
    *,
    subject_type: str = "",
    subject_id: str = "",
    actor: str = "",
    action: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    q: str = "",
    limit: int = 50,
    connection: Connection = DEFAULTS,
) -> None:
    """Show entries of the audit log, the newest first. All of them, oldest first: `tombola export audit`.

    Parameters
    ----------
    subject_type
        Only what was done to this kind of thing: campaign, game, prize, reward, staff ...
    subject_id
        Only what was done to this one.
    actor
        Only what this one did.
    action
        Only actions that begin so: prize, prize.import ...
    since
        Only from this time on, such as 2026-03-01 or 2026-03-01T09:00:00+01:00 (UTC where it says no offset).
    until
        Only before this time.
    q
        Only what holds this: who did what to what, the name of that, or the reason.
    limit
        How many at most.
    """
    query = {"subject_type": subject_type, "subject_id": subject_id, "actor": actor, "action": action, "q": q}
    query |= {"since": str(unix(since)), "until": str(unix(until))}
    found: list[dict[str, Any]] = []
    with refusals_told(connection):
        async with connected(connection) as edge:
            async for entry in edge.each("/audit", **query):
                if len(found) >= limit:
                    break
                found.append(entry)
    if connection.json:
        print_json(found)
        return
    shown = table("id", "when", "who", "did", "to", "changed")
    for entry in found:
        when = datetime.fromtimestamp(entry["created_at"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        shown.add_row(
            entry["id"], when, entry["actor"], entry["action"], entry["subject_id"], ", ".join(_changed(entry))
        )
    people().print(shown)


def _changed(entry: dict[str, Any]) -> list[str]:
    """The fields that are others after it."""
    before, after = entry["before"] or {}, entry["after"] or {}
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
