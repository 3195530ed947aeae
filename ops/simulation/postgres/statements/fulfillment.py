"""sql/fulfillment.sql: the outbox, tasks from due to done."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.statements.rewards import answers_of
from ops.simulation.postgres.values import datetime_of, dumps, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import UPDATE, Result, Statement, statement

_WAITING = ("pending", "retry")


def _due(row: Any, now: int) -> bool:
    return row.status in _WAITING and row.next_attempt_at is not None and row.next_attempt_at <= now


def _abandoned(row: Any, now: int) -> bool:
    return row.status == "delivering" and row.lease_until is not None and row.lease_until <= now


@statement("fulfillment.lock_due")
async def lock_due(st: Statement, tenant_id: str, limit: int, prize_ids: list[str], places: list[int]) -> Result:
    rooms = dict(zip(prize_ids, places, strict=True))
    tasks = st.find("tasks", tenant_id=tenant_id)
    held: list[Any] = []
    for prize_id in sorted({row.prize_id for row in tasks if row.status in _WAITING}):
        due = [row for row in tasks if row.prize_id == prize_id and _due(row, st.now)]
        due.sort(key=lambda row: row.next_attempt_at)
        most = min(rooms.get(prize_id, limit), limit - len(held))
        held += await st.lock(due, UPDATE, lambda row: _due(row, st.now), skip=True, limit=most)
    late = [row for row in tasks if _abandoned(row, st.now) and rooms.get(row.prize_id) != 0]
    late.sort(key=lambda row: row.lease_until)
    most = limit - len(held)
    held += await st.lock(late, UPDATE, lambda row: _abandoned(row, st.now), skip=True, limit=most)
    return [of(row, "task_id") for row in held]


@statement("fulfillment.lease")
async def lease(
    st: Statement,
    tenant_id: str,
    seconds: float,
    task_ids: list[str],
    owner: str,
    prize_ids: list[str],
    places: list[int],
) -> Result:
    rooms = dict(zip(prize_ids, places, strict=True))
    found = [row for task_id in task_ids if (row := st.get("tasks", tenant_id, task_id)) is not None]
    picked, taken = [], dict.fromkeys(rooms, 0)
    for row in found:
        if row.prize_id in rooms:
            taken[row.prize_id] += 1
            if taken[row.prize_id] > rooms[row.prize_id]:
                continue
        picked.append(row)

    def leasable(t: Any) -> bool:
        if t.status in _WAITING:
            return t.next_attempt_at is None or t.next_attempt_at <= st.now
        return _abandoned(t, st.now)

    def open_(r: Any) -> bool:
        return r.status not in ("fulfilled", "expired", "revoked")

    given = []
    for row in st.unordered(picked):
        if not leasable(row):
            continue
        for task in await st.lock([row], UPDATE, leasable, skip=True):
            own = st.get("rewards", tenant_id, task.reward_id)
            rewards = [own] if own is not None and open_(own) else []
            for reward in await st.lock(rewards, UPDATE, open_, skip=True):
                change = {"status": "delivering", "lease_until": st.after(seconds), "lease_owner": owner}
                [leased] = await st.update(
                    [row],
                    lambda t, change=change: change | {"attempts": t.attempts + 1, "updated_at": st.now},  # type: ignore[misc]
                )
                given.append((leased, reward, task.channel, own))
    for _, reward, channel, own in given:
        if channel != "manual" and reward.status != "fulfilling":
            await st.update([own], {"status": "fulfilling"})
    return st.unordered([_leased(st, task, reward) for task, reward, _, _ in given])


def _leased(st: Statement, task: Any, reward: Any) -> dict[str, Any]:
    prize = st.get("prizes", task.tenant_id, task.prize_id)
    named = prize or reward
    return (
        of(task, "task_id reward_id prize_id campaign_id player_id channel attempts", created_at=unix(task.created_at))
        | of(reward, "name type value quantity game_id play_id milestone_id")
        | {"won_at": unix(reward.won_at), "claimed_at": unix(reward.claimed_at)}
        | {"channel_config": loads(prize.channel_config) if prize else {}}
        | {"prize_name": named.name, "prize_type": named.type, "prize_value": named.value}
        | {"answers": answers_of(st, task.tenant_id, task.reward_id)}
    )


def _and_earlier(task: Any) -> bytes | None:
    """and_earlier(): a task's attempts before the one that ends now."""
    last = of(task, "duration_ms answer") | {"tried_at": unix(task.tried_at), "error": task.last_error}
    return dumps([*loads(task.earlier)[-19:], last])


@statement("fulfillment.record")
async def record(
    st: Statement,
    tenant_id: str,
    task_ids: list[str],
    owners: list[str],
    statuses: list[str],
    errors: list[str],
    external_ids: list[str],
    delays: list[float],
    answers: list[str],
    durations: list[int],
) -> Result:
    places = zip(task_ids, owners, statuses, errors, external_ids, delays, answers, durations, strict=True)
    given = [(row, place) for place in places if (row := st.get("tasks", tenant_id, place[0])) is not None]
    rewards = {row.reward_id: st.get("rewards", tenant_id, row.reward_id) for row, _ in given}
    await st.lock([row for _, row in sorted(rewards.items()) if row is not None], UPDATE)
    recorded = []
    for row, place in sorted(given, key=lambda one: str(one[1][0])):
        _, owner, status, error, external_id, delay, answer, duration_ms = place
        again = status in ("retry", "put_back")
        change = {
            "status": "retry" if status == "put_back" else status,
            "next_attempt_at": st.after(delay) if again else None,
            "lease_until": st.after(delay) if status == "awaiting" and delay > 0 else None,
            "lease_owner": "",
            "updated_at": st.now,
        }
        if status != "put_back":
            change |= {"last_error": error, "tried_at": st.now, "duration_ms": duration_ms, "answer": answer}
        if external_id:
            change["external_id"] = external_id
        if row.lease_owner != owner:
            continue
        held = await st.lock([row], UPDATE, lambda t, owner=owner: t.lease_owner == owner)  # type: ignore[misc]
        for task in held:
            change["attempts"] = task.attempts - (status == "put_back")
            if status != "put_back" and task.tried_at is not None:
                change["earlier"] = _and_earlier(task)
            recorded += [(written, status) for written in await st.update([row], change)]

    def movable(r: Any) -> bool:
        return r.status not in ("fulfilled", "expired", "revoked", "failed")

    failed = set()
    for task, status in recorded:
        reward = rewards[task.reward_id]
        if status in ("delivered", "dead") and reward is not None and movable(reward):
            done = status == "delivered"
            change = {"status": "fulfilled" if done else "failed", "fulfilled_at": st.now if done else None}
            moved = await st.update([reward], change, movable)
            failed |= {row.reward_id for row in moved if not done}
    return st.unordered(
        [
            {
                "task_id": task.task_id,
                "status": status,
                "given_up": task.reward_id if task.reward_id in failed else None,
            }
            for task, status in recorded
        ]
    )


@statement("fulfillment.tenants_with_due")
def tenants_with_due(st: Statement) -> Result:
    tasks = [row for row in st.find("tasks") if _due(row, st.now) or _abandoned(row, st.now)]
    return st.unordered([{"tenant_id": one} for one in sorted({row.tenant_id for row in tasks})])


def _overdue(row: Any, now: int) -> bool:
    return row.status == "awaiting" and row.lease_until is not None and row.lease_until <= now


@statement("fulfillment.tenants_with_overdue")
def tenants_with_overdue(st: Statement) -> Result:
    tenants = sorted({row.tenant_id for row in st.find("tasks", status="awaiting") if _overdue(row, st.now)})
    return st.unordered([{"tenant_id": tenant_id} for tenant_id in tenants])


@statement("fulfillment.overdue")
def overdue(st: Statement, tenant_id: str, limit: int) -> Result:
    rows = [row for row in st.find("tasks", tenant_id=tenant_id, status="awaiting") if _overdue(row, st.now)]
    rows.sort(key=lambda row: row.lease_until)
    return [of(row, "task_id reward_id prize_id") for row in rows[:limit]]


@statement("fulfillment.give_up_overdue")
async def give_up_overdue(
    st: Statement, tenant_id: str, task_ids: list[str], reward_ids: list[str], error: str
) -> Result:
    tasks = [st.get("tasks", tenant_id, one) for one in sorted(set(task_ids))]
    late = [row for row in rows_of(tasks) if _overdue(row, st.now)]
    # Nobody asks for the rewards where no task is overdue.
    rewards = [st.get("rewards", tenant_id, one) for one in sorted(set(reward_ids))] if late else []
    free = {row.reward_id for row in await st.lock(rows_of(rewards), UPDATE, skip=True)}
    late = [row for row in late if row.reward_id in free]
    held = {row.slot for row in await st.lock(late, UPDATE, lambda t: _overdue(t, st.now), skip=True)}
    change = {"status": "dead", "last_error": error, "next_attempt_at": None, "lease_until": None}
    recorded = await st.update([row for row in late if row.slot in held], change | {"updated_at": st.now})

    def movable(r: Any) -> bool:
        return r.status in ("won", "claimed", "fulfilling")

    given = []
    for n in recorded:
        reward = st.get("rewards", tenant_id, n.reward_id)
        moved = await st.update(
            [reward] if reward is not None and movable(reward) else [], {"status": "failed"}, movable
        )
        given.append(of(n, "task_id prize_id", given_up=moved[0].reward_id if moved else None))
    return st.unordered(given)


def rows_of(rows: list[Any]) -> list[Any]:
    """Those that there are."""
    return [row for row in rows if row is not None]


def told_dead(st: Statement, row: Any) -> dict[str, Any]:
    campaign = st.get("campaigns", row.tenant_id, row.campaign_id)
    return (
        {"at": datetime_of(row.updated_at), "id": row.task_id}
        | of(row, "reward_id player_id prize_id channel attempts", error=row.last_error, campaign_id=row.campaign_id)
        | {"merchant_id": campaign.merchant_id if campaign else ""}
    )


@statement("fulfillment.dead")
def dead(st: Statement, tenant_id: str, task_ids: list[str]) -> Result:
    rows = rows_of([st.get("tasks", tenant_id, task_id) for task_id in dict.fromkeys(task_ids)])
    return st.unordered([told_dead(st, row) for row in rows if row.status == "dead"])


@statement("fulfillment.about")
def about(st: Statement, tenant_id: str, task_id: str) -> Result:
    row = st.get("tasks", tenant_id, task_id)
    return [of(row, "reward_id prize_id last_error")] if row else []


@statement("fulfillment.complete")
async def complete(
    st: Statement,
    tenant_id: str,
    task_id: str,
    status: str,
    external_id: str,
    error: str,
    callback_id: str,
    delays: list[float],
) -> Result:
    row = st.get("tasks", tenant_id, task_id)
    given = []
    for held in await st.lock([row] if row else [], UPDATE):
        misused = used = False
        if callback_id != "":
            noted = await st.upsert(
                "callbacks",
                lambda c, excluded: {"uses": c.uses + 1},
                tenant_id=tenant_id,
                callback_id=callback_id,
                task_id=task_id,
            )
            misused, used = noted.task_id != task_id, noted.uses > 1
        outcome = None
        if not used and status == "delivered" and held.status not in ("delivered", "cancelled"):
            outcome = "delivered"
        elif not used and status == "failed" and held.status in ("awaiting", "delivering"):
            outcome = "dead" if held.attempts > len(delays) else "retry"
        now = held
        if outcome is not None:
            nth = max(held.attempts, 1) - 1
            delay = delays[nth] if outcome == "retry" and nth < len(delays) else None
            change = {
                "status": outcome,
                "external_id": external_id or held.external_id,
                "last_error": error if status == "failed" else "",
                "next_attempt_at": st.after(delay) if delay is not None else None,
                "lease_until": None,
                "lease_owner": "",
                "updated_at": st.now,
            }
            if held.status == "delivering":
                change |= {"tried_at": st.now, "duration_ms": 0, "answer": ""}
                if held.tried_at is not None:
                    change["earlier"] = _and_earlier(held)
            [now] = await st.update([row], change)
            await _end_reward(st, now)
        given.append(
            {"outcome": outcome, "misused": misused, "status": now.status}
            | of(held, "task_id reward_id prize_id campaign_id player_id channel attempts", last_error=now.last_error)
            | {"next_attempt_at": unix(now.next_attempt_at), "created_at": unix(held.created_at)}
            | {"updated_at": unix(now.updated_at)}
        )
    return given


async def _end_reward(st: Statement, task: Any) -> None:
    """A reward whose delivery is over, as its callback says."""

    def movable(r: Any) -> bool:
        return r.status in ("won", "claimed", "fulfilling", "failed")

    reward = st.get("rewards", task.tenant_id, task.reward_id)
    if reward is not None and movable(reward) and task.status in ("delivered", "dead"):
        done = task.status == "delivered"
        change = {"status": "fulfilled" if done else "failed", "fulfilled_at": st.now if done else None}
        await st.update([reward], change, movable)


@statement("fulfillment.rearm")
async def rearm(st: Statement, tenant_id: str, task_id: str, merchant_id: str) -> Result:
    row = st.get("tasks", tenant_id, task_id)
    may = st.theirs(tenant_id, merchant_id, True)
    rows = [row] if row is not None and may(row.campaign_id) else []
    given = []
    for held in await st.lock(rows, UPDATE, lambda t: may(t.campaign_id)):
        armable = held.status in ("awaiting", "retry", "dead", "pending") or _abandoned(held, st.now)
        change = {"status": "pending", "attempts": 0, "next_attempt_at": st.now, "lease_until": None, "lease_owner": ""}
        armed = await st.update([row] if armable else [], change | {"updated_at": st.now})
        reward = st.get("rewards", tenant_id, held.reward_id)
        if armed and reward is not None and reward.status == "failed":
            await st.update([reward], {"status": "fulfilling"}, lambda r: r.status == "failed")
        now = armed[0] if armed else held
        given.append(
            {"rearmed": bool(armed), "status": now.status}
            | of(held, "task_id reward_id prize_id campaign_id player_id channel")
            | {"attempts": now.attempts, "last_error": held.last_error}
            | {"next_attempt_at": unix(now.next_attempt_at), "created_at": unix(held.created_at)}
            | {"updated_at": unix(now.updated_at)}
        )
    return given


@statement("fulfillment.seen")
def seen(st: Statement, tenant_id: str, task_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("tasks", tenant_id, task_id)
    return [of(row, "task_id")] if row and st.theirs(tenant_id, merchant_id, writing)(row.campaign_id) else []


@statement("fulfillment.list")
def list_(
    st: Statement,
    tenant_id: str,
    status: str,
    campaign_id: str,
    prize_id: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    rows = listed(st, "tasks", tenant_id, merchant_id, status=status, campaign_id=campaign_id, prize_id=prize_id)
    names = "task_id reward_id prize_id campaign_id player_id channel status attempts last_error"
    times = ("next_attempt_at", "created_at", "updated_at")
    return [
        of(row, names) | {name: unix(getattr(row, name)) for name in times}
        for row in newest(rows, "task_id", after, limit)
    ]


@statement("fulfillment.receiver")
def receiver(st: Statement, tenant_id: str, task_id: str) -> Result:
    row = st.get("tasks", tenant_id, task_id)
    prize = st.get("prizes", tenant_id, row.prize_id) if row else None
    return [of(prize, "prize_id", channel_config=loads(prize.channel_config))] if prize else []
