from dataclasses import replace
from typing import Any, Final

import pytest

from runtime.operations.prizes import pool
from runtime.wire.times import expiry
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign, make_prize
from tests.support.stack import Stack, fields_of, refused
from tests.support.world import World

LATER = 1_900_000_000
VOUCHER: Final = {"fulfillment": {"channel": "voucher_code"}}
CODES = ("SPRING-2026-AAAA", "SHORT-78", "TINY7")


async def listed(stack: Stack, prize_id: str, **query: Any) -> dict[str, Any]:
    answer = await stack.admin("GET", f"/admin/prizes/{prize_id}/codes", **query)
    assert answer.http == 200, answer
    return dict(answer.data)


async def withdraw(stack: Stack, prize_id: str, body: dict[str, Any], key: str = "") -> Any:
    return await stack.admin("POST", f"/admin/prizes/{prize_id}/codes/withdraw", body, key=key)


def won(answer: Any) -> bool:
    return bool(answer.data["rewards"])


async def end(world: World, prize_id: str, how: str) -> None:
    if how == "withdrawn":
        assert (await withdraw(world.stack, prize_id, {"all_free": True})).data["available"] == 0
    else:
        await world.database.execute("UPDATE codes SET expires_at = now() WHERE prize_id = $1", prize_id)


async def test_code_is_listed_by_its_end_once_won(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(codes=CODES)
    page = await listed(module_stack, prize_id)
    assert {item["masked"] for item in page["items"]} == {pool.HIDDEN}, "what is free could be used by who reads it"
    assert page["totals"] == {"free": 3, "assigned": 0, "withdrawn": 0, "expired": 0}
    assert {item["state"] for item in page["items"]} == {"CODE_STATE_FREE"}
    game_id = await world.wheel(prize_id)
    won = {(await world.round(game_id, f"ends{nth}")).data["rewards"][0]["prize_id"] for nth in range(3)}
    page = await listed(module_stack, prize_id)
    assert won == {prize_id} and page["totals"]["assigned"] == 3
    assert {item["masked"] for item in page["items"]} == {"••••AAAA", "••••78", "••••"}
    assert not [code for code in CODES if code in str(page)]


async def test_code_not_won_or_unopenable_is_listed_without_characters(world: World, module_stack: Stack) -> None:
    for how in ("withdrawn", "expired"):
        prize_id = await world.prize(codes=CODES)
        await end(world, prize_id, how)
        page = await listed(module_stack, prize_id)
        assert page["totals"][how] == 3 and {item["masked"] for item in page["items"]} == {pool.HIDDEN}
    won_id = await world.prize(codes=CODES)
    await world.round(await world.wheel(won_id), "sealed")
    await world.database.execute("UPDATE codes SET ciphertext = 'not sealed by us' WHERE prize_id = $1", won_id)
    assert {item["masked"] for item in (await listed(module_stack, won_id))["items"]} == {pool.HIDDEN}


async def test_codes_are_listed_and_changed_only_by_who_may_write_the_prize(world: World, module_stack: Stack) -> None:
    """Prizes of the tenant are read by each merchant's staff; not the codes."""
    own = replace(module_stack, merchant_id=await make_merchant(module_stack))
    mine = (await make_campaign(own))["id"]
    ours, theirs = await make_prize(module_stack, **VOUCHER), await make_prize(own, campaign_id=mine, **VOUCHER)
    answer = await own.admin("GET", f"/admin/prizes/{ours}/codes")
    assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    assert refused(await expire(own, ours, {"all_free": True, "expires_at": LATER})) == refused(answer)
    assert (await own.admin("GET", f"/admin/prizes/{ours}")).http == 200
    for stack in (own, module_stack):
        assert (await listed(stack, theirs))["items"] == []
    other = replace(module_stack, merchant_id=await make_merchant(module_stack))
    assert (await other.admin("GET", f"/admin/prizes/{theirs}/codes")).reason == "UNKNOWN_PRIZE"


async def test_withdrawn_code_never_comes_back(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(codes=CODES)
    answer = await withdraw(module_stack, prize_id, {"all_free": True, "reason": "leaked"})
    assert answer.data == {"withdrawn": 3, "kept": [], "available": 0}
    again = await module_stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": list(CODES)})
    assert (again.data["added"], again.data["duplicates"], again.data["available"]) == (0, 3, 0)
    assert (await world.round(await world.wheel(prize_id))).data["rewards"] == []
    summary = (await module_stack.admin("GET", "/admin/prizes/summary")).data["items"]
    assert {row["prize_id"]: row["codes_available"] for row in summary}[prize_id] == 0
    log = await module_stack.admin("GET", "/admin/audit", subject_id=prize_id)
    entry = next(entry for entry in log.data["items"] if entry["action"] == "prize.withdraw_codes")
    assert entry["after"] == {"withdrawn": 3, "left": 0, "why": "leaked"}


async def test_withdrawal_without_exactly_one_selection_is_refused(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(codes=["A-1"])
    bodies: list[dict[str, Any]] = [{}, {"ids": ["a"], "all_free": True}, {"ids": []}, {"ids": [" "]}]
    assert [(await withdraw(module_stack, prize_id, body)).http for body in bodies] == [400] * 4
    assert (await listed(module_stack, prize_id))["totals"]["free"] == 1


async def test_import_sets_an_expiry_for_all_codes_or_each(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(fulfillment={"channel": "voucher_code"})
    text = "Code,Note,Valid_until\n"
    text += "A-1,x,2029-12-31\nB-2,x,\nC-3,x,tomorrow\nD-4,x,2001-01-01\nE-5\n"
    answer = (await module_stack.upload(f"/admin/prizes/{prize_id}/codes", text, "text/csv", expires_at=LATER)).data
    assert (answer["added"], answer["invalid"], answer["available"]) == (3, 2, 3)
    found = answer["errors"]
    assert found == [{"line": 4, "reason": "has an invalid expiry"}, {"line": 5, "reason": "has already expired"}]
    ends = sorted(item["expires_at"] for item in (await listed(module_stack, prize_id))["items"])
    assert ends == [1_893_456_000, LATER, LATER], "a day is over with its end"


async def expire(stack: Stack, prize_id: str, body: dict[str, Any], key: str = "") -> Any:
    return await stack.admin("POST", f"/admin/prizes/{prize_id}/codes/expiry", body, key=key)


async def ends_of(stack: Stack, prize_id: str) -> dict[str, int]:
    return {item["id"]: item["expires_at"] for item in (await listed(stack, prize_id, limit=100))["items"]}


async def test_expiry_changes_for_free_codes_and_not_for_won_ones(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(fulfillment={"channel": "voucher_code"})
    path = f"/admin/prizes/{prize_id}/codes"
    assert (await module_stack.upload(path, "A-1\nA-2\nA-3", "text/plain", expires_at=LATER)).data["added"] == 3
    await world.round(await world.wheel(prize_id), "keeper")
    won_id = next(item["id"] for item in (await listed(module_stack, prize_id, state="CODE_STATE_ASSIGNED"))["items"])
    answer = await expire(module_stack, prize_id, {"all_free": True, "expires_at": LATER + 1, "reason": "longer"})
    assert answer.data == {"changed": 2, "kept": [], "available": 2}
    again = await expire(module_stack, prize_id, {"all_free": True, "expires_at": LATER + 1})
    assert again.data == {"changed": 0, "kept": [], "available": 2}, "done twice it changes nothing"
    ends = await ends_of(module_stack, prize_id)
    assert ends.pop(won_id) == LATER and set(ends.values()) == {LATER + 1}
    answer = await expire(module_stack, prize_id, {"ids": [*ends, won_id, "code_unknown"], "never": True})
    assert (answer.data["changed"], answer.data["available"]) == (2, 2)
    assert answer.data["kept"] == [
        *({"id": won_id, "state": "CODE_STATE_ASSIGNED"}, {"id": "code_unknown", "state": "CODE_STATE_UNSPECIFIED"}),
    ]
    assert set((await ends_of(module_stack, prize_id)).values()) == {0, LATER}
    log = (await module_stack.admin("GET", "/admin/audit", subject_id=prize_id)).data["items"]
    named, repeated, first = [entry["after"] for entry in log if entry["action"] == "prize.expire_codes"]
    assert first == {"changed": 2, "expires_at": LATER + 1, "left": 2, "why": "longer", "state": "free"}
    assert (repeated["changed"], named["ids"], named["expires_at"]) == (0, sorted(ends), 0)


async def test_expired_codes_can_be_won_again_after_a_new_expiry(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(codes=["A-1", "A-2", "A-3"])
    game_id = await world.wheel(prize_id)
    ids = sorted(await ends_of(module_stack, prize_id))
    for code_id, end in zip(ids, (1_700_000_000, 1_700_000_000, 1_600_000_000), strict=True):
        query = "UPDATE codes SET expires_at = to_timestamp($2) WHERE code_id = $1"
        await world.database.execute(query, code_id, end)
    assert not won(await world.round(game_id, "tooearly"))
    assert (await expire(module_stack, prize_id, {"all_free": True, "never": True})).data["changed"] == 0
    wanted = {"all_expired": True, "ending_at": 1_600_000_000, "expires_at": LATER}
    assert (await expire(module_stack, prize_id, wanted)).data == {"changed": 1, "kept": [], "available": 1}
    assert (await ends_of(module_stack, prize_id))[ids[2]] == LATER
    assert won(await world.round(game_id, "revived")), "games look at the pool afresh"
    assert not won(await world.round(game_id, "toolate"))
    answer = await expire(module_stack, prize_id, {"all_expired": True, "never": True})
    assert answer.data == {"changed": 2, "kept": [], "available": 2}
    assert won(await world.round(game_id, "revivedtoo"))


async def test_retried_expiry_is_the_same(world: World, module_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PART", 4)
    prize_id = await world.prize(codes=[f"LONG-{nth:03}" for nth in range(10)])
    wanted = {"all_free": True, "expires_at": LATER}
    first = await expire(module_stack, prize_id, wanted, key="longer")
    await module_stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": ["LATE-1"]})
    again = await expire(module_stack, prize_id, wanted, key="longer")
    assert first.data == again.data == {"changed": 10, "kept": [], "available": 10}
    ends = list((await ends_of(module_stack, prize_id)).values())
    assert sorted(ends) == [0] + [LATER] * 10, "what came later was not asked for"


async def test_expiry_with_a_wrong_field_names_it(world: World, module_stack: Stack) -> None:
    prize_id, failed = await world.prize(codes=["A-1"]), []
    cases: list[tuple[dict[str, Any], str]] = [
        *(({"never": True}, "ids"), ({"ids": ["a"], "all_free": True, "never": True}, "ids")),
        *(({"all_free": True, "all_expired": True, "never": True}, "ids"), ({"ids": [" "], "never": True}, "ids[0]")),
        *(({"all_free": True}, "expires_at"), ({"all_free": True, "expires_at": LATER, "never": True}, "expires_at")),
        *(({"all_free": True, "expires_at": 1}, "expires_at"), ({"all_free": True, "expires_at": -1}, "expires_at")),
        ({"all_free": True, "expires_at": 999_999_999_999_999}, "expires_at"),
        ({"ids": ["a"], "ending_at": LATER, "never": True}, "ending_at"),
    ]
    for body, field in cases:
        found = fields_of(await expire(module_stack, prize_id, body))
        if found != [field]:
            failed.append((body, found))
    assert failed == []
    for end in ("soon", "1", "999999999999999"):
        path = f"/admin/prizes/{prize_id}/codes"
        assert fields_of(await module_stack.upload(path, "A-2", "text/plain", expires_at=end)) == ["expires_at"], end
    assert list((await ends_of(module_stack, prize_id)).values()) == [0]


def test_expiry_is_read_as_seconds_a_day_or_a_moment() -> None:
    for text, seconds in {
        "": 0,
        "1900000000": LATER,
        "2030-01-01": 1_893_542_400,
        "2030-01-01T00:00:00Z": 1_893_456_000,
        "2030-01-01T01:00:00+01:00": 1_893_456_000,
        "2030-01-01 00:00": 1_893_456_000,
        **dict.fromkeys(("01.02.2030", "9999-12-31", "-5"), -1),
    }.items():
        assert expiry(text) == seconds, text
