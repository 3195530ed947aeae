"""sql/rewards.sql: rewards as they are read, and what admins and time do to them."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.statements.codes import pick_codes
from ops.simulation.postgres.values import loads, newest, of, standing, unix
from ops.simulation.postgres.vocabulary import NO_KEY_UPDATE, UPDATE, Result, Statement, statement

CANCELLED = {"status": "cancelled", "next_attempt_at": None, "lease_until": None, "lease_owner": ""}


def task_of(st: Statement, row: Any) -> Any | None:
    """The reward's task; there is one at most."""
    rows = st.find("tasks", tenant_id=row.tenant_id, reward_id=row.reward_id)
    return rows[0] if rows else None


def stands(st: Statement, row: Any) -> str:
    return standing(row.status, row.expires_at, task_of(st, row) is not None, st.now)


def _shown(st: Statement, row: Any) -> dict[str, Any]:
    return (
        of(row, "reward_id player_id prize_id name type value quantity")
        | {"status": stands(st, row)}
        | of(row, "game_id play_id campaign_id milestone_id")
        | {name: unix(getattr(row, name)) for name in ("won_at", "claimed_at", "fulfilled_at", "expires_at")}
    )


def _code(st: Statement, row: Any, shown: bool) -> dict[str, Any]:
    codes = st.find("codes", tenant_id=row.tenant_id, reward_id=row.reward_id) if shown else []
    return of(codes[0], "key_id ciphertext") if codes else {"key_id": None, "ciphertext": None}


@statement("rewards.list")
def list_(
    st: Statement,
    tenant_id: str,
    player_id: str,
    status: str,
    campaign_id: str,
    prize_id: str,
    game_id: str,
    after: str | None,
    limit: int,
) -> Result:
    rows = [
        row
        for row in st.find("rewards", tenant_id=tenant_id, player_id=player_id)
        if status in ("", stands(st, row))
        and campaign_id in ("", row.campaign_id)
        and prize_id in ("", row.prize_id)
        and game_id in ("", row.game_id)
    ]
    found = newest(rows, "reward_id", after, limit)
    return [_shown(st, row) | _code(st, row, row.status == "fulfilled") | _content(st, row) for row in found]


def _content(st: Statement, row: Any) -> dict[str, Any]:
    prize = st.get("prizes", row.tenant_id, row.prize_id)
    names = "description image_url terms currency"
    if prize is None:
        return dict.fromkeys(names.split(), "") | {"claim_fields": []}
    return of(prize, names, claim_fields=loads(prize.claim_fields))


def answers_of(st: Statement, tenant_id: str, reward_id: str) -> list[dict[str, str]]:
    """What the reward's winner answered."""
    row = st.get("claim_answers", tenant_id, reward_id)
    return loads(row.answers) if row is not None else []


@statement("rewards.search")
def search(
    st: Statement,
    tenant_id: str,
    status: str,
    campaign_id: str,
    prize_id: str,
    game_id: str,
    player_id: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    may = st.theirs(tenant_id, merchant_id, False)
    rows = [
        row
        for row in st.find("rewards", tenant_id=tenant_id)
        if status in ("", stands(st, row))
        and campaign_id in ("", row.campaign_id)
        and prize_id in ("", row.prize_id)
        and game_id in ("", row.game_id)
        and player_id in ("", row.player_id)
        and may(row.campaign_id)
    ]
    found = newest(rows, "reward_id", after, limit)
    return [_shown(st, row) | {"answered": bool(answers_of(st, tenant_id, row.reward_id))} for row in found]


@statement("rewards.get")
def get(st: Statement, tenant_id: str, reward_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    if row is None or not st.theirs(tenant_id, merchant_id, writing)(row.campaign_id):
        return []
    answers = answers_of(st, tenant_id, reward_id)
    theirs = st.theirs(tenant_id, merchant_id, True)(row.campaign_id)
    return [_shown(st, row) | {"answered": bool(answers), "answers": answers, "theirs": theirs}]


@statement("rewards.as_claimed")
def as_claimed(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    rows = [st.get("rewards", tenant_id, reward_id) for reward_id in dict.fromkeys(reward_ids)]
    names = "reward_id player_id prize_id name type value quantity game_id play_id campaign_id milestone_id"
    found = []
    for row in rows:
        if row is None or row.claimed_at is None:
            continue
        at_once = row.fulfilled_at == row.claimed_at
        found.append(
            of(row, names)
            | {name: unix(getattr(row, name)) for name in ("won_at", "claimed_at", "expires_at")}
            | {
                "status": "fulfilled" if at_once else "claimed",
                "fulfilled_at": unix(row.fulfilled_at) if at_once else 0,
            }
            | _code(st, row, at_once)
            | {"given": {one["key"]: one["value"] for one in answers_of(st, tenant_id, row.reward_id)}}
        )
    return st.unordered(found)


@statement("rewards.about")
def about(st: Statement, tenant_id: str, reward_id: str) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    return [of(row, "player_id prize_id type campaign_id")] if row else []


@statement("rewards.hold_turns")
async def hold_turns(st: Statement, tenant_id: str, player_id: str, campaign_id: str) -> Result:
    row = st.get("turn_balances", tenant_id, player_id, campaign_id)
    return [of(row, "balance") for row in await st.lock([row] if row else [], NO_KEY_UPDATE)]


@statement("rewards.take_turns")
async def take_turns(st: Statement, tenant_id: str, player_id: str, reward_id: str, entry_id: str) -> Result:
    reward = st.get("rewards", tenant_id, reward_id)
    if reward is None or reward.type != "turns":
        return []
    amount = int(reward.value) * reward.quantity
    row = st.get("turn_balances", tenant_id, player_id, reward.campaign_id)
    taken = await st.update(
        [row] if row is not None and row.balance >= amount else [],
        lambda row: {"balance": row.balance - amount, "updated_at": st.now},
        lambda row: row.balance >= amount,
    )
    for row in taken:
        await st.insert(
            "turn_entries",
            tenant_id=tenant_id,
            entry_id=entry_id,
            campaign_id=reward.campaign_id,
            player_id=player_id,
            amount=-amount,
            balance_after=row.balance,
            reason="reversal",
            reference_id=reward_id,
        )
    return [{"balance_after": row.balance} for row in taken]


@statement("rewards.hold_movements")
async def hold_movements(st: Statement, tenant_id: str, player_id: str, reward_id: str) -> Result:
    player = st.get("players", tenant_id, player_id)
    whose = [player_id] + ([player.merged_into] if player and player.merged_into is not None else [])
    amounts: dict[tuple[str, str, str], int] = {}
    for one in dict.fromkeys(whose):
        for entry in st.find("ledger_entries", tenant_id=tenant_id, player_id=one, reward_id=reward_id):
            key = (entry.player_id, entry.scope_key, entry.currency)
            amounts[key] = amounts.get(key, 0) + entry.amount
    found = [(st.get("balances", tenant_id, *key), key) for key in sorted(amounts) if amounts[key] != 0]
    held = await st.lock([row for row, _ in found if row is not None], NO_KEY_UPDATE)
    names = "player_id scope_key currency"
    return [of(row, names, amount=amounts[row.player_id, row.scope_key, row.currency]) for row in held]


@statement("rewards.hold_stock")
async def hold_stock(st: Statement, tenant_id: str, prize_ids: list[str]) -> Result:
    rows = [st.get("stock", tenant_id, prize_id) for prize_id in sorted(set(prize_ids))]
    return [of(row, "prize_id") for row in await st.lock([row for row in rows if row], NO_KEY_UPDATE)]


@statement("rewards.hold_codes")
async def hold_codes(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    rows = _codes(st, tenant_id, reward_ids)
    rows.sort(key=lambda row: (row.prize_id, row.code_id))
    return [of(row, "code_id") for row in await st.lock(rows, NO_KEY_UPDATE, lambda row: row.reward_id in reward_ids)]


def _codes(st: Statement, tenant_id: str, reward_ids: list[str]) -> list[Any]:
    wanted = dict.fromkeys(reward_ids)
    return [row for one in wanted for row in st.find("codes", tenant_id=tenant_id, reward_id=one)]


@statement("rewards.hold")
async def hold(st: Statement, tenant_id: str, reward_id: str) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    return [of(row, "status") for row in await st.lock([row] if row else [], UPDATE)]


@statement("rewards.hold_task")
async def hold_task(st: Statement, tenant_id: str, reward_id: str) -> Result:
    rows = st.find("tasks", tenant_id=tenant_id, reward_id=reward_id)
    return [of(row, "task_id") for row in await st.lock(rows, UPDATE, lambda row: row.reward_id == reward_id)]


@statement("rewards.held")
def held(st: Statement, tenant_id: str, reward_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    if row is None or not st.theirs(tenant_id, merchant_id, writing)(row.campaign_id):
        return []
    source = task_of(st, row) or st.get("prizes", tenant_id, row.prize_id)
    return [_shown(st, row) | {"channel": source.channel if source else "none"}]


@statement("rewards.give_back")
async def give_back(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    quantities: dict[str, int] = {}
    for reward_id in dict.fromkeys(reward_ids):
        row = st.get("rewards", tenant_id, reward_id)
        if row is not None:
            quantities[row.prize_id] = quantities.get(row.prize_id, 0) + row.quantity
    freed = await st.update(
        st.unordered(_codes(st, tenant_id, reward_ids)),
        {"reward_id": None, "assigned_at": None},
        lambda row: row.reward_id in reward_ids,
    )
    for prize_id in st.unordered(list(quantities)):
        stock = st.get("stock", tenant_id, prize_id)

        def returned(s: Any, quantity: int = quantities[prize_id]) -> dict[str, int]:
            back = min(quantity, s.awarded)
            return {"awarded": s.awarded - back, "remaining": 0 if s.total == 0 else s.remaining + back}

        await st.update([stock] if stock else [], returned)
    return len(freed)


@statement("rewards.take_again")
async def take_again(st: Statement, tenant_id: str, reward_id: str) -> Result:
    reward = st.get("rewards", tenant_id, reward_id)
    stock = st.get("stock", tenant_id, reward.prize_id) if reward else None
    if reward is None or stock is None:
        return []

    def suffices(s: Any) -> bool:
        return bool(s.total == 0 or s.remaining >= reward.quantity)

    rows = await st.update(
        [stock] if suffices(stock) else [],
        lambda s: {
            "awarded": s.awarded + reward.quantity,
            "remaining": 0 if s.total == 0 else s.remaining - reward.quantity,
        },
        suffices,
    )
    return [of(row, "prize_id") for row in rows]


@statement("rewards.take_code")
async def take_code(st: Statement, tenant_id: str, prize_id: str, reward_id: str) -> Result:
    kept = st.find("codes", tenant_id=tenant_id, reward_id=reward_id)
    if kept:
        return [of(row, "key_id ciphertext") for row in kept]
    picked = await pick_codes(st, tenant_id, prize_id, 1)
    taken = await st.update(picked, {"reward_id": reward_id, "assigned_at": st.now})
    return [of(row, "key_id ciphertext") for row in taken]


@statement("rewards.fulfill")
async def fulfill(
    st: Statement, tenant_id: str, reward_id: str, states: list[str], task_id: str, channel: str
) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    rows = [row] if row is not None and row.status in states else []
    change = {"status": "fulfilled", "fulfilled_at": st.now}
    moved = await st.update(rows, change, lambda row: row.status in states)
    for n in moved:
        await st.upsert(
            "tasks",
            lambda t, excluded: {
                "status": "delivered",
                "next_attempt_at": None,
                "lease_until": None,
                "lease_owner": "",
                "updated_at": st.now,
            },
            on=("tenant_id", "reward_id"),
            task_id=task_id,
            channel=channel,
            status="delivered",
            **of(n, "tenant_id reward_id prize_id campaign_id player_id"),
        )
    return [{"fulfilled_at": unix(n.fulfilled_at)} for n in moved]


async def cancel_tasks(st: Statement, rewards: list[Any]) -> int:
    """Cancels the tasks of rewards, but those that are delivered."""
    tasks = [task for task in (task_of(st, row) for row in rewards) if task is not None and task.status != "delivered"]
    change = CANCELLED | {"updated_at": st.now}
    return len(await st.update(st.unordered(tasks), change, lambda t: t.status != "delivered"))


@statement("rewards.revoke")
async def revoke(st: Statement, tenant_id: str, reward_id: str, states: list[str]) -> Result:
    row = st.get("rewards", tenant_id, reward_id)
    rows = [row] if row is not None and row.status in states else []
    moved = await st.update(rows, {"status": "revoked"}, lambda row: row.status in states)
    await cancel_tasks(st, moved)
    return [of(row, "reward_id") for row in moved]


def _late(st: Statement, tenant_id: str) -> list[Any]:
    rows = st.find("rewards", tenant_id=tenant_id, status="won")
    return [row for row in rows if stands(st, row) == "expired"]


@statement("rewards.tenants_with_expired")
def tenants_with_expired(st: Statement) -> Result:
    tenants = sorted(row.tenant_id for row in st.find("tenants"))
    return [{"tenant_id": tenant_id} for tenant_id in tenants if _late(st, tenant_id)]


@statement("rewards.late")
def late(st: Statement, tenant_id: str, limit: int) -> Result:
    rows = sorted(_late(st, tenant_id), key=lambda row: row.expires_at)
    return [of(row, "reward_id prize_id") for row in rows[:limit]]


@statement("rewards.expire")
async def expire(st: Statement, tenant_id: str, reward_ids: list[str]) -> Result:
    rows = [row for row in _late(st, tenant_id) if row.reward_id in reward_ids]
    held = {row.slot for row in await st.lock(rows, UPDATE, lambda row: stands(st, row) == "expired", skip=True)}
    ended = await st.update([row for row in rows if row.slot in held], {"status": "expired"})
    return [of(row, "reward_id") for row in ended]
