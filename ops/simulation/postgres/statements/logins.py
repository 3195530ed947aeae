"""sql/logins.sql, what merges and suspensions end: tokens, and logins."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import at_unix
from ops.simulation.postgres.vocabulary import UPDATE, Result, Statement, statement


@statement("logins.revoke")
async def revoke(
    st: Statement, tenant_id: str, kind: str, subject: str, until_now: bool, seconds: float, issued_at: int
) -> Result:
    until = max(st.now, at_unix(issued_at) or st.now) if until_now else None

    def later(r: Any, excluded: Any) -> dict[str, Any]:
        known = r.issued_until is not None and excluded.issued_until is not None
        return {
            "issued_until": max(r.issued_until, excluded.issued_until) if known else None,
            "kept_until": max(r.kept_until, excluded.kept_until),
            "revoked_at": st.now,
        }

    own: dict[str, Any] = {"tenant_id": tenant_id, "kind": kind, "subject": subject}
    await st.upsert("revocations", later, **own, issued_until=until, kept_until=st.after(seconds))
    return 1


@statement("logins.end")
async def end(st: Statement, tenant_id: str, player_id: str, login_id: str) -> Result:
    rows = [
        row
        for row in st.find("logins", tenant_id=tenant_id, player_id=player_id, ended_at=None)
        if login_id in ("", row.login_id)
    ]
    rows.sort(key=lambda row: row.login_id)
    held = {row.slot for row in await st.lock(rows, UPDATE, lambda row: row.ended_at is None)}
    ended = await st.update([row for row in rows if row.slot in held], {"ended_at": st.now})
    return [{"login_id": one} for one in sorted(row.login_id for row in ended)]
