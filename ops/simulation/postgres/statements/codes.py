"""sql/codes.sql: how pools of voucher codes are filled."""

from __future__ import annotations

from ops.simulation.postgres.vocabulary import KEY_SHARE, Result, Statement, statement


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
    given = sorted(zip(code_hashes, code_ids, key_ids, ciphertexts, strict=True))
    added = set()
    for code_hash, code_id, key_id, ciphertext in given:
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
        )
        if row is not None:
            added.add(code_id)
    for key_id in sorted({key_id for _, code_id, key_id, _ in given if code_id in added}):
        await st.hold_key(key_id)
    refused: list[str | None] = [code_id for code_id in code_ids if code_id not in added]
    return st.unordered([{"code_id": code_id} for code_id in refused or [None]])


@statement("codes.available")
def available(st: Statement, tenant_id: str, prize_id: str) -> Result:
    return [{"count": len(st.find("codes", tenant_id=tenant_id, prize_id=prize_id, reward_id=None))}]
