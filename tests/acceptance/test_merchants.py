"""Two merchants of one tenant: each's staff works with its own things, and reads what is the tenant's.

What is another merchant's answers as what does not exist. Every operation of the admin edge is asked, there and on
Core, so one that is new is tried too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
import pytest_asyncio

from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import fields_of
from tests.acceptance.test_keys import forgotten
from tests.support.operations import (
    WITH_BODY,
    Ids,
    body_of,
    edge_body,
    furnish,
    is_list,
    make_merchant,
    path_of,
    unknown_like,
)
from tests.support.references import named_by, references, said_of_each, told, without_ids
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import Answer, Stack, new_stack, refused, settings_of
from tests.support.stored import config_of_integration, config_of_prize
from tests.support.tables import contents
from tests.support.waiting import until

SURFACES: Final = ("core", "admin")

OF_STAFF: Final = [row for row in OPERATIONS if row.admin is not None and not row.admin.signed and row.scoped]
OF_PLAYERS: Final = frozenset({"player"})
"""A tenant's players play with all of its merchants."""


@dataclass(frozen=True)
class Shops:
    """A tenant's own things, and those of its merchants Ann and Bob. `staff`: Bob's."""

    tenant: Stack
    staff: Stack
    owned: Ids
    anns: Ids
    bobs: Ids

    async def ask(self, surface: str, operation: Operation, known: Ids) -> Answer:
        """What Bob's staff is answered when it names these things."""
        path = path_of(operation, known)
        if surface == "core":
            body = body_of(operation, known) if operation in WITH_BODY else None
            return await self.staff.core(operation.verb, path, body)
        body = edge_body(operation, known) if operation in WITH_BODY else None
        return await self.staff.admin(operation.verb, f"/admin{path}", body)


@pytest_asyncio.fixture(scope="module")
async def shops(module_database_url: str, valkey_url: str) -> AsyncIterator[Shops]:
    async with new_stack(settings_of(module_database_url, valkey_url)) as tenant:
        ann, bob = await make_merchant(tenant), await make_merchant(tenant)
        yield Shops(
            tenant,
            replace(tenant, merchant_id=bob),
            await furnish(tenant, "player_own"),
            await furnish(tenant, "player_ann", merchant_id=ann),
            await furnish(tenant, "player_bob", merchant_id=bob),
        )


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_id_of_another_merchants_thing_is_an_unknown_id(shops: Shops, surface: str) -> None:
    before, unknown = await contents(shops.tenant.database), unknown_like(shops.anns)
    for operation in OF_STAFF:
        if operation.subject and operation.subject not in OF_PLAYERS:
            theirs, nobodys = (
                await shops.ask(surface, operation, shops.anns),
                await shops.ask(surface, operation, unknown),
            )
            said = [
                without_ids((answer.http, answer.code, told(answer)), known)
                for answer, known in ((theirs, shops.anns), (nobodys, unknown))
            ]
            assert said[0] == said[1], operation.name
            assert theirs.http >= 400, operation.name
    assert await contents(shops.tenant.database) == before


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_is_the_tenants_is_read_and_not_written(shops: Shops, surface: str) -> None:
    before = await contents(shops.tenant.database)
    for operation in OF_STAFF:
        if operation.subject and operation.subject != "merchant":
            answer = await shops.ask(surface, operation, shops.owned)
            if operation.tenant_wide or operation.name == "ListCodes":  # Codes are read by who may write them.
                assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN"), operation.name
            elif operation.subject == "approval":  # What the tenant's own staff asks may be about another merchant's.
                assert refused(answer) == (404, "NOT_FOUND", "UNKNOWN_APPROVAL"), operation.name
            elif operation.verb == "GET" or operation.name == "ReplayPlay":
                assert answer.data, operation.name
            else:
                assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN"), operation.name
    after = await contents(shops.tenant.database)
    assert {name: rows for name, rows in after.items() if name not in COUNTS} == {
        name: rows for name, rows in before.items() if name not in COUNTS
    }


COUNTS: Final = frozenset(
    {
        "campaign_marks",
        "campaign_days",
        "campaign_player_days",
        "figure_marks",
        "game_quarters",
        "game_draws",
        "game_starts",
    }
)
"""What reading a campaign's numbers may write."""


@pytest.mark.parametrize("surface", SURFACES)
async def test_no_list_shows_another_merchants_row(shops: Shops, surface: str) -> None:
    """Asked bare, and by every filter with Ann's ids; Bob's own rows are there, so that the list is one."""
    assert (await shops.staff.admin("PUT", f"/admin/quests/{shops.bobs['quest']}", {"turns": 1})).data
    for operation in (row for row in OF_STAFF if is_list(row)):
        filters = [name for name in fields_of(operation.request) if name.endswith("_id") and name != "player_id"]
        for query in [{}, *({name: shops.anns.get(named_by((name,))) or shops.anns["game"]} for name in filters)]:
            path = path_of(operation, shops.bobs)
            if surface == "core":
                answer = await shops.staff.core("GET", path, **query, limit=100)
            else:
                answer = await shops.staff.admin("GET", f"/admin{path}", **query, limit=100)
            if operation.tenant_wide:
                assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN"), operation.name
                continue
            text = str(answer.envelope["data"])
            for kind, identifier in shops.anns.items():
                if identifier not in query.values() and identifier not in (shops.bobs[kind], shops.owned[kind]):
                    assert identifier not in text, (operation.name, query, kind)
            if not query and operation.subject != "integration":  # nothing was delivered yet
                assert answer.data["items"], operation.name


async def test_a_body_that_names_another_merchants_thing_names_an_unknown_one(shops: Shops) -> None:
    unknown, tried = unknown_like(shops.anns), set()
    for operation in (row for row in OF_STAFF if row in WITH_BODY):
        for place in references(operation.request):
            kind = named_by(place)
            if not kind or kind in OF_PLAYERS:
                continue
            if said := await said_of_each(shops.staff, operation, shops.bobs, place, shops.anns, unknown):
                assert said[0] == said[1], (operation.name, place)
                tried.add((operation.name, place[-1]))
    assert {name for name, _ in tried} >= {
        row.name for row in OF_STAFF if row.makes and "campaign_id" in str(row.example)
    }


async def test_what_a_merchants_staff_makes_is_the_merchants(shops: Shops) -> None:
    other = replace(shops, staff=replace(shops.staff, merchant_id=shops.anns["merchant"]))
    read = set()
    for operation in (row for row in OF_STAFF if row.makes):
        answer = await shops.ask("admin", operation, shops.bobs)
        if operation.resource == "merchant":
            assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")
            continue
        made = {
            **shops.owned,
            operation.resource: answer.data["id"] if "id" in answer.data else answer.data["prize_id"],
        }
        for row in (row for row in OF_STAFF if row.verb == "GET" and row.path == f"{operation.path}/{{id}}"):
            assert (await shops.ask("admin", row, made)).data
            assert (await other.ask("admin", row, made)).http == 404
            read.add(operation.resource)
    assert read >= {"campaign", "game", "prize", "leaderboard"}


@pytest.mark.parametrize("kind", ["campaign", "game", "prize", "quest", "leaderboard", "integration"])
async def test_nothing_is_made_in_the_tenants_name_by_a_merchants_staff(shops: Shops, kind: str) -> None:
    """A campaign that names no merchant is its maker's; the others are refused where what they are put under is not."""
    operation = next(row for row in OF_STAFF if row.makes and row.resource == kind)
    answer = await shops.ask("admin", operation, {**shops.bobs, "campaign": shops.owned["campaign"]})
    if kind == "campaign":
        assert answer.data["merchant_id"] == shops.staff.merchant_id
    else:
        assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")


async def test_a_prize_of_no_campaign_is_the_tenants_to_make(shops: Shops) -> None:
    made = await shops.staff.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", "value": 1})
    assert refused(made) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    path = f"/admin/prizes/{shops.bobs['prize']}"
    assert refused(await shops.staff.admin("PUT", path, {"campaign_id": ""})) == (403, "PERMISSION_DENIED", "FORBIDDEN")


async def test_a_campaign_stays_with_its_merchant(shops: Shops) -> None:
    path = f"/admin/campaigns/{shops.bobs['campaign']}"
    assert refused(await shops.staff.admin("PUT", path, {"merchant_id": ""})) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    assert (await shops.staff.admin("PUT", path, {"merchant_id": shops.anns["merchant"]})).code == "INVALID_ARGUMENT"


async def test_an_integration_of_the_tenants_is_not_widened_by_a_merchants_staff(shops: Shops) -> None:
    """What is told of one campaign and no merchant would, without the campaign, be told of every merchant's players."""
    hook = {"type": "sms", "events": ["opened"], "config": {}, "campaign_id": shops.bobs["campaign"]}
    path = f"/admin/integrations/{(await shops.tenant.admin('POST', '/admin/integrations', hook)).data['id']}"
    for config in ({}, {"config": {"url": "http://203.0.113.9/mine"}}):
        widened = await shops.staff.admin("PUT", path, {"campaign_id": "", **config})
        assert refused(widened) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    assert (await shops.staff.admin("PUT", path, {"events": ["opened", "more"]})).data
    widened = await shops.tenant.admin("PUT", path, {"campaign_id": ""})
    assert widened.data["campaign_id"] == ""
    own = f"/admin/integrations/{(await shops.staff.admin('POST', '/admin/integrations', hook)).data['id']}"
    assert (await shops.staff.admin("PUT", own, {"campaign_id": ""})).data["merchant_id"] == shops.staff.merchant_id


async def test_a_copy_of_a_merchants_campaign_shares_the_tenants_prizes(shops: Shops) -> None:
    """Copied by its staff, they would be the merchant's, with fresh stock and the tenant's secrets."""
    mug = await make_prize(shops.tenant)
    campaign = await make_campaign(shops.staff)
    own = await make_prize(shops.staff, campaign_id=campaign["id"])
    for prize_id in (mug, own):
        assert (await shops.staff.admin("POST", "/admin/games", wheel(campaign["id"], prize_id))).data

    async def copied(by: Stack) -> tuple[int, bool]:
        made = (await by.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})).data["id"]
        prizes = (await by.admin("GET", "/admin/prizes", campaign_id=made)).data["items"]
        games = (await by.admin("GET", "/admin/games", campaign_id=made)).data["items"]
        assert len(games) == 2
        return len(prizes), mug in str(games)

    assert await copied(shops.staff) == (1, True)
    assert await copied(shops.tenant) == (2, False)


async def test_only_a_wallet_of_the_merchants_scope_is_moved(shops: Shops) -> None:
    async def adjust(scope_key: str) -> Answer:
        body = {"player_id": "player_own", "scope_key": scope_key, "currency": "points", "amount": 1}
        return await shops.staff.admin("POST", "/admin/wallet/adjustments", body)

    assert (await adjust(shops.bobs["campaign"])).data
    assert (await adjust(shops.bobs["merchant"])).data
    for owned in (shops.tenant.tenant_id, shops.owned["campaign"]):
        assert refused(await adjust(owned)) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    for anns in (shops.anns["campaign"], shops.anns["merchant"]):
        assert (await adjust(anns)).code == "INVALID_ARGUMENT"


async def test_an_event_of_a_merchants_staff_reaches_no_other_merchants_receiver(shops: Shops) -> None:
    hook = {"type": "sms", "events": ["tried"], "config": {}}
    anns = replace(shops.staff, merchant_id=shops.anns["merchant"])
    made = {
        stack.merchant_id: (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
        for stack in (shops.tenant, anns, shops.staff)
    }
    sent = await shops.staff.admin("POST", "/admin/integrations/emit", {"type": "tried", "data": {}})
    assert sent.data["dispatched"] == 1

    async def heard() -> list[tuple[str, bool]]:
        query = "SELECT integration_id, event FROM integration_deliveries WHERE event_id = $1"
        rows = await shops.tenant.database.fetch(query, sent.data["event_id"])
        return [(row["integration_id"], row["event"]["emitted"]) for row in rows]

    # The tenant's would take what a merchant's staff makes up for what happened.
    await until(lambda: is_there(heard))
    assert await heard() == [(made[shops.staff.merchant_id], True)]


async def is_there(found: Callable[[], Awaitable[Any]]) -> bool:
    return bool(await found())


async def test_the_log_of_the_tenants_integration_tells_a_merchants_staff_of_its_own_events(shops: Shops) -> None:
    hook = {"type": "sms", "events": ["told"], "config": {}}
    hook_id = (await shops.tenant.admin("POST", "/admin/integrations", hook)).data["id"]
    for campaign in (shops.anns["campaign"], shops.bobs["campaign"]):
        body = {"type": "told", "campaign_id": campaign, "data": {"of": campaign}}
        assert (await shops.tenant.admin("POST", "/admin/integrations/emit", body)).data["dispatched"] == 1

    async def told(stack: Stack) -> dict[str, str]:
        items = (await stack.admin("GET", f"/admin/integrations/{hook_id}/deliveries")).data["items"]
        return {json.loads(item["request"])["data"]["of"]: item["id"] for item in items}

    async def all_told() -> bool:
        return len(await told(shops.tenant)) == 2

    await until(all_told)
    assert set(await told(shops.staff)) == {shops.bobs["campaign"]}
    # Nor once the integration is its own campaign's, and it may have it told again, and elsewhere.
    narrowed = {"campaign_id": shops.bobs["campaign"]}
    assert (await shops.tenant.admin("PUT", f"/admin/integrations/{hook_id}", narrowed)).http == 200
    resent = [
        (await shops.staff.admin("POST", f"/admin/integrations/{hook_id}/resend", {"delivery_id": delivery_id})).http
        for _, delivery_id in sorted((await told(shops.tenant)).items(), key=lambda it: it[0] == shops.bobs["campaign"])
    ]
    assert resent == [404, 200]


async def test_nobodys_staff_reads_what_a_receivers_headers_carry_and_who_writes_keeps_it(shops: Shops) -> None:
    config = {"url": "https://hooks.example/x", "headers": {"X-Key": "hunter2"}}
    masked = {**config, "headers": {"X-Key": "***"}}
    hook = {"type": "webhook", "events": ["x"], "config": config}
    prize = {"name": "Mug", "type": "goods", "fulfillment": {"channel": "webhook", "config": config}}
    for own, stack in ((False, shops.tenant), (True, shops.staff)):
        hook_id = (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
        campaign = {"campaign_id": shops.bobs["campaign"]} if own else {}
        prize_id = (await stack.admin("POST", "/admin/prizes", prize | campaign)).data["prize_id"]
        for reader in (shops.staff, shops.tenant):
            hooks = (await reader.admin("GET", "/admin/integrations", limit="100")).data["items"]
            assert [one["config"] for one in hooks if one["id"] == hook_id] == [masked]
            read = (await reader.admin("GET", f"/admin/prizes/{prize_id}")).data
            listed = (await reader.admin("GET", "/admin/prizes", limit="100")).data["items"]
            for one in (read, *(one for one in listed if one["prize_id"] == prize_id)):
                assert one["fulfillment"]["config"] == masked
        for path, body in (
            (f"/admin/integrations/{hook_id}", {"config": masked}),
            (f"/admin/prizes/{prize_id}", {"fulfillment": read["fulfillment"]}),
        ):
            assert "hunter2" not in str((await stack.admin("PUT", path, body)).data)
        assert await config_of_integration(stack, hook_id) == config
        assert await config_of_prize(stack, prize_id) == config


async def test_the_tenants_own_staff_works_with_everything(shops: Shops) -> None:
    for known in (shops.anns, shops.bobs, shops.owned):
        assert (await shops.tenant.admin("PUT", f"/admin/quests/{known['quest']}", {"turns": 2})).data


KEY: Final = {"Idempotency-Key": "daily-1"}


async def test_machines_of_two_merchants_share_no_key(shops: Shops) -> None:
    """They have one subject, unless somebody gives them another (`token mint --subject`), and ask alike."""
    machines = [shops.tenant, replace(shops.staff, merchant_id=shops.anns["merchant"]), shops.staff]
    body = {"type": "shared", "data": {}}
    for _ in range(2):
        emitted = [(await one.admin("POST", "/admin/integrations/emit", body, headers=KEY)).data for one in machines]
        emitted += [
            (await one.core("POST", "/integrations/emit", {**body, "idempotency_key": "daily-1"})).data
            for one in machines
        ]
        assert len({answer["event_id"] for answer in emitted}) == 6
        await forgotten(shops.tenant)


async def test_another_merchants_key_tells_nothing_of_what_it_was_for(shops: Shops) -> None:
    path, body = f"/admin/leaderboards/{shops.anns['leaderboard']}/adjust", {"player_id": "player_ann", "delta": 1}
    body |= {"reason": "a prize draw"}
    anns = replace(shops.staff, merchant_id=shops.anns["merchant"])
    assert (await anns.admin("POST", path, body, headers=KEY)).data["player_id"] == "player_ann"
    for _ in range(2):
        refusal = await shops.staff.admin("POST", path, body, headers=KEY)
        assert refused(refusal) == (404, "NOT_FOUND", "UNKNOWN_LEADERBOARD")
        await forgotten(shops.tenant)
