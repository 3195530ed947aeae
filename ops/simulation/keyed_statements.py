"""Models of the statements of claims and of idempotent staff writes: claims.sql, idempotency.sql, wallet.sql."""

from typing import Any, Final

from ops.simulation.postgres import Result, Row, Transaction
from ops.simulation.statements import CONTENT, copied, datetime_of, of, statement, unix

# -- claims ------------------------------------------------------------------------------------


@statement("claims.claim")
def claim(
    tx: Transaction,
    tenant_id: str,
    reward_ids: list[str],
    player_ids: list[str],
    claim_keys: list[str | None],
    task_ids: list[str],
    instant: list[str],
    answers: list[dict[str, str]],
) -> Result:
    claims = zip(reward_ids, player_ids, claim_keys, task_ids, strict=True)
    return [_claim(tx, *one, instant) for one in claims]


def _claim(
    tx: Transaction, reward_id: str, player_id: str, key: str | None, task_id: str, instant: list[str]
) -> dict[str, Any]:
    row = tx.get("rewards", reward_id)
    if row is not None and row["player_id"] != player_id:
        row = None
    prize = tx.get("prizes", row["prize_id"]) if row is not None else None
    tasked = bool(tx.find("tasks", reward_id=reward_id))
    status_now = _reward_status(row, tasked, tx.began) if row is not None else None
    code = next(iter(tx.find("codes", reward_id=reward_id)), None)
    is_sent = is_delivered = is_manual = False
    outcome = "unknown"
    if row is not None and prize is not None:
        channel = prize["channel"]
        is_due = prize["redemption_mode"] != "manual" and not tasked
        is_manual = is_due and channel == "manual"
        is_delivered, is_sent = is_due and channel in instant, is_due and channel not in instant and not is_manual
        if status_now == "won":
            outcome = "claimed"
            status = "fulfilled" if is_delivered else "claimed"
            delivered = tx.began if is_delivered else None
            times = {"claimed_at": tx.began, "fulfilled_at": delivered, "claim_key": key}
            row = tx.update("rewards", row, status=status, **times)
            status_now = status
            if is_due:
                names = "tenant_id reward_id prize_id campaign_id player_id"
                status = "delivered" if is_delivered else "awaiting" if is_manual else "pending"
                state = {"status": status, "attempts": int(is_delivered), "channel": channel}
                next_attempt_at = tx.began if is_sent else None
                tx.insert("tasks", **of(row, names, task_id=task_id, next_attempt_at=next_attempt_at, **state))
        else:
            outcome = "replayed" if key is not None and row["claim_key"] == key else "illegal"
            is_delivered = is_sent = is_manual = False
    gives_code = prize is not None and prize["channel"] == "voucher_code"
    revealed = code if outcome == "claimed" and is_delivered and gives_code else None
    names = "player_id prize_id name type value quantity game_id play_id campaign_id milestone_id"
    times = {name: unix(row[name] if row else None) for name in ("won_at", "claimed_at", "fulfilled_at", "expires_at")}
    return (
        {"outcome": outcome, "reward_id": reward_id, "entry_missing": None, "barred_country": None}
        | of(
            row, names, status=status_now, prize=CONTENT, problems=None, suspended=None, merchant_id="" if row else None
        )
        | times
        | of(revealed, "key_id ciphertext", sent_task_id=task_id if is_sent else None)
        | {"delivered": is_delivered, "awaiting": is_manual}
    )


def _reward_status(row: Row, tasked: bool, now: int) -> str:
    """reward_status(): the effective status of a reward."""
    late = row["status"] == "won" and row["expires_at"] is not None and row["expires_at"] <= now and not tasked
    return "expired" if late else str(row["status"])


@statement("rewards.as_claimed")
def as_claimed(tx: Transaction, tenant_id: str, reward_ids: list[str]) -> Result:
    found = []
    for row in (tx.get("rewards", one) for one in reward_ids):
        if row is not None and row["claimed_at"] is not None:
            at_once = row["fulfilled_at"] == row["claimed_at"]
            code = next(iter(tx.find("codes", reward_id=row["reward_id"])), None) if at_once else None
            names = "reward_id player_id prize_id name type value quantity game_id play_id campaign_id milestone_id"
            times = {name: unix(row[name]) for name in ("won_at", "claimed_at", "expires_at")}
            status = "fulfilled" if at_once else "claimed"
            times["fulfilled_at"] = unix(row["fulfilled_at"]) if at_once else 0
            found.append(of(row, names, status=status) | times | of(code, "key_id ciphertext", prize=CONTENT, given={}))
    return found


# -- idempotent staff writes: a wallet adjustment ------------------------------------------------


@statement("idempotency.claim")
def claim_key(tx: Transaction, *values: Any) -> Result:
    names = ("tenant_id", "merchant_id", "subject", "route", "idempotency_key", "request_hash")
    row = tx.insert_unless("keyed_requests", reply=b"", **dict(zip(names, values, strict=True)))
    return [{"requested_at": datetime_of(row["requested_at"])}] if row else []


@statement("idempotency.find")
def find_key(tx: Transaction, tenant_id: str, *key: str) -> Result:
    row = tx.get("keyed_requests", *key)
    return [of(row, "request_hash reply")] if row else []


@statement("idempotency.store_reply")
def store_reply(
    tx: Transaction, tenant_id: str, merchant_id: str, subject: str, route: str, key: str, reply: bytes
) -> Result:
    row = tx.get("keyed_requests", merchant_id, subject, route, key)
    return int(row is not None and bool(tx.update("keyed_requests", row, reply=reply)))


@statement("wallet.target")
def target(tx: Transaction, tenant_id: str, player_id: str, scope_key: str, merchant_id: str) -> Result:
    is_scope = tx.get("campaigns", scope_key) is not None
    return [{"player": tx.get("players", player_id) is not None, "scope": is_scope, "own": True}]


@statement("merging.lock_target")
def lock_target(tx: Transaction, tenant_id: str, player_id: str) -> Result:
    row = tx.get("players", player_id)
    return [{"merged_into": None}] if row is not None and row["auth_method"] == "guest" else []


@statement("wallet.move")
def move(
    tx: Transaction,
    tenant_id: str,
    player_id: str,
    scope_key: str,
    currency: str,
    amount: int,
    entry_id: str,
    reason: str,
    reference_id: str,
    reward_id: str,
) -> Result:
    own = {"tenant_id": tenant_id, "player_id": player_id, "scope_key": scope_key, "currency": currency}
    row, at = tx.get("balances", player_id, scope_key, currency), tx.server.clock()
    after = (row["balance"] if row else 0) + amount
    if after < 0 or (row is None and amount < 0):
        return []
    if row is None:
        row = tx.insert("balances", **own, balance=after, seq=at)
    else:
        row = tx.update("balances", row, balance=after, seq=max(row["seq"] + 1, at), updated_at=tx.began)
    fields = {"amount": amount, "balance_after": after, "reason": reason, "reference_id": reference_id}
    entry = tx.insert("ledger_entries", **own, entry_id=entry_id, seq=row["seq"], reward_id=reward_id, **fields)
    names = "entry_id currency scope_key amount balance_after reason reference_id"
    return [of(entry, names, created_at=unix(entry["created_at"]))]


@statement("wallet.balance")
def balance(tx: Transaction, tenant_id: str, player_id: str, scope_key: str, currency: str) -> Result:
    row = tx.get("balances", player_id, scope_key, currency)
    return [of(row, "balance")] if row else []


AUDIT_COLUMNS: Final = "tenant_id entry_id actor action subject_type subject_id before after trace_id merchant_id"


@statement("audit.append")
def append_audit_entry(tx: Transaction, *values: Any) -> Result:
    row = dict(zip(AUDIT_COLUMNS.split(), values, strict=True))
    tx.insert("audit_entries", **row | {"before": copied(row["before"]), "after": copied(row["after"])})
    return 1


@statement("tenancy.suspended")
def suspended(tx: Transaction, tenant_id: str, merchant_id: str, player_id: str) -> Result:
    return [{"case": None}]
