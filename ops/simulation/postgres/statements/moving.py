"""sql/merging.sql, the rest: everything of the guest's becomes the player's."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import of
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("merging.move_play_counts")
async def move_play_counts(st: Statement, tenant_id: str, guest_id: str, player_id: str, game_ids: list[str]) -> Result:
    rows = [st.get("game_players", tenant_id, game_id, guest_id) for game_id in dict.fromkeys(game_ids)]
    moved = await st.delete(st.unordered([row for row in rows if row]))
    for row in sorted(moved, key=lambda row: row.game_id):
        await st.upsert(
            "game_players",
            lambda c, excluded: {
                "plays": c.plays + excluded.plays,
                "day": max(c.day, excluded.day),
                "day_plays": (c.day_plays if c.day >= excluded.day else 0)
                + (excluded.day_plays if excluded.day >= c.day else 0),
                "busy_until": max(c.busy_until, excluded.busy_until),
            },
            player_id=player_id,
            **of(row, "tenant_id game_id plays day day_plays busy_until"),
        )
    return len(moved)


@statement("merging.give_turns")
async def give_turns(
    st: Statement,
    tenant_id: str,
    guest_id: str,
    player_id: str,
    campaign_ids: list[str],
    amounts: list[int],
    left_ids: list[str],
    right_ids: list[str],
    kepts: list[int],
) -> Result:
    moved = sorted(zip(campaign_ids, amounts, left_ids, right_ids, kepts, strict=True))
    noted = {"tenant_id": tenant_id, "reason": "merge"}
    for campaign_id, amount, left_id, _, kept in moved:
        own = {"campaign_id": campaign_id, "player_id": guest_id, "amount": -amount, "balance_after": kept}
        await st.insert("turn_entries", entry_id=left_id, reference_id=player_id, **own, **noted)
    for campaign_id, amount, _, right_id, _ in moved:
        balance = await st.upsert(
            "turn_balances",
            lambda t, excluded: {"balance": t.balance + excluded.balance, "updated_at": st.now},
            tenant_id=tenant_id,
            campaign_id=campaign_id,
            player_id=player_id,
            balance=amount,
        )
        own = {"campaign_id": campaign_id, "player_id": player_id, "amount": amount, "balance_after": balance.balance}
        await st.insert("turn_entries", entry_id=right_id, reference_id=guest_id, **own, **noted)
    for campaign_id, _, _, _, kept in moved:
        row = st.get("turn_balances", tenant_id, guest_id, campaign_id)
        if row is not None and kept == 0:
            await st.delete([row])
        elif row is not None and kept > 0:
            await st.update([row], {"balance": kept, "updated_at": st.now})
    return 2 * len(moved)


@statement("merging.move_balances")
async def move_balances(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    moved = await st.delete(st.find("balances", tenant_id=tenant_id, player_id=guest_id))
    for row in sorted(moved, key=lambda row: (row.scope_key, row.currency)):
        await st.upsert(
            "balances",
            lambda b, excluded: {
                "balance": b.balance + excluded.balance,
                "seq": max(b.seq, excluded.seq),
                "updated_at": st.now,
            },
            player_id=player_id,
            **of(row, "tenant_id scope_key currency balance seq"),
        )
    return len(moved)


@statement("merging.move_ledger")
async def move_ledger(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    mine = st.find("ledger_entries", tenant_id=tenant_id, player_id=guest_id)
    theirs = st.find("ledger_entries", tenant_id=tenant_id, player_id=player_id)
    first: dict[tuple[str, str], int] = {}
    for row in mine:
        key = (row.scope_key, row.currency)
        first[key] = min(row.seq, first.get(key, row.seq))
    walked = sorted([*mine, *theirs], key=lambda row: (row.seq, row.entry_id), reverse=True)
    since: dict[tuple[str, str], int] = {}
    changed = []
    for row in walked:
        key = (row.scope_key, row.currency)
        if key not in first or row.seq < first[key]:
            continue
        since[key] = since.get(key, 0) + row.amount
        balance = st.get("balances", tenant_id, player_id, row.scope_key, row.currency)
        if balance is not None:
            after = balance.balance + row.amount - since[key]
            changed.append((row, {"player_id": player_id, "balance_after": after}))
    moved = 0
    for row, change in st.unordered(changed):
        moved += len(await st.update([row], change, lambda e, row=row: e.player_id == row.player_id))  # type: ignore[misc]
    return moved


@statement("merging.move_prize_counts")
async def move_prize_counts(
    st: Statement, tenant_id: str, guest_id: str, player_id: str, prize_ids: list[str], units: list[int]
) -> Result:
    surplus = dict(zip(prize_ids, units, strict=True))
    rows = st.find("prize_players", tenant_id=tenant_id, player_id=guest_id)
    had = [
        (row, min(row.awarded, surplus.get(row.prize_id, 0)))
        for row in sorted(rows, key=lambda row: row.prize_id)
        if st.get("prizes", tenant_id, row.prize_id) is not None
    ]
    moved = [(row, row.awarded - kept) for row, kept in had if row.awarded > kept]
    for row, awarded in moved:
        await st.upsert(
            "prize_players",
            lambda c, excluded: {"awarded": c.awarded + excluded.awarded},
            tenant_id=tenant_id,
            prize_id=row.prize_id,
            player_id=player_id,
            awarded=awarded,
        )
    for row, kept in st.unordered(had):
        if kept > 0:
            await st.update([row], {"awarded": kept})
        else:
            await st.delete([row])
    return len(moved)


async def _move(st: Statement, rows: list[Any], guest_id: str, player_id: str, *same: str) -> list[Any]:
    """Makes rows the player's; a key that the player has used for the same thing stays with its own."""

    def change(row: Any) -> dict[str, Any]:
        own = {name: getattr(row, name) for name in same}
        table = row.slot.table.shape.name
        key = row.idempotency_key
        used = key is not None and st.exists(
            table, tenant_id=row.tenant_id, player_id=player_id, idempotency_key=key, **own
        )
        return {"player_id": player_id, "idempotency_key": None if used else key}

    return await st.update(rows, change, lambda row: row.player_id == guest_id)


@statement("merging.move_plays")
async def move_plays(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = st.find("plays", tenant_id=tenant_id, player_id=guest_id)
    moved = await _move(st, rows, guest_id, player_id, "game_id")
    return st.unordered([{"game_id": game_id} for game_id in sorted({row.game_id for row in moved})])


@statement("merging.note_surplus")
async def note_surplus(
    st: Statement, tenant_id: str, play_ids: list[str], wins: list[int], points: list[int]
) -> Result:
    noted = 0
    for play_id, of_wins, of_points in zip(play_ids, wins, points, strict=True):
        row = st.get("plays", tenant_id, play_id)

        def change(p: Any, of_wins: int = of_wins, of_points: int = of_points) -> dict[str, Any]:
            return {
                "surplus_wins": min(p.wins, (p.surplus_wins or 0) + of_wins),
                "surplus_points": min(p.points, (p.surplus_points or 0) + of_points),
            }

        noted += len(await st.update([row] if row else [], change))
    return noted


@statement("merging.move_rewards")
async def move_rewards(st: Statement, tenant_id: str, guest_id: str, player_id: str, surplus: list[str]) -> Result:
    rows = [row for row in st.find("rewards", tenant_id=tenant_id, player_id=guest_id) if row.reward_id not in surplus]
    moved = await st.update(rows, {"player_id": player_id}, lambda row: row.player_id == guest_id)
    tasks = [task for row in moved for task in st.find("tasks", tenant_id=tenant_id, reward_id=row.reward_id)]
    return len(await st.update(st.unordered(tasks), {"player_id": player_id}))


@statement("merging.move_grants")
async def move_grants(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = [
        row
        for row in st.find("milestone_grants", tenant_id=tenant_id, player_id=guest_id)
        if st.get("milestone_grants", tenant_id, player_id, row.game_id, row.milestone_id) is None
    ]
    return len(await _move(st, rows, guest_id, player_id, "game_id"))


@statement("merging.move_completions")
async def move_completions(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = [
        row
        for row in st.find("quest_completions", tenant_id=tenant_id, player_id=guest_id)
        if st.get("quests", tenant_id, row.quest_id) is not None
        and st.get("quest_completions", tenant_id, row.quest_id, player_id, row.period) is None
    ]
    return len(await _move(st, rows, guest_id, player_id, "quest_id"))


@statement("merging.move_quest_events")
async def move_quest_events(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = st.find("quest_events", tenant_id=tenant_id, player_id=guest_id)
    return len(await st.update(rows, {"player_id": player_id}, lambda row: row.player_id == guest_id))


def _on_boards(st: Statement, table: str, tenant_id: str, player_id: str) -> list[Any]:
    """A player's rows of a table of boards that are there still."""
    rows = st.find(table, tenant_id=tenant_id, player_id=player_id)
    return [row for row in rows if st.get("leaderboards", tenant_id, row.board_id) is not None]


@statement("merging.move_adjustments")
async def move_adjustments(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = _on_boards(st, "leaderboard_adjustments", tenant_id, guest_id)
    return len(await st.update(rows, {"player_id": player_id}, lambda row: row.player_id == guest_id))


@statement("merging.move_standings")
async def move_standings(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = [
        row
        for row in _on_boards(st, "leaderboard_standings", tenant_id, guest_id)
        if not st.exists("leaderboard_standings", tenant_id=tenant_id, board_id=row.board_id, player_id=player_id)
    ]
    return len(await st.update(rows, {"player_id": player_id}, lambda row: row.player_id == guest_id))


@statement("merging.copy_disqualifications")
async def copy_disqualifications(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    copied = 0
    for row in _on_boards(st, "leaderboard_disqualifications", tenant_id, guest_id):
        own = of(row, "tenant_id board_id reason disqualified_at")
        copied += await st.insert_unless("leaderboard_disqualifications", player_id=player_id, **own) is not None
    return copied
