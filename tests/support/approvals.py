from typing import Any, Final

from tests.support.login import bearer
from tests.support.stack import Answer, Stack, refused
from tests.support.world import World

LIMIT: Final = 100
HELD: Final = {"dual_adjustment_above": LIMIT, "dual_turns_above": 5, "dual_odds": True, "dual_revocations_above": 2}
"""Settings under which nobody does much alone."""


async def as_(
    stack: Stack, who: str, verb: str, path: str, body: Any = None, *, role: str = "", key: str = ""
) -> Answer:
    headers = bearer(stack.token(who, (role or "reward_manager",))) | ({"Idempotency-Key": key} if key else {})
    return await stack.admin(verb, f"/admin/{path}", body, roles=(), headers=headers)


async def player_of(stack: Stack, player_id: str) -> str:
    assert (await stack.consumer("GET", "/players/me", player=player_id)).http == 200
    return player_id


async def ask(stack: Stack, player: str, amount: int = 1000, *, who: str = "ann", key: str = "", **more: Any) -> Answer:
    body = {"player_id": player, "scope_key": stack.tenant_id, "currency": "points", "amount": amount, **more}
    return await as_(stack, who, "POST", "wallet/adjustments", body, key=key)


def waiting(answer: Answer) -> dict[str, Any]:
    assert refused(answer) == (202, "FAILED_PRECONDITION", "APPROVAL_NEEDED"), answer.envelope
    return dict(answer.envelope["data"]["approval"])


async def decide(stack: Stack, who: str, what: str, approval: dict[str, Any], *, role: str = "") -> Answer:
    return await as_(stack, who, "POST", f"approvals/{approval['id']}/{what}", {"reason": "seen"}, role=role)


async def balance(stack: Stack, player: str) -> int:
    rows = (await stack.admin("GET", f"/admin/players/{player}/wallet")).data["items"]
    return int(rows[0]["balance"]) if rows else 0


async def audit_trail(stack: Stack, approval: dict[str, Any]) -> list[tuple[str, str]]:
    """The audit entries of an approval, oldest first: (action, actor)."""
    items = (await stack.admin("GET", "/admin/audit", subject_id=approval["id"])).data["items"]
    return [(entry["action"], entry["actor"]) for entry in reversed(items)]


async def put(world: World, path: str, body: dict[str, Any] | None = None, **more: Any) -> Answer:
    return await as_(world.stack, "dan", "PUT", path, {**(body or {}), **more}, role="designer")


async def post(world: World, path: str, body: dict[str, Any]) -> Answer:
    return await as_(world.stack, "dan", "POST", path, body, role="designer")


async def approve(world: World, approval: dict[str, Any]) -> Answer:
    return await decide(world.stack, "eve", "approve", approval, role="designer")
