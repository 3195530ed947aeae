"""sql/claims.sql: what players do to their rewards."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.statements.codes import pick_codes
from ops.simulation.postgres.values import dumps, loads, of, standing, unix
from ops.simulation.postgres.vocabulary import UPDATE, Result, Statement, statement


@statement("claims.claim")
async def claim(
    st: Statement,
    tenant_id: str,
    reward_ids: list[str],
    player_ids: list[str],
    claim_keys: list[str | None],
    task_ids: list[str],
    instant: list[str],
    answers: list[dict[str, str]],
) -> Result:
    asked = list(enumerate(zip(reward_ids, player_ids, claim_keys, task_ids, strict=True)))
    held = await _hold(st, tenant_id, asked)
    suspended = {nth: _suspended(st, tenant_id, row) for nth, row in held.items()}
    stands = {nth: standing(row.status, row.expires_at, _tasked(st, row), st.now) for nth, row in held.items()}

    fields = {nth: _fields(st, tenant_id, row) for nth, row in held.items()}
    wrong = {nth: problems(fields[nth], answers[nth]) for nth in held}

    due: dict[int, dict[str, Any]] = {}
    for nth, row in sorted(held.items()):
        prize = st.get("prizes", tenant_id, row.prize_id)
        if stands[nth] != "won" or suspended[nth] is not None or wrong[nth] is not None or prize is None:
            continue
        falls_due = prize.redemption_mode != "manual" and prize.channel != "manual" and not _tasked(st, row)
        coded = falls_due and prize.channel == "voucher_code"
        codes = st.find("codes", tenant_id=tenant_id, reward_id=row.reward_id)
        due[nth] = {
            "row": row,
            "channel": prize.channel,
            "instant": falls_due and prize.channel in instant,
            "sent": falls_due and prize.channel not in instant,
            "held_code": codes[0] if coded and codes else None,
            "uncoded": coded and not codes,
            "picked": None,
        }
    await _pick_codes(st, tenant_id, due)
    ready = {nth: one for nth, one in due.items() if not one["uncoded"] or one["picked"] is not None}

    moved: dict[int, Any] = {}
    for nth in st.unordered(list(ready)):
        one = ready[nth]
        row = st.get("rewards", tenant_id, one["row"].reward_id)
        if row is None or row.status != "won":
            continue
        change = {
            "status": "fulfilled" if one["instant"] else "claimed",
            "claimed_at": st.now,
            "fulfilled_at": st.now if one["instant"] else None,
            "claim_key": claim_keys[nth],
        }
        for changed in await st.update([row], change, lambda row: row.status == "won"):
            moved[nth] = changed
    for nth, changed in moved.items():
        if ready[nth]["picked"] is not None:
            change = {"reward_id": changed.reward_id, "assigned_at": st.now}
            [ready[nth]["picked"]] = await st.update([ready[nth]["picked"]], change)
    for nth in moved:
        if answers[nth]:
            own = {"tenant_id": tenant_id, "reward_id": reward_ids[nth]}
            await st.insert("claim_answers", **own, answers=dumps(answered(fields[nth] or [], answers[nth])))
    for nth in moved:
        one = ready[nth]
        if one["instant"] or one["sent"]:
            await st.insert(
                "tasks",
                tenant_id=tenant_id,
                task_id=task_ids[nth],
                channel=one["channel"],
                status="delivered" if one["instant"] else "pending",
                next_attempt_at=st.now if one["sent"] else None,
                **of(one["row"], "reward_id prize_id campaign_id player_id"),
            )
    return [
        _answer(reward_id, key, held.get(nth), stands.get(nth), suspended.get(nth), wrong.get(nth), moved.get(nth))
        | {"problems": wrong.get(nth)}
        | _delivery(ready.get(nth), nth in moved, task_id, suspended.get(nth))
        | {"merchant_id": _merchant(st, tenant_id, held.get(nth))}
        for nth, (reward_id, _, key, task_id) in asked
    ]


async def _hold(st: Statement, tenant_id: str, asked: list[Any]) -> dict[int, Any]:
    found = []
    for nth, (reward_id, player_id, _, _) in asked:
        row = st.get("rewards", tenant_id, reward_id)
        if row is not None and row.player_id == player_id:
            found.append((reward_id, nth, row))
    held = {}
    for _, nth, row in sorted(found, key=lambda one: one[0]):
        for now in await st.lock([row], UPDATE, lambda latest, row=row: latest.player_id == row.player_id):  # type: ignore[misc]
            held[nth] = now
    return held


def _tasked(st: Statement, row: Any) -> bool:
    return st.exists("tasks", tenant_id=row.tenant_id, reward_id=row.reward_id)


def _suspended(st: Statement, tenant_id: str, row: Any) -> str | None:
    tenant = st.get("tenants", tenant_id)
    if tenant is not None and tenant.status == "suspended":
        return "tenant"
    campaign = st.get("campaigns", tenant_id, row.campaign_id)
    merchant = st.get("merchants", tenant_id, campaign.merchant_id) if campaign is not None else None
    if merchant is not None and merchant.status == "suspended":
        return "merchant"
    player = st.get("players", tenant_id, row.player_id)
    return "player" if player is not None and player.status == "suspended" else None


async def _pick_codes(st: Statement, tenant_id: str, due: dict[int, dict[str, Any]]) -> None:
    wanting: dict[str, list[dict[str, Any]]] = {}
    for one in due.values():
        if one["uncoded"]:
            wanting.setdefault(one["row"].prize_id, []).append(one)
    for prize_id in st.unordered(list(wanting)):
        wanted = wanting[prize_id]
        rows = await pick_codes(st, tenant_id, prize_id, len(wanted))
        for one, row in zip(wanted, rows, strict=False):
            one["picked"] = row


def _fields(st: Statement, tenant_id: str, row: Any) -> list[dict[str, Any]] | None:
    prize = st.get("prizes", tenant_id, row.prize_id)
    return loads(prize.claim_fields) if prize is not None else None


def problems(fields: list[dict[str, Any]] | None, answers: dict[str, str]) -> list[list[str]] | None:
    """claim_problems of sql/schema.sql. Of fields that are NULL nothing is known."""
    if fields is None:
        return None
    found = [[field["key"], wrong] for field in fields if (wrong := _problem(field, answers.get(field["key"])))]
    known = {field["key"] for field in fields}
    return found + [[key, "unknown"] for key in sorted(answers) if key not in known] or None


def _problem(field: dict[str, Any], answer: str | None) -> str:
    if answer is None:
        return "required" if field["required"] else ""
    if field["kind"] == "choice":
        return "" if answer in field["options"] else "option"
    if field["kind"] != "text":
        return ""
    return "long" if len(answer) > 200 else "lines" if set(answer) & set("\n\r\t") else ""


def answered(fields: list[dict[str, Any]], answers: dict[str, str]) -> list[dict[str, str]]:
    """claim_answered of sql/schema.sql."""
    return [
        {"key": field["key"], "label": field["label"], "value": answers[field["key"]]}
        for field in fields
        if field["key"] in answers
    ]


def _answer(
    reward_id: str,
    key: str | None,
    row: Any,
    stands: str | None,
    suspended: str | None,
    wrong: Any,
    moved: Any,
) -> dict[str, Any]:
    if moved is not None:
        outcome = "claimed"
    elif row is None:
        outcome = "unknown"
    elif key is not None and row.claim_key == key:
        outcome = "replayed"
    elif suspended is not None:
        outcome = "suspended"
    elif stands != "won":
        outcome = "illegal"
    else:
        outcome = "unanswered" if wrong is not None else "out_of_stock"
    names = "player_id prize_id name type value quantity"
    whence = "game_id play_id campaign_id milestone_id"
    now = moved or row
    return (
        {"outcome": outcome, "reward_id": reward_id}
        | (of(row, names) if row else dict.fromkeys(names.split()))
        | {"status": moved.status if moved else stands}
        | (of(row, whence) if row else dict.fromkeys(whence.split()))
        | {
            "won_at": unix(row.won_at if row else None),
            "claimed_at": unix(now.claimed_at if now else None),
            "fulfilled_at": unix(now.fulfilled_at if now else None),
            "expires_at": unix(row.expires_at if row else None),
        }
    )


def _delivery(one: dict[str, Any] | None, moved: bool, task_id: str, suspended: str | None) -> dict[str, Any]:
    """What the claim delivers: nothing of a reward that was not ready for it."""
    if one is None:
        return {"key_id": None, "ciphertext": None, "suspended": suspended, "sent_task_id": None, "delivered": False}
    code = (one["picked"] if moved else None) or one["held_code"]
    return {
        "key_id": code.key_id if code else None,
        "ciphertext": code.ciphertext if code else None,
        "suspended": suspended,
        "sent_task_id": task_id if one["sent"] else None,
        "delivered": one["instant"],
    }


def _merchant(st: Statement, tenant_id: str, row: Any) -> str | None:
    campaign = st.get("campaigns", tenant_id, row.campaign_id) if row is not None else None
    return campaign.merchant_id if campaign is not None else None
