"""Whoever plants a guest's token in another's browser never holds a token of the account that is made there."""

from __future__ import annotations

from tests.support.guests import Guest, guest_who_played, log_in
from tests.support.login import Phone, bearer, let_resend, start, verify
from tests.support.login import log_in as log_in_by_code
from tests.support.stack import Stack, refused
from tests.support.waiting import until
from tests.support.world import World

EMAIL = "victim@example.com"


async def planted(world: World) -> Guest:
    return await guest_who_played(world, await world.wheel(await world.prize(), access="public"))


async def opens_nothing(stack: Stack, guest: Guest) -> None:
    """Waits until the guest's token is refused, on every route that is a player's."""

    async def is_refused() -> bool:
        return (await stack.consumer("GET", "/players/me", headers=guest.bearer)).reason == "TOKEN_INVALID"

    await until(is_refused)
    for path in ("/players/me", "/rewards/me", "/wallet", "/players/me/turns"):
        assert (await stack.consumer("GET", path, headers=guest.bearer)).reason == "TOKEN_INVALID", path


async def test_guest_may_not_link_a_contact_but_logs_in_with_it(own_world: World, stack: Stack, phone: Phone) -> None:
    guest = await planted(own_world)
    challenge_id = (await start(stack, EMAIL, "email")).data["challenge_id"]
    code = phone.code(EMAIL)
    body = {"type": "email", "value": EMAIL, "challenge_id": challenge_id, "code": code}
    refusal = await stack.consumer("POST", "/players/me/contacts", body, headers=guest.bearer)
    assert refused(refusal) == (403, "PERMISSION_DENIED", "LOGIN_REQUIRED")
    # The code is as good as before, and what the guest won is kept; but the account is another's than the guest's.
    logged_in = (await verify(stack, challenge_id, code, headers=guest.bearer)).data
    assert logged_in["player"]["id"] != guest.player_id
    rewards = await stack.consumer("GET", "/rewards/me", headers=bearer(logged_in["token"]))
    assert len(rewards.data["items"]) == 1
    await opens_nothing(stack, guest)


async def test_guest_given_a_contact_by_core_loses_its_tokens(own_world: World, stack: Stack, phone: Phone) -> None:
    guest = await planted(own_world)
    linked = {"player_id": guest.player_id, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": EMAIL}}
    for _ in range(2):
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    await opens_nothing(stack, guest)
    assert await log_in(stack, contact=EMAIL) == guest.player_id
    # Who logs in by the contact is in, may link more, and has what the guest won.
    token = (await log_in_by_code(stack, phone, EMAIL, "email"))["token"]
    await let_resend(stack)
    challenge_id = (await start(stack)).data["challenge_id"]
    body = {"type": "phone", "value": "+15550100", "challenge_id": challenge_id, "code": phone.code()}
    assert (await stack.consumer("POST", "/players/me/contacts", body, headers=bearer(token))).code == "OK"
    items = (await stack.consumer("GET", "/rewards/me", headers=bearer(token))).data["items"]
    assert len(items) == 1


async def test_player_that_links_another_contact_stays_logged_in(stack: Stack) -> None:
    for value in ("ann@example.com", "ann@example.org"):
        linked = {"player_id": "player_ann", "contact": {"type": "CONTACT_TYPE_EMAIL", "value": value}}
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    assert (await stack.consumer("GET", "/players/me", player="player_ann")).code == "OK"
    assert await stack.database.fetchval("SELECT count(*) FROM revocations") == 0
