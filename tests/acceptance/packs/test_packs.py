import asyncio
import ipaddress

import jwt
import pytest

from runtime.operations.packs import guesses
from runtime.operations.packs.codes import canonical
from runtime.operations.packs.redemption import SQL
from tests.support.guests import log_in, new_guest, wallet_of
from tests.support.locks import blocked
from tests.support.packs import TICKETS, counts, make_pack, player_of, redeem, report
from tests.support.resources import make_campaign
from tests.support.stack import Stack, fields_of
from tests.support.world import World


async def turns_of(world: World, player: str) -> int:
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player)).data["items"]
    return next((int(one["balance"]) for one in items if one["campaign_id"] == world.campaign_id), 0)


async def test_code_gives_turns_once_and_its_key_repeats_the_reply(world: World) -> None:
    pack_id = await make_pack(world, "AB4K-7Q2M-9XPD", "AB4K-7Q2M-9XPE")
    first = await redeem(world, "ab4k 7q2m 9xpd", key="k")
    assert (first.data["granted"], first.data["balance"]) == ({"turns": 2}, 2)
    assert (await redeem(world, "ab4k 7q2m 9xpd", key="k")).data == first.data
    assert (await redeem(world, "AB4K-7Q2M-9XPE", key="k")).reason == "IDEMPOTENCY_MISMATCH"
    own, other = await redeem(world, "AB4K7Q2M9XPD"), await redeem(world, "AB4K7Q2M9XPD", "bob")
    found = [(one.http, one.reason, one.envelope["data"]["own"]) for one in (own, other)]
    assert found == [(409, "CODE_USED", True), (409, "CODE_USED", False)]
    # So that players behind one address may race for one code.
    waiting = await world.database.fetch("SELECT guesser FROM code_guesses WHERE tenant_id = $1", world.stack.tenant_id)
    assert [row["guesser"] for row in waiting] == ["player bob"]
    assert await turns_of(world, player_of(world)) == 2
    assert await counts(world, pack_id) == (1, 1, 0)
    (listed,) = (await world.stack.admin("GET", f"/admin/packs/{pack_id}/redemptions")).data["items"]
    (of_ann,) = (await world.stack.admin("GET", f"/admin/players/{player_of(world)}/redemptions")).data["items"]
    assert listed == of_ann and listed["id"] == first.data["redemption_id"]


async def test_unknown_code_is_refused_as_one_of_another_campaign(world: World) -> None:
    await make_pack(World(world.stack, (await make_campaign(world.stack))["id"]), "OTHER-0001")
    await make_pack(world, "PAUSED-0001", status="paused")
    found = [await redeem(world, code, "eve") for code in ("OTHER-0001", "NOBODYS-01", "PAUSED-0001")]
    refusals = {(one.http, one.reason, one.envelope["message"]) for one in found}
    assert refusals == {(404, "UNKNOWN_CODE", "there is no such code in this campaign")}


async def test_ended_and_withdrawn_codes_are_refused(world: World) -> None:
    pack_id = await make_pack(world, "ENDED-00001", "ENDED-00002")
    body = {"codes": ["ended-ooool", "never-seen"], "reason": "lost"}
    withdrawn = await world.stack.admin("POST", f"/admin/packs/{pack_id}/codes/withdraw", body)
    assert (withdrawn.data["withdrawn"], withdrawn.data["kept"]) == (1, 1)
    assert await counts(world, pack_id) == (1, 0, 1)
    assert (await redeem(world, "ENDED-00001")).reason == "CODE_ENDED"
    assert (await world.stack.admin("PUT", f"/admin/packs/{pack_id}", {"until": 1})).code == "OK"
    assert (await redeem(world, "ENDED-00002")).reason == "CODE_ENDED"
    assert (await world.stack.admin("DELETE", f"/admin/packs/{pack_id}")).data["archived"]
    assert (await redeem(world, "ENDED-00002")).reason == "UNKNOWN_CODE"
    assert fields_of(await world.stack.admin("PUT", f"/admin/packs/{pack_id}", {"status": "active"})) == ["status"]
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", {"status": "paused"})).code == "OK"
    assert (await redeem(world, "ENDED-00002")).reason == "CAMPAIGN_CLOSED"


async def test_code_and_receipt_need_the_entry_that_a_play_needs(stack: Stack) -> None:
    terms = {"id": "terms", "text": {"en": "I accept."}, "required": True}
    form = {"mode": "ENTRY_MODE_BEFORE_PLAY", "consents": [terms]}
    world = World(stack, (await make_campaign(stack, entry=form))["id"])
    pack_id = await make_pack(world, "ENTRY-00001")
    secret = (await stack.admin("POST", f"/admin/packs/{pack_id}/rotate-secret", {})).data["secret"]
    await world.round(await World(stack, (await make_campaign(stack))["id"]).wheel(), player_of(world))
    for reply in (await redeem(world, "ENTRY-00001"), await report(world, pack_id, secret, player_id=player_of(world))):
        assert (reply.reason, reply.envelope["data"]["missing"]) == ("ENTRY_REQUIRED", ["consents.terms"])
    path = f"/campaigns/{world.campaign_id}/entry"
    entered = await stack.consumer("POST", path, {"consents": {"terms": True}}, player=player_of(world))
    assert entered.data["missing"] == []
    assert (await redeem(world, "ENTRY-00001")).code == "OK"
    assert (await report(world, pack_id, secret, player_id=player_of(world))).code == "OK"


async def test_visitor_that_redeems_becomes_a_guest_that_a_retry_finds(world: World) -> None:
    await make_pack(world, "VISITOR-001", gives=TICKETS)
    refused = await redeem(world, "VISITOR-001", "")
    assert (refused.http, refused.reason) == (401, "TOKEN_MISSING")
    assert "send Authorization: Bearer with a player token" in refused.envelope["message"]
    await world.wheel(access="public")
    first, again = [await redeem(world, "VISITOR-001", "", key="k" * 22) for _ in range(2)]
    guests = {jwt.decode(one.data["guest_token"], options={"verify_signature": False})["sub"] for one in (first, again)}
    assert len(guests) == 1 and guests.pop().startswith("guest_")
    assert first.data["redemption_id"] == again.data["redemption_id"]
    await world.database.execute("UPDATE redemptions SET redeemed_at = redeemed_at - interval '10 minutes'")
    late = await redeem(world, "VISITOR-001", "", key="k" * 22)
    assert (late.data["redemption_id"], late.data.get("guest_token")) == (first.data["redemption_id"], None)
    await make_pack(world, "VISITOR-002", gives=TICKETS)
    replies = [await redeem(world, "VISITOR-002", "", key="k" * 21) for _ in range(2)]
    assert [reply.reason for reply in replies] == ["", "CODE_USED"]


async def test_guests_redemption_moves_to_the_player_once(world: World) -> None:
    pack_id = await make_pack(world, "GUEST-0001", "GUEST-0002", gives=TICKETS)
    guest = await new_guest(world, await world.wheel(access="public"))
    assert (await redeem(world, "GUEST-0001", "", key="k", headers=guest.bearer)).code == "OK"
    player = await log_in(world.stack)
    given = (await redeem(world, "GUEST-0002", player, key="k")).data
    assert (given["gave"]["currency"], given["gave"]["scope_key"]) == ("ticket", world.campaign_id)
    (entry,) = (await world.stack.consumer("GET", "/wallet/ledger", player=player)).data["items"]
    assert (entry["reason"], entry["reference_id"]) == ("LEDGER_REASON_CODE", given["redemption_id"])
    other = World(world.stack, (await make_campaign(world.stack))["id"])
    await make_pack(other, "PLAYERS-01")
    assert (await redeem(other, "PLAYERS-01", "", headers=guest.bearer)).reason == "LOGIN_REQUIRED"
    assert await log_in(world.stack, guest) == player
    assert await wallet_of(world.stack, player) == {"ticket": 10}
    assert len((await world.stack.admin("GET", f"/admin/players/{player}/redemptions")).data["items"]) == 2
    exported = (await world.stack.admin("GET", f"/admin/players/{player}/export", limit=100)).data["items"]
    assert sum(one["kind"] == "redemption" for one in exported) == 2
    assert "GUEST-000" not in str(exported)
    assert (await world.stack.admin("POST", f"/admin/players/{player}/erase", {"reason": "asked"})).code == "OK"
    kept = "SELECT count(*) FROM redemptions WHERE pack_id = $1 AND idempotency_key IS NULL"
    assert await world.database.fetchval(kept, pack_id) == 2


async def test_wrong_codes_wait_longer_each_time_and_a_right_one_is_refused_meanwhile(world: World) -> None:
    await make_pack(world, "RIGHT-0001")
    wrong = [redeem(world, f"WRONG-{nth:04}") for nth in range(2 * guesses.PLAYER.most)]
    found = sorted(one.reason for one in await asyncio.gather(*wrong))
    assert found == ["RATE_LIMITED"] * guesses.PLAYER.most + ["UNKNOWN_CODE"] * guesses.PLAYER.most
    waits = []
    for _ in range(3):
        refused = await redeem(world, "RIGHT-0001")
        assert (refused.http, refused.reason) == (429, "RATE_LIMITED")
        waits.append(int(refused.headers["Retry-After"]))
        passed = "UPDATE code_guesses SET wait_until = now() WHERE tenant_id = $1"
        await world.database.execute(passed, world.stack.tenant_id)
        assert (await redeem(world, "WRONG-9999")).reason == "UNKNOWN_CODE"
    assert waits[0] <= guesses.WAIT_SECONDS and waits[1] > 1.5 * waits[0] and waits[2] > 1.5 * waits[1]
    assert (await redeem(world, "RIGHT-0001", "bob")).code == "OK"


@pytest.mark.settings(rate_limits=True, trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),))
@pytest.mark.parametrize(
    ("limit", "guesser", "refused", "free"),
    [
        (guesses.ADDRESS, "mallory 1:1::2", "ann 1:1::3", "ann 1:2::1"),
        (guesses.NETWORK, "mallory 1:2::1", "ann 1:3::1", "ann 2:1::1"),
        (guesses.CAMPAIGN, "mallory 2:1::1", "eve 3:1::1", "ann 4:1::1"),
    ],
)
async def test_many_wrong_codes_refuse_only_those_counted_with_them(
    own_world: World, limit: guesses.Limit, guesser: str, refused: str, free: str
) -> None:
    async def enter(code: str, who: str) -> str:
        player, address = who.split()
        return (await redeem(own_world, code, player, headers={"X-Forwarded-For": f"2001:db8:{address}"})).reason

    await make_pack(own_world, "CROWD-0001")
    assert await enter("WRONG-0001", "eve 1:1::1") == "UNKNOWN_CODE"
    most = "UPDATE code_guesses SET level = $2 WHERE tenant_id = $1 AND guesser LIKE $3 || ' %'"
    await own_world.database.execute(most, own_world.stack.tenant_id, float(limit.most), limit.kind)
    assert await enter("WRONG-0002", guesser) == "UNKNOWN_CODE"
    assert [await enter("CROWD-0001", who) for who in (refused, free)] == ["RATE_LIMITED", ""]


async def test_imported_codes_are_stored_as_hashes_and_counted_once_per_campaign(world: World) -> None:
    first = await make_pack(world, "ONE-0001", "TWO-0002")
    url = f"/admin/packs/{await make_pack(world)}/codes"
    answer = await world.stack.admin("POST", url, {"codes": ["ONE-0001", "one ooo1", "THREE-0003", "short"]})
    assert [answer.data[name] for name in ("added", "duplicates", "invalid", "available")] == [1, 2, 1, 1]
    assert await counts(world, first) == (2, 0, 0)
    rows = await world.database.fetch("SELECT * FROM pack_codes WHERE campaign_id = $1", world.campaign_id)
    assert len(rows) == 3 and not any(b"ONE" in row["code_hash"] for row in rows)
    dated = {"codes": ["FOUR-0004"]}
    assert (await world.stack.admin("POST", f"{url}?expires_at=4102444800", dated)).code == "INVALID_ARGUMENT"


async def test_generated_codes_are_redeemable_and_shown_once(world: World) -> None:
    pack_id = await make_pack(world)
    made = await world.stack.admin("POST", f"/admin/packs/{pack_id}/codes/generate", {"count": 300})
    codes: list[str] = made.data["codes"]
    assert len({canonical(code) for code in codes}) == 300 and all(len(code) == 19 for code in codes)
    assert (await redeem(world, codes[7].lower())).code == "OK"
    assert await counts(world, pack_id) == (299, 1, 0)
    assert codes[0] not in str((await world.stack.admin("GET", "/admin/audit", subject_id=pack_id)).data["items"])


async def test_receipt_is_paid_once_by_its_pack_as_it_is(world: World) -> None:
    pack_id, database = await make_pack(world, gives=TICKETS), world.database
    assert (await report(world, pack_id, "whsec_" + "A" * 43 + "=")).code == "UNAUTHENTICATED"
    secret = (await world.stack.admin("POST", f"/admin/packs/{pack_id}/rotate-secret", {})).data["secret"]
    for wrong in (" ann", "a b", "../..", "a" * 129):
        answer = await report(world, pack_id, secret, player_id=wrong)
        assert (answer.http, fields_of(answer)) == (400, ["player_id"]), wrong
    found = await asyncio.gather(*(report(world, pack_id, secret) for _ in range(10)))
    assert {one.code for one in found} == {"OK"} and len({one.data["redemption_id"] for one in found}) == 1
    assert (await report(world, pack_id, secret, player_id="bob")).reason == "IDEMPOTENCY_MISMATCH"
    assert await wallet_of(world.stack, player_of(world)) == {"ticket": 5}
    pack = (await world.stack.admin("GET", f"/admin/packs/{pack_id}")).data
    assert (pack["receipts"], pack["used"], pack["secret_set"], pack.get("secret", "")) == (1, 0, True, "")
    about = (world.stack.tenant_id, pack_id, player_of(world))
    async with database.connection() as rival:
        async with rival.transaction():
            await rival.execute("UPDATE packs SET amount = 1 WHERE pack_id = $1", pack_id)
            paying = await blocked(database, report(world, pack_id, secret, "till-2"))
        await paying
        assert await wallet_of(world.stack, player_of(world)) == {"ticket": 6}
        await rival.execute("UPDATE redemptions SET pack_id = '' WHERE pack_id = $1", pack_id)
        async with rival.transaction():
            assert await rival.fetchrow(SQL["lock_pack"], *about)
            await rival.execute("UPDATE redemptions SET pack_id = $2 WHERE tenant_id = $1 AND pack_id = ''", *about[:2])
            deleting = await blocked(database, world.stack.admin("DELETE", f"/admin/packs/{pack_id}"))
    assert (await deleting).data["archived"] and await database.fetchrow(SQL["lock_pack"], *about) is None


async def test_pack_gives_turns_or_a_currency_of_its_campaign_or_tenant(world: World) -> None:
    one = {"currency": "ticket", "amount": 1}
    wrong = [{}, {"turns": 1, **one}, {"currency": "ticket"}, {"turns": 1, "amount": 1}, {**one, "scope_key": "x"}]
    for gives in (*wrong, {**one, "scope_key": world.stack.tenant_id}):
        body = {"campaign_id": world.campaign_id, "name": "Caps", "gives": gives}
        answer = await world.stack.admin("POST", "/admin/packs", body)
        assert answer.code == ("INVALID_ARGUMENT" if gives in wrong else "OK"), gives
