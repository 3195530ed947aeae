import asyncio
import ipaddress

import pytest

from runtime.operations.players.challenges import SENDS, SENDS_NETWORK, TRIES_MAX, WRONG_MAX, WRONG_NETWORK
from tests.support.login import PHONE, Phone, let_resend, log_out, refresh, verify
from tests.support.login import start as start_here
from tests.support.stack import OTHER_TENANT, Answer, Stack

OWNER = "198.51.100.7"
THIEF = "203.0.113.66"

pytestmark = pytest.mark.settings(trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),))


def of(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


async def start(stack: Stack, address: str, contact: str = PHONE, tenant_id: str = "") -> Answer:
    tenant = {"X-Tenant-Id": tenant_id} if tenant_id else {}
    return await start_here(stack, contact, "CONTACT_TYPE_PHONE", **of(address), **tenant)


async def guess_wrong(stack: Stack, phone: Phone, address: str) -> int:
    challenge_id = (await start(stack, address)).data["challenge_id"]
    before = await checked(stack)
    for _ in range(TRIES_MAX + 1):
        assert (await verify(stack, challenge_id, phone.wrong(), headers=of(address))).reason == "CODE_WRONG"
    return await checked(stack) - before


async def checked(stack: Stack) -> int:
    return int(await stack.database.fetchval("SELECT coalesce(sum(tries), 0) FROM login_challenges"))


async def refill(stack: Stack) -> None:
    await stack.database.execute("DELETE FROM login_rates")
    await stack.database.execute("UPDATE login_guesses SET wait_until = NULL")


async def log_in(stack: Stack, phone: Phone, address: str) -> Answer:
    challenge_id = (await start(stack, address)).data["challenge_id"]
    return await verify(stack, challenge_id, phone.code(), headers=of(address))


@pytest.mark.parametrize("addresses", [1, 40])
@pytest.mark.fault("One-time codes", size="23 codes, re-issued", figure="100 guesses of six digits at most")
async def test_six_digit_code_allows_at_most_a_hundred_guesses(stack: Stack, phone: Phone, addresses: int) -> None:
    for attempt in range(WRONG_MAX // TRIES_MAX + 3):
        assert await guess_wrong(stack, phone, f"203.0.113.{attempt % addresses}") == TRIES_MAX
        assert (len(phone.code()) == 6) == (attempt < WRONG_MAX // TRIES_MAX)
        await refill(stack)
    assert await stack.database.fetchval("SELECT wrong FROM login_guesses WHERE requester = ''") > WRONG_MAX
    assert ((await log_in(stack, phone, OWNER)).code, len(phone.code())) == ("OK", 20)
    await refill(stack)
    assert (await log_in(stack, phone, OWNER)).code == "OK"
    assert len(phone.code()) == 6


async def test_codes_sent_before_the_hundredth_guess_are_not_checked_after_it(stack: Stack, phone: Phone) -> None:
    stored = []
    for number in range(40):
        stored.append((await start(stack, f"203.0.113.{number}")).data["challenge_id"])
        await refill(stack)
    last = phone.code()
    wrong = [f"{number:06}" for number in range(TRIES_MAX) if f"{number:06}" != last]
    *guessed_at, unused = stored
    await asyncio.gather(*(verify(stack, challenge_id, code) for challenge_id in guessed_at for code in wrong))
    assert await checked(stack) == WRONG_MAX
    assert (await verify(stack, unused, last)).reason == "CODE_WRONG"
    assert await checked(stack) == WRONG_MAX


async def test_wrong_guesses_of_a_thief_leave_the_owners_code_valid(stack: Stack, phone: Phone) -> None:
    owners = (await start(stack, OWNER)).data["challenge_id"]
    code = phone.code()
    for _ in range(3):
        await guess_wrong(stack, phone, THIEF)
        await refill(stack)
    assert (await verify(stack, owners, code, headers=of(OWNER))).code == "OK"


async def test_send_quota_of_known_clients_survives_a_thief(stack: Stack, phone: Phone) -> None:
    assert (await log_in(stack, phone, OWNER)).code == "OK"
    await let_resend(stack)
    answers = [await start(stack, f"203.0.113.{number}") for number in range(SENDS.most + 5)]
    assert [answer.code for answer in answers].count("OK") == SENDS.most - 1  # The owner was a stranger once, too.
    assert (answers[-1].http, answers[-1].reason) == (429, "RATE_LIMITED")
    assert (await log_in(stack, phone, OWNER)).code == "OK"


@pytest.mark.parametrize("ended", ["used", "logged out", "expired"])
async def test_known_client_gets_its_code_beside_many_thieves(stack: Stack, phone: Phone, ended: str) -> None:
    """The client's current address and the fate of that login do not matter."""
    logged_in = (await log_in(stack, phone, OWNER)).data
    if ended == "used":
        assert (await refresh(stack, logged_in["refresh_token"])).code == "OK"
    elif ended == "logged out":
        assert (await log_out(stack, logged_in["token"], everywhere=True)).code == "OK"
    else:
        await stack.database.execute("UPDATE logins SET expires_at = now() - interval '1 hour'")
    for number in range(SENDS.most + 5):
        await start(stack, f"203.0.113.{number}")
    elsewhere = [f"192.0.2.{number}" for number in range(SENDS.most + 1)]
    assert (await start(stack, elsewhere[0])).reason == "RATE_LIMITED"
    for other in ("", "rt_forged", logged_in["refresh_token"][:-2]):
        assert (await start_with(stack, elsewhere[0], other)).reason == "RATE_LIMITED"
    answers = [await start_with(stack, address, logged_in["refresh_token"]) for address in elsewhere]
    assert [answer.reason for answer in answers] == [""] * SENDS.most + ["RATE_LIMITED"]
    body = {"challenge_id": answers[-2].data["challenge_id"], "code": phone.code()}
    verified = await stack.consumer("POST", "/players/auth/verify", body, headers=of(elsewhere[-2]))
    assert verified.data["player"]["id"] == logged_in["player"]["id"]


async def test_login_by_another_contact_or_tenant_makes_no_client_known(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack, OWNER, "+15550199")).data["challenge_id"]
    another = (await verify(stack, challenge_id, phone.code("+15550199"), headers=of(OWNER))).data["refresh_token"]
    elsewhere = {"X-Tenant-Id": OTHER_TENANT}
    challenge_id = (await start(stack, OWNER, tenant_id=OTHER_TENANT)).data["challenge_id"]
    there = await verify(stack, challenge_id, phone.code(), headers={**of(OWNER), **elsewhere})
    for number in range(SENDS.most):
        await start(stack, f"203.0.113.{number}")
    for token in (another, there.data["refresh_token"]):
        assert (await start_with(stack, "192.0.2.1", token)).reason == "RATE_LIMITED"


async def start_with(stack: Stack, address: str, refresh_token: str) -> Answer:
    return await start_here(stack, refresh_token=refresh_token, **of(address))


@pytest.mark.fault("Invented tenants, addresses, contacts", size="one address", figure="its limit holds")
async def test_send_quota_of_strangers_cannot_be_used_up_by_one_address(stack: Stack, phone: Phone) -> None:
    """The owner comes from an unknown address; the thief uses several tenants."""
    await stack.database.execute("INSERT INTO tenants (tenant_id, name) VALUES ('tenant_two', 'x')")
    for _ in range(3 * SENDS.most):
        # As if the time had gone by in which strangers get one more.
        change = "UPDATE login_rates SET full_at = full_at - make_interval(secs => $1)"
        await stack.database.execute(change, float(SENDS.seconds))
        for tenant_id in ("", "tenant_two"):
            await start(stack, THIEF, tenant_id=tenant_id)
    assert (await start(stack, THIEF, tenant_id="tenant_two")).http == 429
    assert (await log_in(stack, phone, OWNER)).code == "OK"


@pytest.mark.settings(rate_limits=True, rate_login_burst=10**6)
async def test_codes_and_guesses_of_a_network_are_bounded_over_its_addresses(stack: Stack, phone: Phone) -> None:
    challenge_id = (await start(stack, "2001:db8:0:1::1")).data["challenge_id"]
    assert (await verify(stack, challenge_id, phone.wrong(), headers=of("2001:db8:0:1::1"))).reason == "CODE_WRONG"
    query = "SELECT split_part(rate_key, ':', 1) AS kind FROM login_rates WHERE tenant_id = ''"
    rates = await stack.database.fetch(query)
    assert {SENDS_NETWORK.kind, WRONG_NETWORK.kind} <= {row["kind"] for row in rates}
    for rate in (SENDS_NETWORK, WRONG_NETWORK):
        change = "UPDATE login_rates SET full_at = now() + make_interval(secs => $1) WHERE rate_key LIKE $2 || ':%'"
        await stack.database.execute(change, rate.seconds * rate.most, rate.kind)
    walked = await start(stack, "2001:db8:0:2::1", "+15550199")
    assert (walked.reason, walked.envelope["data"]["policy"]) == ("RATE_LIMITED", SENDS_NETWORK.kind)
    guessed = await verify(stack, challenge_id, phone.code(), headers=of("2001:db8:0:3::1"))
    assert (guessed.reason, guessed.envelope["data"]["policy"]) == ("RATE_LIMITED", WRONG_NETWORK.kind)
    assert (await log_in(stack, phone, OWNER)).code == "OK"


async def test_success_elsewhere_does_not_end_a_thiefs_wait(stack: Stack, phone: Phone) -> None:
    await guess_wrong(stack, phone, THIEF)
    assert (await log_in(stack, phone, OWNER)).code == "OK"
    assert (await start(stack, THIEF)).reason == "RESEND_TOO_SOON"


async def test_codes_to_aliases_requested_at_once_are_bounded_like_sequential_ones(stack: Stack) -> None:
    asks = [start_here(stack, f"a+{n}@example.com", "email", **of(f"203.0.113.{n}")) for n in range(3 * SENDS.most)]
    answers = await asyncio.gather(*asks)
    assert sorted(answer.reason for answer in answers) == [""] * SENDS.most + ["RATE_LIMITED"] * (2 * SENDS.most)
