"""sql/commit.sql: the one statement that commits, whose parts stand in the order in which its guards count them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from ops.simulation.postgres.statements.codes import pick_codes
from ops.simulation.postgres.values import dumps
from ops.simulation.postgres.vocabulary import SHARE, Result, Statement, statement
from runtime.actors.changes import PARAMETERS, Changes

_TYPED: Final = re.compile(r"\$(\d+)::(\w+)\[\]")
_DAY: Final = 86_400 * 1_000_000


@cache
def parameters(text: str) -> tuple[str, ...]:
    """The parameters that the statement takes after $2, of those that its text has the parts for."""
    names = {parameter.type: parameter.name for parameter in PARAMETERS}
    found = {int(number): names[kind] for number, kind in _TYPED.findall(text)}
    return tuple(found[number] for number in sorted(found))


@statement("commit.commit")
async def commit(st: Statement, text: str, tenant_id: str, catalog_version: int, *arrays: list[Any]) -> Result:
    given = Changes()
    for name, rows in zip(parameters(text), arrays, strict=True):
        setattr(given, name, rows)
    begun = st.seconds()
    await _held(st, tenant_id, catalog_version, given)
    await _played(st, tenant_id, given)
    moved = await _moved(st, tenant_id, given)
    taken = await _taken(st, tenant_id, given)
    await _granted(st, tenant_id, given)
    await _noted(st, tenant_id, given, moved)
    if "stock" not in parameters(text):
        return [{"now": begun}]
    remaining = [None if row.total == 0 else row.remaining for row in taken]
    return [{"prize_ids": [row.prize_id for row in taken] or None, "remaining": remaining or None, "now": begun}]


async def _held(st: Statement, tenant_id: str, version: int, given: Any) -> None:
    tenant = st.get("tenants", tenant_id)
    current = tenant is not None and tenant.catalog_version == version
    if version and not current:
        st.refuse("catalog")
    if given.debuts:
        rows = [tenant] if current else []
        if not await st.lock(rows, SHARE, lambda row: row.catalog_version == version):
            st.refuse("catalog")
    if given.guests:
        rows = [st.get("players", tenant_id, guest.player_id) for guest in given.guests]
        guests = [row for row in rows if row is not None and row.merged_into is None]
        guests.sort(key=lambda row: row.player_id)
        if len(await st.lock(guests, SHARE, lambda row: row.merged_into is None)) != len(given.guests):
            st.refuse("guest")


async def _played(st: Statement, tenant_id: str, given: Any) -> None:
    played = 0
    for n in given.plays:
        values = n._asdict() | {"payload": dumps(n.payload), "outcome": dumps(n.outcome)}
        played += await st.insert_unless("plays", tenant_id=tenant_id, **values) is not None
    if played != len(given.plays):
        st.refuse("session")

    late = beyond = False
    for n in given.play_counts:
        row = await st.upsert(
            "game_players",
            lambda c, excluded: {
                "plays": c.plays + excluded.plays,
                "day": excluded.day,
                "day_plays": (c.day_plays if c.day >= excluded.day else 0) + excluded.plays,
                "busy_until": max(c.busy_until, excluded.busy_until),
            },
            tenant_id=tenant_id,
            game_id=n.game_id,
            player_id=n.player_id,
            plays=n.plays,
            day=n.day,
            day_plays=n.plays,
            busy_until=n.busy_until,
        )
        late |= 0 < n.day_ends <= st.seconds()
        beyond |= 0 < n.cap < row.plays or 0 < n.day_cap < row.day_plays or (n.exact and row.plays < n.cap)
    if late:
        st.refuse("day")
    if beyond:
        st.refuse("plays")


async def _moved(st: Statement, tenant_id: str, given: Any) -> dict[tuple[str, str, str], Any]:
    """Moves turns and balances. The balances that were, as they are now."""
    turns = 0
    for n in given.turns:
        row = st.get("turn_balances", tenant_id, n.player_id, n.campaign_id)
        if row is not None and row.balance == n.before:
            change = {"balance": n.after, "updated_at": st.now}
            turns += len(await st.update([row], change, lambda row, n=n: row.balance == n.before))  # type: ignore[misc]
    for n in given.turns:
        if n.before == 0:
            own = {"player_id": n.player_id, "campaign_id": n.campaign_id, "balance": n.after}
            turns += await st.insert_unless("turn_balances", tenant_id=tenant_id, **own) is not None
    if turns != len(given.turns):
        st.refuse("turns")

    entries, moved = len(given.ledger), []
    for n in given.balances:
        row = st.get("balances", tenant_id, n.player_id, n.scope_key, n.currency)
        if row is not None and n.before is not None and row.balance == n.before:
            moved += await st.update(
                [row],
                lambda row, n=n: {  # type: ignore[misc]
                    "balance": n.after,
                    "seq": max(row.seq, st.clock()) + entries,
                    "updated_at": st.now,
                },
                lambda row, n=n: row.balance == n.before,  # type: ignore[misc]
            )
    for n in given.balances:
        if n.before is None:
            own = {"player_id": n.player_id, "scope_key": n.scope_key, "currency": n.currency, "balance": n.after}
            row = await st.insert_unless("balances", tenant_id=tenant_id, seq=st.clock() + entries, **own)
            moved += [row] if row is not None else []
    if len(moved) != len(given.balances):
        st.refuse("balance")
    return {(row.player_id, row.scope_key, row.currency): row for row in moved}


async def _taken(st: Statement, tenant_id: str, given: Any) -> list[Any]:
    """Takes stock, counts it against the caps, and takes codes. The stock that was taken from."""
    taken = []
    for n in given.stock:
        row = st.get("stock", tenant_id, n.prize_id)

        def suffices(row: Any, quantity: int = n.quantity) -> bool:
            return bool(row.total == 0 or row.remaining >= quantity)

        def less(row: Any, quantity: int = n.quantity) -> dict[str, int]:
            return {
                "remaining": 0 if row.total == 0 else row.remaining - quantity,
                "awarded": row.awarded + quantity,
            }

        if row is not None and suffices(row):
            taken += await st.update([row], less, suffices)
    if len(taken) != len(given.stock):
        st.refuse("stock")

    for table, guard, counts, key in (
        ("prize_days", "prize_day", given.prize_days, "day"),
        ("prize_players", "prize_player", given.prize_players, "player_id"),
    ):
        beyond = False
        for n in counts:
            row = await st.upsert(
                table,
                lambda c, excluded: {"awarded": c.awarded + excluded.awarded},
                tenant_id=tenant_id,
                prize_id=n.prize_id,
                awarded=n.quantity,
                **{key: getattr(n, key)},
            )
            beyond |= 0 < n.cap < row.awarded
        if beyond:
            st.refuse(guard)

    if await _take_codes(st, tenant_id, given.codes) != len(given.codes):
        st.refuse("codes")
    return taken


async def _take_codes(st: Statement, tenant_id: str, takes: list[Any]) -> int:
    picked = {}
    for prize_id in st.unordered(sorted({n.prize_id for n in takes})):
        rows = await pick_codes(st, tenant_id, prize_id, sum(n.prize_id == prize_id for n in takes))
        picked.update({(prize_id, nth): row for nth, row in enumerate(rows, 1)})
    taken = 0
    for n in takes:
        row = picked.get((n.prize_id, n.nth))
        if row is not None:
            taken += len(await st.update([row], {"reward_id": n.reward_id, "assigned_at": st.now}))
    return taken


async def _granted(st: Statement, tenant_id: str, given: Any) -> None:
    granted = 0
    for n in given.grants:
        values = n._asdict() | {"reply": dumps(n.reply)}
        granted += await st.insert_unless("milestone_grants", tenant_id=tenant_id, **values) is not None
    if granted != len(given.grants):
        st.refuse("grant")

    awarded = 0
    for n in given.awards:
        row = st.get("leaderboard_standings", tenant_id, n.board_id, n.rank)
        if row is not None and row.reason == "PENDING":
            change = {"reward_id": n.reward_id, "reason": ""}
            awarded += len(await st.update([row], change, lambda row: row.reason == "PENDING"))
    if awarded != len(given.awards):
        st.refuse("standing")


async def _noted(st: Statement, tenant_id: str, given: Any, moved: dict[tuple[str, str, str], Any]) -> None:
    """What no guard counts, and is done last."""
    for n in given.turn_entries:
        await st.insert("turn_entries", tenant_id=tenant_id, **n._asdict())
    for nth, n in enumerate(given.ledger, 1):
        balance = moved.get((n.player_id, n.scope_key, n.currency))
        if balance is not None:
            seq = balance.seq - len(given.ledger) + nth
            await st.insert("ledger_entries", tenant_id=tenant_id, seq=seq, **n._asdict())
    for n in given.rewards:
        values = n._asdict()
        days = values.pop("expires_after_days")
        values["fulfilled_at"] = st.now if n.status == "fulfilled" else None
        values["expires_at"] = st.now + days * _DAY if days > 0 else None
        await st.insert("rewards", tenant_id=tenant_id, **values)
    for n in given.tasks:
        due = st.now if n.status == "pending" else None
        await st.insert("tasks", tenant_id=tenant_id, next_attempt_at=due, **n._asdict())
