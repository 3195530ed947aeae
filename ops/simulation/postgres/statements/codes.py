"""sql/codes.sql: how pools of voucher codes are filled, shown, changed and emptied."""

from __future__ import annotations

from collections import Counter

from ops.simulation.postgres.schema import INFINITE_FUTURE
from ops.simulation.postgres.values import Row, at_unix, newest, of, unix
from ops.simulation.postgres.vocabulary import KEY_SHARE, NO_KEY_UPDATE, UPDATE, Result, Statement, statement


def free_codes(st: Statement, tenant_id: str, prize_id: str) -> list[Row]:
    """The free codes of a pool, in the order in which they are taken."""
    rows = st.find("codes", tenant_id=tenant_id, prize_id=prize_id, reward_id=None)
    found = [row for row in rows if _state(st, row) == "free"]
    found.sort(key=lambda row: (row.expires_at, row.code_id))
    return found


async def pick_codes(st: Statement, tenant_id: str, prize_id: str, wanted: int) -> list[Row]:
    """Free codes, locked: what ends first, in the order of their ids. Those that a rival has are passed by."""
    free = free_codes(st, tenant_id, prize_id)
    held = await st.lock(free, UPDATE, lambda row: _state(st, row) == "free", skip=True, limit=wanted)
    return sorted(held, key=lambda row: row.code_id)


def _state(st: Statement, row: Row) -> str:
    """code_state() of the schema."""
    if row.reward_id is not None:
        return "assigned"
    if row.withdrawn_at is not None:
        return "withdrawn"
    return "expired" if row.expires_at <= st.now else "free"


@statement("codes.add")
async def add(
    st: Statement,
    tenant_id: str,
    prize_id: str,
    code_ids: list[str],
    key_ids: list[str],
    ciphertexts: list[bytes],
    code_hashes: list[bytes],
    older_hashes: list[bytes],
    older_ids: list[str],
    merchant_id: str,
    expire_at: list[int],
) -> Result:
    prize = st.get("prizes", tenant_id, prize_id)
    may = st.theirs(tenant_id, merchant_id, True)
    owners = [prize] if prize is not None and may(prize.campaign_id) else []
    owners = await st.lock(owners, KEY_SHARE, lambda row: may(row.campaign_id))
    if not owners:
        return []
    older = {
        code_id
        for code_hash, code_id in zip(older_hashes, older_ids, strict=True)
        if st.exists("codes", tenant_id=tenant_id, prize_id=prize_id, code_hash=code_hash)
    }
    given = sorted(zip(code_hashes, code_ids, key_ids, ciphertexts, expire_at, strict=True))
    added = set()
    for code_hash, code_id, key_id, ciphertext, expires_at in given:
        if code_id in older:
            continue
        row = await st.insert_unless(
            "codes",
            on=("tenant_id", "prize_id", "code_hash"),
            tenant_id=tenant_id,
            prize_id=prize_id,
            code_id=code_id,
            key_id=key_id,
            ciphertext=ciphertext,
            code_hash=code_hash,
            expires_at=at_unix(expires_at) or INFINITE_FUTURE,
        )
        if row is not None:
            added.add(code_id)
    for key_id in sorted({key_id for _, code_id, key_id, *_ in given if code_id in added}):
        await st.hold_key(key_id)
    refused: list[str | None] = [code_id for code_id in code_ids if code_id not in added]
    return st.unordered([{"code_id": code_id} for code_id in refused or [None]])


@statement("codes.available")
def available(st: Statement, tenant_id: str, prize_id: str) -> Result:
    return [{"count": len(free_codes(st, tenant_id, prize_id))}]


@statement("codes.totals")
def totals(st: Statement, tenant_id: str, prize_id: str) -> Result:
    counts = Counter(_state(st, row) for row in st.find("codes", tenant_id=tenant_id, prize_id=prize_id))
    return st.unordered([{"state": state, "count": count} for state, count in counts.items()])


@statement("codes.list")
def list_codes(st: Statement, tenant_id: str, prize_id: str, state: str, after: str | None, limit: int) -> Result:
    rows = st.find("codes", tenant_id=tenant_id, prize_id=prize_id)
    return [
        {"id": row.code_id}
        | of(row, "key_id ciphertext")
        | {
            "state": _state(st, row),
            "reward_id": row.reward_id or "",
            "created_at": unix(row.created_at),
            "assigned_at": unix(row.assigned_at),
            "withdrawn_at": unix(row.withdrawn_at),
            "expires_at": 0 if row.expires_at == INFINITE_FUTURE else unix(row.expires_at),
        }
        for row in newest([row for row in rows if state in ("", _state(st, row))], "code_id", after, limit)
    ]


@statement("codes.free")
def free(st: Statement, tenant_id: str, prize_id: str, limit: int) -> Result:
    return [of(row, "code_id") for row in free_codes(st, tenant_id, prize_id)[::-1][:limit]]


def _may_go(row: Row) -> bool:
    return row.reward_id is None and row.withdrawn_at is None


def _withdrawable(st: Statement, tenant_id: str, prize_id: str, code_ids: list[str]) -> list[Row]:
    rows = [row for code_id in sorted(set(code_ids)) if (row := st.get("codes", tenant_id, prize_id, code_id))]
    return [row for row in rows if _may_go(row)]


@statement("codes.hold")
async def hold(st: Statement, tenant_id: str, prize_id: str, code_ids: list[str]) -> Result:
    rows = _withdrawable(st, tenant_id, prize_id, code_ids)
    return [of(row, "code_id") for row in await st.lock(rows, NO_KEY_UPDATE, _may_go)]


@statement("codes.withdraw")
async def withdraw(st: Statement, tenant_id: str, prize_id: str, code_ids: list[str]) -> Result:
    rows = st.unordered(_withdrawable(st, tenant_id, prize_id, code_ids))
    gone = await st.update(rows, {"withdrawn_at": st.now}, _may_go)
    return st.unordered([of(row, "code_id") for row in gone])


@statement("codes.ending_otherwise")
def ending_otherwise(
    st: Statement, tenant_id: str, prize_id: str, state: str, ending_at: int, expires_at: int, limit: int
) -> Result:
    rows = st.find("codes", tenant_id=tenant_id, prize_id=prize_id, reward_id=None)
    found = [row for row in rows if _ends_otherwise(st, row, state, ending_at, expires_at)]
    found.sort(key=lambda row: (row.expires_at, row.code_id), reverse=True)
    return [of(row, "code_id") for row in found[:limit]]


@statement("codes.set_expiry")
async def set_expiry(
    st: Statement, tenant_id: str, prize_id: str, code_ids: list[str], state: str, ending_at: int, expires_at: int
) -> Result:
    def may(row: Row) -> bool:
        return _ends_otherwise(st, row, state, ending_at, expires_at)

    rows = [row for row in st.unordered(_withdrawable(st, tenant_id, prize_id, code_ids)) if may(row)]
    changed = await st.update(rows, {"expires_at": at_unix(expires_at) or INFINITE_FUTURE}, may)
    return st.unordered([of(row, "code_id") for row in changed])


def _ends_otherwise(st: Statement, row: Row, state: str, ending_at: int, expires_at: int) -> bool:
    """Whether a code that nobody has is in the state, ends when it is to, and not yet when it shall."""
    return (
        _may_go(row)
        and state in ("", _state(st, row))
        and (not ending_at or row.expires_at == at_unix(ending_at))
        and row.expires_at != (at_unix(expires_at) or INFINITE_FUTURE)
    )


@statement("codes.states")
def states(st: Statement, tenant_id: str, prize_id: str, code_ids: list[str]) -> Result:
    rows = [row for code_id in set(code_ids) if (row := st.get("codes", tenant_id, prize_id, code_id))]
    return st.unordered([of(row, "code_id", state=_state(st, row)) for row in rows])
