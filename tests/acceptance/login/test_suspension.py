from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.login import PHONE, Phone, log_in, refresh, start, verify
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import Answer, Stack, make_tenant, refused

PLATFORM: Final = ("admin", "platform")
SUSPENDED: Final = (403, "PERMISSION_DENIED", "SUSPENDED")
EMAIL: Final = "ann@example.com"


@dataclass(frozen=True)
class Stall:
    stack: Stack
    merchant_id: str
    player_id: str
    game_id: str
    quest_id: str
    reward_id: str
    rung_id: str
    session_id: str
    campaign: str

    async def acts(self) -> dict[str, Answer]:
        ask, player = self.stack.consumer, self.player_id
        body = {"session_id": self.session_id, "payload": {}}
        return {
            "start": await ask("POST", f"/games/{self.game_id}/start", {}, player=player),
            "play": await ask("POST", f"/games/{self.game_id}/play", body, player=player),
            "redeem": await ask("POST", f"/games/{self.game_id}/redeem", {"milestone_id": self.rung_id}, player=player),
            "claim": await ask("POST", f"/rewards/{self.reward_id}/claim", {}, player=player),
            "quest": await ask("POST", f"/quests/{self.quest_id}/complete", {}, player=player),
            "entry": await ask("POST", f"{self.campaign}/entry", {"consents": {"news": True}}, player=player),
            "referral code": await ask("POST", f"{self.campaign}/referral-code", {}, player=player),
        }

    async def logs_in(self) -> Answer:
        contact = {"type": "CONTACT_TYPE_EMAIL", "value": EMAIL}
        return await self.stack.core("POST", "/players/resolve", {"contact": contact})

    async def set(self, kind: str, status: str) -> Any:
        identifier = {"tenant": self.stack.tenant_id, "merchant": self.merchant_id, "player": self.player_id}[kind]
        staff = await make_tenant(self.stack, "tenant_of_the_platform") if kind == "tenant" else self.stack
        named = f"{kind.upper()}_STATUS_{status}"
        answer = await staff.admin("PUT", f"/admin/{kind}s/{identifier}", {"status": named}, roles=PLATFORM)
        assert answer.data["status"] == named
        return answer.data


@pytest_asyncio.fixture
async def stall(stack: Stack) -> AsyncIterator[Stall]:
    merchant_id = await make_merchant(stack)
    form = {"mode": "ENTRY_MODE_OPEN", "consents": [{"id": "news", "text": {"en": "Send me news."}}]}
    campaign_id = (await make_campaign(stack, merchant_id=merchant_id, entry=form))["id"]
    prize_id = await make_prize(stack, fulfillment={"channel": "none", "redemption_mode": "on_claim"})
    rung = {"name": "One", "currency": "points", "threshold": 1, "prize_id": prize_id}
    body = wheel(campaign_id, prize_id, milestones={"mode": "cumulative_unlock", "rungs": [rung]})
    game = (await stack.admin("POST", "/admin/games", body)).data
    quest = {"campaign_id": campaign_id, "name": "Visit", "type": "one_time", "turns": 1, "status": "active"}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    assert (await stack.admin("POST", "/admin/quests", {**quest, "condition": {"kind": "referrals"}})).code == "OK"
    contact = {"type": "CONTACT_TYPE_EMAIL", "value": EMAIL}
    player_id = (await stack.core("POST", "/players/resolve", {"contact": contact})).data["player"]["id"]
    points = {"player_id": player_id, "scope_key": campaign_id, "currency": "points", "amount": 5, "reference_id": "r"}
    assert (await stack.admin("POST", "/admin/wallet/adjustments", points)).data

    async def session() -> str:
        started = (await stack.consumer("POST", f"/games/{game['id']}/start", {}, player=player_id)).data
        return str(started["session_id"])

    played = {"session_id": await session(), "payload": {}}
    won = (await stack.consumer("POST", f"/games/{game['id']}/play", played, player=player_id)).data
    rung_id = game["milestones"]["rungs"][0]["id"]
    reward_id = won["rewards"][0]["reward_id"]
    path = f"/campaigns/{campaign_id}"
    assert (await stack.consumer("POST", f"{path}/entry", {}, player=player_id)).code == "OK"
    yield Stall(stack, merchant_id, player_id, game["id"], quest_id, reward_id, rung_id, await session(), path)


@pytest.mark.parametrize("kind", ["tenant", "merchant", "player"])
async def test_suspension_refuses_every_act_until_restored(stall: Stall, kind: str) -> None:
    await stall.set(kind, "SUSPENDED")
    acts = await stall.acts()
    refusals = {name: (refused(one), one.envelope["data"].get("suspended")) for name, one in acts.items()}
    assert refusals == dict.fromkeys(refusals, (SUSPENDED, kind))
    path = f"/games/{stall.game_id}"
    shown = (await stall.stack.consumer("GET", f"{path}/eligibility", player=stall.player_id)).data
    assert (shown["can_play"], shown["reason"]) == (False, "SUSPENDED")
    if kind == "player":
        assert (await stall.stack.consumer("POST", f"{path}/start", {}, player="player_bob")).data["session_id"]
    if kind == "merchant":
        invited = await stall.stack.consumer(
            "POST", f"{stall.campaign}/referrals", {"code": "k7q2m9xt4b"}, player="bob"
        )
        assert refused(invited) == SUSPENDED
        withdrawal = {"consents": {"news": False}}
        assert (await stall.stack.consumer("POST", f"{stall.campaign}/entry", withdrawal, player=stall.player_id)).data
    else:
        assert refused(await stall.logs_in()) == SUSPENDED
        for verb, body in (("GET", None), ("PUT", {"display_name": "Ann"})):
            assert refused(await stall.stack.consumer(verb, "/players/me", body, player=stall.player_id)) == SUSPENDED
    await stall.set(kind, "ACTIVE")
    assert {name: one.code for name, one in (await stall.acts()).items()} == dict.fromkeys(refusals, "OK")
    assert (await stall.logs_in()).data["player"]["id"] == stall.player_id


async def test_suspension_refuses_to_refresh_a_login(stall: Stall, phone: Phone) -> None:
    session = await log_in(stall.stack, phone)
    mine = replace(stall, player_id=session["player"]["id"])
    for kind in ("tenant", "player"):
        await mine.set(kind, "SUSPENDED")
        assert refused(await refresh(stall.stack, session["refresh_token"])) == SUSPENDED
        await mine.set(kind, "ACTIVE")
    assert (await refresh(stall.stack, session["refresh_token"])).data["token"]


async def test_suspension_of_a_tenant_stops_login_codes(stall: Stall, phone: Phone) -> None:
    challenge_id = (await start(stall.stack)).data["challenge_id"]
    code = phone.code()
    await stall.set("tenant", "SUSPENDED")
    assert refused(await start(stall.stack, "+15550199")) == SUSPENDED
    with pytest.raises(KeyError):
        phone.code("+15550199")
    link = {"type": "phone", "value": PHONE, "challenge_id": challenge_id, "code": code}
    for answer in (
        await verify(stall.stack, challenge_id, code),
        await stall.stack.consumer("POST", "/players/me/contacts", link, player=stall.player_id),
    ):
        assert refused(answer) == SUSPENDED
    await stall.set("tenant", "ACTIVE")
    assert (await verify(stall.stack, challenge_id, code)).data["token"]


async def test_suspension_refuses_changes_and_exports_of_staff(stall: Stall) -> None:
    quest = (f"/admin/quests/{stall.quest_id}", {"turns": 2})
    staff = replace(stall.stack, merchant_id=stall.merchant_id)
    await stall.set("merchant", "SUSPENDED")
    assert refused(await staff.admin("PUT", *quest)) == SUSPENDED
    assert (await staff.admin("GET", quest[0])).data
    assert (await stall.stack.admin("PUT", *quest)).data
    for name in ("winners", "rewards", "plays", "ledger", "tasks", "audit"):
        assert refused(await staff.admin("GET", f"/admin/exports/{name}")) == SUSPENDED, "nor takes much along"
    await stall.set("tenant", "SUSPENDED")
    assert refused(await stall.stack.admin("PUT", *quest)) == SUSPENDED


async def test_suspension_is_in_the_audit_log(stall: Stall) -> None:
    body = {"status": "PLAYER_STATUS_SUSPENDED", "reason": "a script"}
    assert (await stall.stack.admin("PUT", f"/admin/players/{stall.player_id}", body)).data
    for kind in ("merchant", "tenant"):
        await stall.set(kind, "SUSPENDED")
    for kind in ("tenant", "merchant", "player"):
        await stall.set(kind, "ACTIVE")
    listed = (await stall.stack.admin("GET", "/admin/audit", limit=20)).data["items"]
    entries = [entry for entry in listed if entry["action"] != "staff.sign_in"][:6]
    actions = ["player.set_status", "merchant.update", "tenant.update"]
    assert [entry["action"] for entry in entries] == actions + actions[::-1]
    changes = [(entry["before"]["status"], entry["after"]["status"]) for entry in entries]
    assert changes == [("suspended", "active")] * 3 + [("active", "suspended")] * 3
    assert entries[-1]["after"]["reason"] == "a script"


async def test_suspension_of_an_unknown_id_is_not_found(stack: Stack) -> None:
    refusals = []
    for kind in ("tenant", "merchant", "player"):
        body = {"status": f"{kind.upper()}_STATUS_SUSPENDED"}
        refusals.append(refused(await stack.admin("PUT", f"/admin/{kind}s/nobody", body, roles=PLATFORM)))
    assert refusals == [(404, "NOT_FOUND", f"UNKNOWN_{kind}") for kind in ("TENANT", "MERCHANT", "PLAYER")]
