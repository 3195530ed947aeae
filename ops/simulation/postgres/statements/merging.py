"""sql/merging.sql: a guest becomes the player it turns out to be: who is held, and what is beyond one player's due."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.statements.rewards import cancel_tasks
from ops.simulation.postgres.values import loads, of
from ops.simulation.postgres.vocabulary import SHARE, UPDATE, Result, Statement, statement

_ONE = {"?column?": 1}


@statement("merging.hold_players")
async def hold_players(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = [st.get("players", tenant_id, one) for one in sorted({guest_id, player_id})]
    held = await st.lock([row for row in rows if row], UPDATE)
    return [of(row, "player_id auth_method status merged_into") for row in held]


@statement("merging.has_contacts")
def has_contacts(st: Statement, tenant_id: str, player_id: str) -> Result:
    return [{"exists": st.exists("contacts", tenant_id=tenant_id, player_id=player_id)}]


@statement("merging.end_guest")
async def end_guest(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    row = st.get("players", tenant_id, guest_id)
    change = {"merged_into": player_id, "updated_at": st.clock()}
    return len(await st.update([row] if row else [], change))


@statement("merging.hold_counts")
async def hold_counts(st: Statement, tenant_id: str, guest_id: str, player_id: str, game_ids: list[str]) -> Result:
    rows = [st.get("game_players", tenant_id, game_id, guest_id) for game_id in sorted(set(game_ids))]
    held = 0
    for row in rows:
        for whose in sorted([guest_id, player_id]) if row else ():
            await st.upsert(
                "game_players",
                lambda c, excluded: {"plays": c.plays},
                player_id=whose,
                plays=0,
                day_plays=0,
                **of(row, "tenant_id game_id day"),
            )
            held += 1
    return held


async def _hold(st: Statement, table: str, tenant_id: str, player_ids: list[str], key: tuple[str, ...]) -> Result:
    rows = [row for one in dict.fromkeys(player_ids) for row in st.find(table, tenant_id=tenant_id, player_id=one)]
    rows.sort(key=lambda row: tuple(getattr(row, name) for name in key))
    return [_ONE for _ in await st.lock(rows, UPDATE, lambda row: row.player_id in player_ids)]


@statement("merging.hold_turns")
async def hold_turns(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    return await _hold(st, "turn_balances", tenant_id, [guest_id, player_id], ("player_id", "campaign_id"))


@statement("merging.hold_balances")
async def hold_balances(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    return await _hold(st, "balances", tenant_id, [guest_id, player_id], ("player_id", "scope_key", "currency"))


@statement("merging.hold_rewards")
async def hold_rewards(st: Statement, tenant_id: str, guest_id: str) -> Result:
    return await _hold(st, "rewards", tenant_id, [guest_id], ("reward_id",))


@statement("merging.hold_tasks")
async def hold_tasks(st: Statement, tenant_id: str, guest_id: str) -> Result:
    rewards = {row.reward_id for row in st.find("rewards", tenant_id=tenant_id, player_id=guest_id)}
    rows = [row for row in st.find("tasks", tenant_id=tenant_id) if row.reward_id in rewards]
    rows.sort(key=lambda row: row.task_id)
    return [_ONE for _ in await st.lock(rows, UPDATE)]


_BEST = ("fulfilled", "fulfilling", "claimed", "won", "failed")
_SURPLUS = "reward_id prize_id quantity type status"


@statement("merging.surplus_rewards")
def surplus_rewards(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rewards = st.find("rewards", tenant_id=tenant_id, player_id=guest_id)
    rewards.sort(key=lambda r: (_BEST.index(r.status) if r.status in _BEST else len(_BEST), r.reward_id))
    upto: dict[str, int] = {}
    surplus: dict[tuple[Any, ...], dict[str, Any]] = {}
    for reward in rewards:
        prize = st.get("prizes", tenant_id, reward.prize_id)
        if prize is None:
            continue
        upto[prize.prize_id] = upto.get(prize.prize_id, 0) + reward.quantity
        mine = st.get("prize_players", tenant_id, prize.prize_id, player_id)
        if prize.max_per_user > 0 and upto[prize.prize_id] > prize.max_per_user - (mine.awarded if mine else 0):
            one = of(reward, _SURPLUS, play_id="" if reward.milestone_id else reward.play_id)
            surplus[tuple(one.values())] = one
    for grant in st.find("milestone_grants", tenant_id=tenant_id, player_id=guest_id):
        if st.get("milestone_grants", tenant_id, player_id, grant.game_id, grant.milestone_id) is not None:
            found = st.get("rewards", tenant_id, grant.reward_id)
            one = of(found, _SURPLUS, play_id="") if found else {}
            surplus |= {tuple(one.values()): one} if found else {}
    return st.unordered(list(surplus.values()))


@statement("merging.surplus_points")
def surplus_points(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    room: dict[str, int] = {}
    for had in st.find("prize_players", tenant_id=tenant_id, player_id=guest_id):
        prize = st.get("prizes", tenant_id, had.prize_id)
        own = st.get("prize_players", tenant_id, had.prize_id, player_id)
        mine = own.awarded if own else 0
        if prize is not None and 0 < prize.max_per_user < had.awarded + mine:
            rewards = st.find("rewards", tenant_id=tenant_id, player_id=guest_id, prize_id=had.prize_id)
            room[had.prize_id] = max(0, prize.max_per_user - mine - sum(row.quantity for row in rewards))
    credited = {
        entry.reference_id: entry
        for entry in st.find("ledger_entries", tenant_id=tenant_id, player_id=guest_id, currency="points")
        if entry.reason == "play_reward"
    }
    upto: dict[str, int] = {}
    beyond: dict[tuple[str, str, str, str], list[int]] = {}
    plays = st.find("plays", tenant_id=tenant_id, player_id=guest_id)
    for play in sorted(plays, key=lambda row: row.play_id):
        entry = credited.get(play.play_id)
        for prize_id, quantity, points in _points(play) if entry else ():
            upto[prize_id] = upto.get(prize_id, 0) + quantity
            if prize_id in room and upto[prize_id] > room[prize_id]:
                units = min(quantity, upto[prize_id] - room[prize_id])
                key = (prize_id, play.play_id, entry.scope_key, entry.currency)  # type: ignore[union-attr]
                total = beyond.setdefault(key, [0, 0, 0])
                total[0] += units
                total[1] += units * points
                total[2] += units == quantity
    return [
        {
            "play_id": play_id,
            "prize_id": prize_id,
            "scope_key": scope_key,
            "currency": currency,
            "units": units,
            "points": points,
            "wins": wins,
        }
        for (prize_id, play_id, scope_key, currency), (units, points, wins) in sorted(beyond.items())
    ]


def _points(play: Any) -> list[tuple[str, int, int]]:
    """(prize, quantity, points of one) of each points prize that a play won."""
    rewards = loads(play.outcome).get("rewards") or ()
    points = [one for one in rewards if one.get("type") == "points"]
    return [(one["prize_id"], int(one["quantity"]), int(one["value"])) for one in points]


@statement("merging.granted_to_both")
def granted_to_both(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    return [
        of(row, "game_id milestone_id")
        for row in st.find("milestone_grants", tenant_id=tenant_id, player_id=guest_id)
        if st.get("milestone_grants", tenant_id, player_id, row.game_id, row.milestone_id) is not None
    ]


@statement("merging.grants")
def grants(st: Statement, tenant_id: str, guest_id: str) -> Result:
    rows = st.find("milestone_grants", tenant_id=tenant_id, player_id=guest_id)
    return [of(row, "game_id milestone_id") for row in rows]


@statement("merging.movements")
def movements(st: Statement, tenant_id: str, player_id: str, reward_ids: list[str]) -> Result:
    amounts: dict[tuple[str, str, str], int] = {}
    for reward_id in dict.fromkeys(reward_ids):
        for entry in st.find("ledger_entries", tenant_id=tenant_id, player_id=player_id, reward_id=reward_id):
            key = (reward_id, entry.scope_key, entry.currency)
            amounts[key] = amounts.get(key, 0) + entry.amount
    return [
        {"reward_id": key[0], "scope_key": key[1], "currency": key[2], "amount": amount}
        for key, amount in sorted(amounts.items())
        if amount != 0
    ]


@statement("merging.move_back")
async def move_back(
    st: Statement,
    tenant_id: str,
    player_id: str,
    scope_key: str,
    currency: str,
    amount: int,
    entry_id: str,
    reference_id: str,
    reward_id: str,
) -> Result:
    own = {"tenant_id": tenant_id, "player_id": player_id, "scope_key": scope_key, "currency": currency}
    row = st.get("balances", tenant_id, player_id, scope_key, currency)
    before = row.balance if row else 0
    moved = await st.update(
        [row] if row is not None and min(amount, before) > 0 else [],
        lambda b: {
            "balance": b.balance - min(amount, b.balance),
            "seq": max(b.seq + 1, st.clock()),
            "updated_at": st.now,
        },
        lambda b: min(amount, b.balance) > 0,
    )
    for b in moved:
        await st.insert(
            "ledger_entries",
            **own,
            entry_id=entry_id,
            seq=b.seq,
            amount=b.balance - before,
            balance_after=b.balance,
            reason="reversal",
            reference_id=reference_id,
            reward_id=reward_id,
        )
    return [{"taken": before - b.balance} for b in moved]


@statement("merging.statuses")
def statuses(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    rows = [st.get("rewards", tenant_id, reward_id) for reward_id in sorted(set(reward_ids))]
    return [of(row, "reward_id status") for row in rows if row]


@statement("merging.revoke_surplus")
async def revoke_surplus(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    rows = [st.get("rewards", tenant_id, reward_id) for reward_id in dict.fromkeys(reward_ids)]
    ended = await st.update(st.unordered([row for row in rows if row]), {"status": "revoked"})
    return await cancel_tasks(st, ended)


@statement("merging.prize_counts")
def prize_counts(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    found = []
    for had in st.find("prize_players", tenant_id=tenant_id, player_id=guest_id):
        prize = st.get("prizes", tenant_id, had.prize_id)
        mine = st.get("prize_players", tenant_id, had.prize_id, player_id)
        if prize is not None and prize.max_per_user > 0:
            players = mine.awarded if mine else 0
            found.append({"prize_id": had.prize_id, "guests": had.awarded, "players": players})
    return sorted(found, key=lambda row: str(row["prize_id"]))


@statement("merging.hold_prize_counts")
async def hold_prize_counts(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    rows = st.find("prize_players", tenant_id=tenant_id, player_id=guest_id)
    held = 0
    for row in sorted(rows, key=lambda row: row.prize_id):
        for whose in sorted([guest_id, player_id]) if st.get("prizes", tenant_id, row.prize_id) else ():
            await st.upsert(
                "prize_players",
                lambda c, excluded: {"awarded": c.awarded},
                tenant_id=tenant_id,
                prize_id=row.prize_id,
                player_id=whose,
                awarded=0,
            )
            held += 1
    return held


@statement("merging.turns")
def turns(st: Statement, tenant_id: str, guest_id: str, quest_ids: list[str], periods: list[str]) -> Result:
    stays: dict[str, int] = {}
    for quest_id, period in zip(quest_ids, periods, strict=True):
        completion = st.get("quest_completions", tenant_id, quest_id, guest_id, period)
        quest = st.get("quests", tenant_id, quest_id)
        if completion is not None and quest is not None:
            stays[quest.campaign_id] = stays.get(quest.campaign_id, 0) + completion.turns
    rows = sorted(st.find("turn_balances", tenant_id=tenant_id, player_id=guest_id), key=lambda row: row.campaign_id)
    return [of(row, "campaign_id balance", kept=min(row.balance, stays.get(row.campaign_id, 0))) for row in rows]


@statement("merging.completed_by_both")
def completed_by_both(st: Statement, tenant_id: str, guest_id: str, player_id: str) -> Result:
    return [
        of(row, "quest_id period")
        for row in _completions(st, tenant_id, guest_id)
        if st.get("quest_completions", tenant_id, row.quest_id, player_id, row.period) is not None
    ]


@statement("merging.completions")
def completions(st: Statement, tenant_id: str, guest_id: str) -> Result:
    return [of(row, "quest_id period") for row in _completions(st, tenant_id, guest_id)]


def _completions(st: Statement, tenant_id: str, player_id: str) -> list[Any]:
    """A player's completions of quests that are there still."""
    rows = st.find("quest_completions", tenant_id=tenant_id, player_id=player_id)
    return [row for row in rows if st.get("quests", tenant_id, row.quest_id) is not None]


@statement("merging.hold_guest")
async def hold_guest(st: Statement, tenant_id: str, player_id: str) -> Result:
    row = st.get("players", tenant_id, player_id)
    rows = [row] if row is not None and row.auth_method == "guest" else []
    held = await st.lock(rows, SHARE, lambda row: row.auth_method == "guest")
    return [of(row, "merged_into") for row in held]
