import asyncio
from dataclasses import replace
from typing import Any

import pytest

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations.approvals import review
from runtime.operations.desk import bulk
from tests.support.approvals import LIMIT, as_, ask, audit_trail, balance, decide, player_of, waiting
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.stack import OTHER_TENANT, Answer, Stack, make_tenant, refused
from tests.support.world import World


async def token_of(office: Stack, who: str) -> Any:
    return (await as_(office, who, "POST", "tokens", {"name": "ci", "roles": ["reward_manager"]}, role="admin")).data


async def test_adjustment_above_the_limit_waits_for_another_person(office: Stack) -> None:
    player = await player_of(office, "above")
    assert (await ask(office, player, LIMIT)).http == 200
    approval = waiting(await ask(office, player, reference_id="ticket-9"))
    assert (approval["operation"], approval["subject_id"], approval["requested_by"]) == ("AdjustBalance", player, "ann")
    found = (approval["before"]["balance"], approval["after"]["balance"], approval["after"]["amount"])
    assert found == (100, 1100, 1000)
    assert approval["expires_at"] - approval["requested_at"] == 7 * 86400
    assert await balance(office, player) == LIMIT
    assert approval in (await as_(office, "bob", "GET", "approvals?status=waiting")).data["items"]
    done = (await decide(office, "bob", "approve", approval)).data
    assert (done["status"], done["decided_by"], done["reason"]) == ("APPROVAL_STATUS_DONE", "bob", "seen")
    assert await balance(office, player) == 1100
    assert await audit_trail(office, approval) == [("approval.ask", "ann"), ("approval.approve", "bob")]
    [moved, *_] = (await office.admin("GET", "/admin/audit", subject_id=player)).data["items"]
    assert (moved["action"], moved["actor"]) == ("player.adjust_balance", "ann")
    assert (await decide(office, "bob", "approve", approval)).data == done and await balance(office, player) == 1100
    assert refused(await decide(office, "eve", "approve", approval))[2] == "ILLEGAL_TRANSITION"


async def test_adjustment_that_would_be_refused_does_not_wait(office: Stack) -> None:
    assert refused(await ask(office, await player_of(office, "poor"), -1000))[2] == "INSUFFICIENT_BALANCE"
    assert refused(await ask(office, "player_none"))[2] == "UNKNOWN_PLAYER"


async def test_own_request_is_neither_approved_nor_rejected(office: Stack) -> None:
    player = await player_of(office, "own")
    approval = waiting(await ask(office, player))
    for what in ("approve", "reject"):
        answer = await decide(office, "ann", what, approval, role="admin")
        assert refused(answer) == (403, "PERMISSION_DENIED", "OWN_REQUEST"), what
    body = {"id": approval["id"], "may_decide": ["AdjustBalance"]}
    assert refused(await office.core("POST", f"/approvals/{approval['id']}/approve", body))[2] == "OWN_REQUEST"
    assert await balance(office, player) == 0


async def test_api_token_or_its_maker_is_no_second_person(office: Stack) -> None:
    player = await player_of(office, "by_token")
    tag = bearer((await token_of(office, "ann"))["secret"])
    path = f"/admin/approvals/{waiting(await ask(office, player))['id']}/approve"
    answer = await office.admin("POST", path, {"reason": "r"}, roles=(), headers=tag)
    assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    body = {"player_id": player, "scope_key": office.tenant_id, "currency": "points", "amount": 1000}
    sent = await office.admin("POST", "/admin/wallet/adjustments", {**body, "reference_id": "r"}, roles=(), headers=tag)
    assert refused(await decide(office, "ann", "approve", waiting(sent))) == (403, "PERMISSION_DENIED", "OWN_REQUEST")
    assert await balance(office, player) == 0
    assert (await decide(office, "bea", "approve", waiting(sent))).code == "OK"


async def test_approval_requires_the_role_of_the_operation(office: Stack) -> None:
    player = await player_of(office, "roles")
    approval = waiting(await ask(office, player))
    for what in ("approve", "reject"):
        answer = await decide(office, "dora", what, approval, role="designer")
        assert refused(answer) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED"), what
        assert answer.envelope["data"]["roles"] == ["admin", "reward_manager"]
    body = {"reason": "", "may_decide": ["AdjustBalance"]}
    assert (await as_(office, "dora", "POST", f"approvals/{approval['id']}/approve", body, role="designer")).http == 400
    assert await balance(office, player) == 0
    assert (await decide(office, "root", "approve", approval, role="admin")).http == 200


async def test_approval_is_unknown_to_other_tenants_and_merchants(office: Stack) -> None:
    player = await player_of(office, "scope")
    approval = waiting(await ask(office, player))
    shop = replace(office, merchant_id=await make_merchant(office))
    for other in (await make_tenant(office, OTHER_TENANT), shop):
        assert approval["id"] not in str((await as_(other, "bob", "GET", "approvals")).envelope)
        for verb, path in (("GET", ""), ("POST", "/approve"), ("POST", "/reject"), ("POST", "/withdraw")):
            answer = await as_(other, "bob", verb, f"approvals/{approval['id']}{path}", {} if verb == "POST" else None)
            assert refused(answer) == (404, "NOT_FOUND", "UNKNOWN_APPROVAL"), path
    body = {"player_id": player, "scope_key": shop.merchant_id, "currency": "points", "amount": 500}
    theirs = waiting(await as_(shop, "mia", "POST", "wallet/adjustments", body))
    assert theirs["merchant_id"] == shop.merchant_id
    assert (await decide(office, "bob", "approve", theirs)).data["status"] == "APPROVAL_STATUS_DONE"
    [moved] = (await shop.admin("GET", "/admin/audit", actor="mia", subject_id=player)).data["items"]
    assert moved["action"] == "player.adjust_balance"


async def test_key_makes_one_approval_and_one_movement(office: Stack) -> None:
    player = await player_of(office, "keyed")
    approval = waiting(await ask(office, player, key="k-1"))
    answers = await asyncio.gather(*(ask(office, player, key="k-1") for _ in range(4)))
    assert {waiting(answer)["id"] for answer in answers if answer.http == 202} == {approval["id"]}
    assert refused(await ask(office, player, 2000, key="k-1"))[:1] == (422,)
    assert waiting(await ask(office, player, who="zoe", key="k-1"))["id"] != approval["id"]
    assert (await decide(office, "bob", "approve", approval)).http == 200
    entry = (await ask(office, player, key="k-1")).data
    assert (entry["amount"], entry["balance_after"]) == (1000, 1000)
    assert await balance(office, player) == 1000


async def test_key_that_was_used_meanwhile_is_not_used_again(office: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    player = await player_of(office, "meanwhile")
    approval = waiting(await ask(office, player, key="k-3"))
    with monkeypatch.context() as patch:
        patch.setattr(office.engine, "settings", replace(office.engine.settings, dual_adjustment_above=0))
        assert (await ask(office, player, key="k-3")).data["balance_after"] == 1000
    assert (await decide(office, "bob", "approve", approval)).data["status"] == "APPROVAL_STATUS_DONE"
    assert await balance(office, player) == 1000


async def test_withdrawal_or_rejection_is_final(office: Stack) -> None:
    player = await player_of(office, "ended")
    for nth, (who, what) in enumerate((("ann", "withdraw"), ("bob", "reject"))):
        key = f"k-2{nth}"
        approval = waiting(await ask(office, player, key=key))
        if what == "withdraw":
            assert refused(await decide(office, "bob", what, approval))[2] == "FORBIDDEN", "only who asked withdraws"
        status = f"APPROVAL_STATUS_{'WITHDRAWN' if what == 'withdraw' else 'REJECTED'}"
        assert (await decide(office, who, what, approval)).data["status"] == status
        assert waiting(await ask(office, player, key=key))["status"] == status
        assert refused(await decide(office, "eve", "approve", approval))[2] == "ILLEGAL_TRANSITION"
        assert await audit_trail(office, approval) == [("approval.ask", "ann"), (f"approval.{what}", who)]
    assert await balance(office, player) == 0


async def test_approval_that_cannot_be_carried_out_now_goes_on_waiting(office: Stack) -> None:
    player = await player_of(office, "spent")
    for _ in range(2):
        await ask(office, player, LIMIT)
    approval = waiting(await ask(office, player, -150))
    await ask(office, player, -LIMIT)
    assert refused(await decide(office, "bob", "approve", approval))[2] == "INSUFFICIENT_BALANCE"
    assert (await as_(office, "bob", "GET", f"approvals/{approval['id']}")).data["status"] == "APPROVAL_STATUS_WAITING"
    await ask(office, player, LIMIT)
    assert (await decide(office, "bob", "approve", approval)).http == 200
    assert await balance(office, player) == 50


async def test_approval_of_a_suspended_merchant_is_refused(office: Stack) -> None:
    player, merchant_id = await player_of(office, "halted"), await make_merchant(office)
    shop = replace(office, merchant_id=merchant_id)
    body = {"player_id": player, "scope_key": merchant_id, "currency": "points", "amount": 500}
    approval = waiting(await as_(shop, "mia", "POST", "wallet/adjustments", body))
    await office.admin("PUT", f"/admin/merchants/{merchant_id}", {"status": "MERCHANT_STATUS_SUSPENDED"})
    assert refused(await decide(office, "bob", "approve", approval))[2] == "SUSPENDED"
    assert await balance(office, player) == 0


async def test_turns_above_the_limit_wait_and_are_given_once(fair: World) -> None:
    stack, player = fair.stack, await player_of(fair.stack, "turns")
    body = {"campaign_id": fair.campaign_id, "amount": 6, "reason": "the app broke off"}
    assert (await as_(stack, "ann", "POST", f"players/{player}/turns", body | {"amount": 5})).http == 200
    approval = waiting(await as_(stack, "ann", "POST", f"players/{player}/turns", body))
    found = (approval["before"]["balance"], approval["after"]["balance"], approval["after"]["reason"])
    assert found == (5, 11, body["reason"])
    answers = await asyncio.gather(*(decide(stack, who, "approve", approval) for who in ("bob", "eve")))
    assert sorted(answer.http for answer in answers) == [200, 400]
    [turns] = (await stack.admin("GET", f"/admin/players/{player}/turns")).data["items"]
    assert turns["balance"] == 11


class TestOdds:
    async def odds(self, fair: World, game: str, probability: float, who: str = "dan", **more: Any) -> Answer:
        config = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["handler_config"]
        config["prizes"][0]["probability"] = probability
        return await as_(fair.stack, who, "PUT", f"games/{game}", {"handler_config": config, **more}, role="designer")

    async def game(self, fair: World, **game: Any) -> str:
        return await fair.wheel(await fair.prize(), **game)

    async def now(self, fair: World, game: str) -> float:
        shown = (await fair.stack.admin("GET", f"/admin/games/{game}")).data
        return float(shown["handler_config"]["prizes"][0]["probability"])

    async def test_odds_of_a_live_game_change_when_another_designer_approves(self, fair: World) -> None:
        game = await self.game(fair)
        named = await as_(fair.stack, "dan", "PUT", f"games/{game}", {"name": "Another"}, role="designer")
        assert named.data["name"] == "Another"
        approval = waiting(await self.odds(fair, game, 0.25))
        assert await self.now(fair, game) == 1
        shown = [approval[at]["definition"]["handler_config"]["prizes"][0]["probability"] for at in ("before", "after")]
        assert shown == [1, 0.25]
        assert refused(await decide(fair.stack, "bob", "approve", approval))[2] == "ROLE_REQUIRED"
        assert (await decide(fair.stack, "eve", "approve", approval, role="designer")).data["status"].endswith("DONE")
        assert await self.now(fair, game) == 0.25

    async def test_odds_of_a_game_that_was_changed_since_are_not_overwritten(self, fair: World) -> None:
        game = await self.game(fair)
        approval = waiting(await self.odds(fair, game, 0.25))
        await as_(fair.stack, "dan", "PUT", f"games/{game}", {"name": "Newer"}, role="designer")
        answer = await decide(fair.stack, "eve", "approve", approval, role="designer")
        assert refused(answer) == (409, "ABORTED", "STALE_REVISION")
        after = (await fair.stack.admin("GET", f"/admin/approvals/{approval['id']}")).data
        assert (after["status"], after["outcome"]["reason"]) == ("APPROVAL_STATUS_FAILED", "STALE_REVISION")
        assert await self.now(fair, game) == 1
        assert (await audit_trail(fair.stack, approval))[-1] == ("approval.fail", "eve")

    async def test_odds_wait_for_a_paused_game_that_was_played_and_not_for_a_draft(self, fair: World) -> None:
        assert (await self.odds(fair, await self.game(fair, status="GAME_STATUS_DRAFT"), 0.5)).http == 200
        game = await self.game(fair)
        await fair.round(game, "ann")
        paused = {"status": "GAME_STATUS_PAUSED"}
        assert (await as_(fair.stack, "dan", "PUT", f"games/{game}", paused, role="designer")).http == 200
        waiting(await self.odds(fair, game, 0.5))
        waiting(await self.odds(fair, game, 0.5, status="GAME_STATUS_ACTIVE"))
        assert await self.now(fair, game) == 1


class TestBulk:
    async def won(self, fair: World, count: int) -> list[str]:
        by_hand = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}
        game = await fair.wheel(await fair.prize(total=count, fulfillment=by_hand))
        return [(await fair.round(game, "ann")).data["rewards"][0]["reward_id"] for _ in range(count)]

    async def revoke(self, fair: World, ids: list[str], key: str = "") -> Answer:
        body = {"act": "BULK_ACT_REVOKE", "ids": ids, "reason": "a script"}
        return await as_(fair.stack, "ann", "POST", "rewards/bulk", body, key=key)

    async def statuses(self, fair: World, ids: list[str]) -> list[str]:
        found = "SELECT status FROM rewards WHERE reward_id = ANY ($1::text[]) ORDER BY reward_id"
        return [row["status"] for row in await fair.database.fetch(found, ids)]

    async def test_bulk_of_more_revocations_than_the_limit_waits(self, fair: World) -> None:
        one, two, three = ids = await self.won(fair, 3)
        assert (await self.revoke(fair, [one, two])).http == 200
        approval = waiting(await self.revoke(fair, [*ids, "reward_none"], key="b-1"))
        assert [row["status"] for row in approval["before"]["rewards"]] == ["revoked", "revoked", "won"]
        assert approval["after"]["unknown"] == ["reward_none"]
        assert await self.statuses(fair, [three]) == ["won"]
        body = {"act": "BULK_ACT_FULFILL", "ids": [*ids, "reward_none"]}
        assert (await as_(fair.stack, "ann", "POST", "rewards/bulk", body)).http == 200, "only revocations wait"
        other = await as_(fair.stack, "ann", "POST", "rewards/bulk", body, key="b-1")
        assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH"), "the key is of what waits"
        assert (await decide(fair.stack, "bob", "approve", approval)).data["status"] == "APPROVAL_STATUS_DONE"

    @pytest.mark.parametrize(
        "error", [None, Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")], ids=["crash", "store"]
    )
    async def test_bulk_that_broke_off_is_resumed_and_revokes_each_once(
        self, fair: World, monkeypatch: pytest.MonkeyPatch, error: Exception | None
    ) -> None:
        ids, approval = await self.halfway(fair, monkeypatch, error)
        shown = (await fair.stack.admin("GET", f"/admin/approvals/{approval['id']}")).data
        assert (shown["status"], shown["decided_by"]) == ("APPROVAL_STATUS_APPROVED", "bob")
        answers = await asyncio.gather(*(decide(fair.stack, who, "approve", approval) for who in ("bob", "eve")))
        # The second of the two may find it done.
        done = [answer.data for answer in answers if answer.http == 200]
        assert done and [refused(answer)[2] for answer in answers if answer.http != 200] in ([], ["ILLEGAL_TRANSITION"])
        for data in done:
            assert data["status"] == "APPROVAL_STATUS_DONE"
            assert [(row["id"], row["ok"]) for row in data["outcome"]["results"]] == [(one, True) for one in ids]
        assert await self.statuses(fair, ids) == ["revoked"] * 3
        for reward_id in ids:
            entries = (await fair.stack.admin("GET", "/admin/audit", subject_id=reward_id)).data["items"]
            assert [(entry["action"], entry["actor"]) for entry in entries] == [("reward.revoke", "ann")]
        actions = [action for action, _ in await audit_trail(fair.stack, approval)]
        assert actions == ["approval.ask", "approval.approve", "approval.finish"]

    async def halfway(
        self, fair: World, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None
    ) -> tuple[list[str], dict[str, Any]]:
        """(three rewards, the approval of their revocation, which broke off after the first of them)"""
        ids = await self.won(fair, 3)
        approval, revoke, left = waiting(await self.revoke(fair, ids)), bulk._ACTS[m.BulkAct.REVOKE], [None]

        async def breaks(*args: Any) -> None:
            if not left:
                raise error or RuntimeError("the process ended here")
            left.pop()
            await revoke(*args)

        with monkeypatch.context() as patch:
            patch.setattr(bulk, "_ACTS", {m.BulkAct.REVOKE: breaks})
            assert (await decide(fair.stack, "bob", "approve", approval)).http == (503 if error else 500)
        assert sorted(await self.statuses(fair, ids)) == ["revoked", "won", "won"]
        return ids, approval

    async def test_broken_off_bulk_can_be_rejected(self, fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
        ids, approval = await self.halfway(fair, monkeypatch)
        assert refused(await decide(fair.stack, "ann", "reject", approval, role="admin"))[2] == "OWN_REQUEST"
        assert (await decide(fair.stack, "eve", "reject", approval)).data["status"] == "APPROVAL_STATUS_REJECTED"
        for who, what in (("bob", "approve"), ("eve", "approve"), ("eve", "reject")):
            assert refused(await decide(fair.stack, who, what, approval))[2] == "ILLEGAL_TRANSITION"
        assert sorted(await self.statuses(fair, ids)) == ["revoked", "won", "won"]
        assert [action for action, _ in await audit_trail(fair.stack, approval)][-1] == "approval.reject"

    async def test_bulk_stops_where_it_is_rejected(self, fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = await self.won(fair, 3)
        approval, revoke, rejected = waiting(await self.revoke(fair, ids)), bulk._ACTS[m.BulkAct.REVOKE], []

        async def and_is_rejected(*args: Any) -> None:
            await revoke(*args)
            if not rejected:
                rejected.append((await decide(fair.stack, "eve", "reject", approval)).http)

        monkeypatch.setattr(bulk, "_ACTS", {m.BulkAct.REVOKE: and_is_rejected})
        assert refused(await decide(fair.stack, "bob", "approve", approval))[2] == "ILLEGAL_TRANSITION"
        assert rejected == [200]
        assert sorted(await self.statuses(fair, ids)) == ["revoked", "won", "won"]


async def test_request_of_a_token_is_withdrawn_with_the_token_or_its_maker(office: Stack) -> None:
    player = await player_of(office, "by_machines")
    body = {"player_id": player, "scope_key": office.tenant_id, "currency": "points", "amount": 1000}

    async def request_by_token_of(who: str) -> tuple[str, dict[str, Any]]:
        made = await token_of(office, who)
        shown = bearer(made["secret"])
        sent = await office.admin("POST", "/admin/wallet/adjustments", body, roles=(), headers=shown)
        return made["id"], waiting(sent)

    (token, first), (_, second), (_, other) = [await request_by_token_of(who) for who in ("ida", "ida", "jon")]
    theirs = waiting(await ask(office, player, who="ida"))
    assert (await as_(office, "boss", "DELETE", f"tokens/{token}", role="admin")).http == 200
    shown = (await office.admin("GET", f"/admin/approvals/{first['id']}")).data
    assert (shown["status"], shown["reason"]) == ("APPROVAL_STATUS_WITHDRAWN", "its token was revoked")
    assert await audit_trail(office, first) == [("approval.ask", f"ci ({token})"), ("approval.withdraw", "boss")]
    ended = await as_(office, "boss", "POST", "staff/revoke", {"subject": "ida"}, role="admin")
    assert ended.data == {"withdrawn": 2, "tokens": 1}
    for approval in (first, second, theirs):
        assert refused(await decide(office, "bob", "approve", approval))[2] == "ILLEGAL_TRANSITION"
    assert await balance(office, player) == 0
    assert (await decide(office, "bob", "approve", other)).data["status"] == "APPROVAL_STATUS_DONE"


async def test_request_of_a_revoked_token_is_not_kept(office: Stack) -> None:
    player = await player_of(office, "by_a_revoked_one")
    body = {"player_id": player, "scope_key": office.tenant_id, "currency": "points", "amount": 1000}
    made = await token_of(office, "kim")
    shown = bearer(made["secret"])

    async def adjust() -> Answer:
        return await office.admin("POST", "/admin/wallet/adjustments", body, roles=(), headers=shown)

    approval = waiting(await adjust())
    await office.database.execute("UPDATE api_tokens SET revoked_at = now() WHERE token_id = $1", made["id"])
    assert refused(await adjust()) == (401, "UNAUTHENTICATED", "TOKEN_INVALID")
    assert await office.database.fetchval("SELECT count(*) FROM approvals WHERE subject_id = $1", player) == 1
    assert (await as_(office, "boss", "DELETE", f"tokens/{made['id']}", role="admin")).http == 200
    stands = (await office.admin("GET", f"/admin/approvals/{approval['id']}")).data
    assert (stands["status"], stands["reason"]) == ("APPROVAL_STATUS_WITHDRAWN", "its token was revoked")
    noted_of_token = (await office.admin("GET", "/admin/audit", subject_id=made["id"])).data["items"]
    assert [entry["action"] for entry in noted_of_token] == ["token.create"], "it was revoked before"


async def test_operations_that_may_wait_document_approval_needed() -> None:
    from runtime.operations import OPERATIONS

    assert {row.name for row in OPERATIONS if "APPROVAL_NEEDED" in row.refusals} == set(review.KINDS)
