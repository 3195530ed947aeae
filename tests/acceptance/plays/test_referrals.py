from asyncio import gather

import pytest

import sql
from runtime.operations.quests import referrals
from tests.support.guests import Guest, log_in, new_guest
from tests.support.locks import blocked
from tests.support.stack import Answer
from tests.support.world import World

END = "UPDATE quests SET end_date = now() WHERE quest_id = $1"


async def open_referrals(world: World, count: int, turns: int = 2) -> tuple[str, str]:
    """(quest, public game)"""
    body = {"campaign_id": world.campaign_id, "name": "Invite", "turns": turns, "status": "active"}
    quest = await world.stack.admin(
        "POST", "/admin/quests", {**body, "condition": {"kind": "referrals", "count": count}}
    )
    assert quest.data["condition"]["count"] == (count or 10), quest.envelope
    return quest.data["id"], await world.wheel(access="public")


async def code_of(world: World, player: str) -> str:
    path = f"/campaigns/{world.campaign_id}/referral-code"
    return str((await world.stack.consumer("POST", path, {}, player=player)).data["code"])


async def accept(world: World, code: str, guest: Guest | None = None, player: str = "") -> Answer:
    path, headers = f"/campaigns/{world.campaign_id}/referrals", guest.bearer if guest else {}
    return await world.stack.consumer("POST", path, {"code": code}, player=player, headers=headers)


async def come(world: World, game: str, code: str, contact: str) -> str:
    """A guest who accepts the code, plays and logs in."""
    guest = await new_guest(world, game)
    assert (await accept(world, code, guest)).code == "OK"
    assert (await world.play(game, guest.session, "")).code == "OK"
    return await log_in(world.stack, guest, contact)


async def pay(world: World) -> dict[str, int]:
    """How many referrals have which outcome after rivals paid, the first of them in several passes."""
    payer, about = referrals.Payer(), (world.stack.engine, world.stack.tenant_id)
    for _ in range(8):
        await gather(payer.pay_due(*about), referrals.Payer().pay_due(*about))
    query = "SELECT outcome, count(*) AS n FROM referrals WHERE campaign_id = $1 GROUP BY outcome"
    return {row["outcome"]: row["n"] for row in await world.database.fetch(query, world.campaign_id)}


async def turns(world: World, player: str) -> int:
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player)).data["items"]
    return sum(int(one["balance"]) for one in items)


async def test_referral_is_paid_once_a_mailbox_up_to_the_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referrals, "PAGE", 1)
    monkeypatch.setattr(referrals, "PAGES", 1)
    quest, game = await open_referrals(world, count=3)
    ann = await log_in(world.stack, contact="a.nn@gmail.com")
    code = await code_of(world, ann)
    assert code == await code_of(world, ann) and len(code) == 10 and ann not in code
    waiting = await new_guest(world, game)
    assert (await accept(world, code, waiting)).code == "OK"
    assert (await world.play(game, waiting.session, "")).code == "OK"
    assert await pay(world) == {"open": 1}, "a guest does not count before it logs in"
    for nth in range(4):
        first = await come(world, game, code, f"far.m+{nth}@googlemail.com")
    await come(world, game, code, "ann+2@gmail.com")
    _, known = referrals.hashes_of(world.stack.engine, world.stack.tenant_id, [("email", "farm@gmail.com")])
    async with world.database.connection() as rival, rival.transaction():
        await rival.execute(sql.load("referrals")["lock_contacts"], world.stack.tenant_id, world.campaign_id, known)
        paying = await blocked(world.database, pay(world))
        assert not paying.done()
    await paying
    assert await pay(world) == {"open": 1, "paid": 1, "contact": 3, "own": 1} and await turns(world, ann) == 2
    await world.stack.admin("POST", f"/admin/players/{first}/erase", {"reason": "asked for"})
    await come(world, game, code, "farm@gmail.com")
    assert (await pay(world))["contact"] == 4, "the person came back"
    await log_in(world.stack, waiting, "bob@example.com")
    await gather(*[come(world, game, code, f"friend{nth}@example.com") for nth in range(3)])
    await world.database.execute(END, quest)
    await pay(world)
    assert (await pay(world))["limit"] == 2 and await turns(world, ann) == 6
    [shown] = (await world.stack.consumer("GET", "/players/me/quests", player=ann)).data["items"]
    assert (shown["have"], shown["need"], shown["completed"]) == (3, 3, True)
    await world.database.execute("UPDATE quests SET end_date = NULL WHERE quest_id = $1", quest)
    by_hand = await world.stack.consumer("POST", f"/quests/{quest}/complete", {}, player=ann)
    assert by_hand.reason == "CONDITION_NOT_MET" and await turns(world, ann) == 6


async def test_referral_is_refused_to_players_who_are_not_new(world: World) -> None:
    assert (await accept(world, "k7q2m9xt4b", player="bob")).reason == "UNKNOWN_REFERRAL"
    path = f"/campaigns/{world.campaign_id}/referral-code"
    await world.database.execute(END, (await open_referrals(world, count=9, turns=9))[0])
    assert (await world.stack.consumer("POST", path, {}, player="ann")).reason == "QUEST_CLOSED"
    _, game = await open_referrals(world, count=0)
    guest = await new_guest(world, game)
    answer = await world.stack.consumer("POST", path, {}, headers=guest.bearer)
    of_guest, of_bob = str(answer.data["code"]), await code_of(world, "bob")
    await world.round(game, "old")
    for player, why in (("bob", "OWN"), ("old", "PLAYED"), ("new", ""), ("new", "")):
        refused = await accept(world, of_bob, player=player)
        assert refused.envelope["data"].get("why", "") == why, (player, refused.envelope)
    assert (await accept(world, of_guest, player="new")).envelope["data"]["why"] == "INVITED"
    ann = await come(world, game, of_guest, "ann@example.com")
    assert await pay(world) == {"open": 2}, "a guest is not paid"
    assert (await accept(world, of_guest, guest)).envelope["data"]["why"] == "OWN"
    carl = await log_in(world.stack, guest, "carl@example.com")
    assert await pay(world) == {"open": 1, "paid": 1} and (await turns(world, carl), await turns(world, ann)) == (2, 0)
    await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", {"status": "paused"})
    assert (await accept(world, of_bob, player="later")).reason == "QUEST_CLOSED"
