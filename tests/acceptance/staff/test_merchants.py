import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
import pytest_asyncio
import redis.asyncio

from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import fields_of
from tests.support import operations
from tests.support.references import named_by, references, said_of_each, text_of, without_ids
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.shared import SharedService
from tests.support.stack import Answer, Stack, refused
from tests.support.tables import contents
from tests.support.waiting import until

SURFACES: Final = ("core", "admin")

OF_STAFF: Final = [row for row in OPERATIONS if row.admin is not None and not row.admin.signed and row.scoped]
FORBIDDEN: Final = (403, "PERMISSION_DENIED", "FORBIDDEN")
OF_PLAYERS: Final = frozenset({"player"})
"""A tenant's players play with all of its merchants."""


@dataclass(frozen=True)
class Shops:
    tenant: Stack
    staff: Stack
    owned: operations.Ids
    anns: operations.Ids
    bobs: operations.Ids

    async def ask(self, surface: str, operation: Operation, known: operations.Ids) -> Answer:
        path = operations.path_of(operation, known)
        if surface == "core":
            body = operations.body_of(operation, known) if operation in operations.WITH_BODY else None
            return await self.staff.core(operation.verb, path, body)
        body = operations.edge_body(operation, known) if operation in operations.WITH_BODY else None
        return await self.staff.admin(operation.verb, f"/admin{path}", body)


@pytest_asyncio.fixture(scope="module")
async def shops(module_service: SharedService) -> AsyncIterator[Shops]:
    async with module_service.own_stack() as tenant:
        ann, bob = await operations.make_merchant(tenant), await operations.make_merchant(tenant)
        own = await operations.furnish(tenant, "player_own")
        others = [
            await operations.furnish(tenant, f"player_{who}", merchant_id=it)
            for who, it in (("ann", ann), ("bob", bob))
        ]
        yield Shops(tenant, replace(tenant, merchant_id=bob), own, *others)


@pytest.mark.parametrize("surface", SURFACES)
async def test_id_of_another_merchants_thing_is_an_unknown_id(shops: Shops, surface: str) -> None:
    before, unknown = await contents(shops.tenant.database), operations.unknown_like(shops.anns)
    wrong = []
    for operation in OF_STAFF:
        if operation.subject and operation.subject not in OF_PLAYERS:
            said = []
            for known in (shops.anns, unknown):
                answer = await shops.ask(surface, operation, known)
                said.append(without_ids((answer.http, answer.code, text_of(answer)), known))
            if said[0] != said[1] or said[0][0] < 400:
                wrong.append((operation.name, said))
    assert wrong == []
    assert await contents(shops.tenant.database) == before


@pytest.mark.parametrize("surface", SURFACES)
async def test_thing_of_the_tenant_is_read_and_not_written(shops: Shops, surface: str) -> None:
    before, wrong = await contents(shops.tenant.database), []
    for operation in OF_STAFF:
        if operation.subject and operation.subject != "merchant":
            answer = await shops.ask(surface, operation, shops.owned)
            reads = operation.verb == "GET" or operation.name == "ReplayPlay"
            due = FORBIDDEN
            if operation.subject == "approval":  # A request of the tenant's own staff may be about another merchant.
                due = (404, "NOT_FOUND", "UNKNOWN_APPROVAL")
            elif reads and not operation.tenant_wide and operation.name != "ListCodes":  # Codes need the write right.
                due = (200, "OK", "")
            if refused(answer) != due:
                wrong.append((operation.name, answer.envelope))
    assert wrong == []
    after = await contents(shops.tenant.database)
    assert {name: rows for name, rows in after.items() if name not in COUNTS} == {
        name: rows for name, rows in before.items() if name not in COUNTS
    }


COUNTS: Final = frozenset(
    {
        *("campaign_marks", "campaign_days", "campaign_player_days", "figure_marks", "game_quarters", "game_draws"),
        "game_starts",
    }
)


@pytest.mark.parametrize("surface", SURFACES)
async def test_lists_show_no_row_of_another_merchant(shops: Shops, surface: str) -> None:
    """Asked bare, and by every filter with Ann's ids; Bob's own rows are there, so that the list is one."""
    assert (await shops.staff.admin("PUT", f"/admin/quests/{shops.bobs['quest']}", {"turns": 1})).data
    wrong: list[tuple[Any, ...]] = []
    for operation in (row for row in OF_STAFF if operations.is_list(row)):
        filters = [name for name in fields_of(operation.request) if name.endswith("_id") and name != "player_id"]
        for query in [{}, *({name: shops.anns.get(named_by((name,))) or shops.anns["game"]} for name in filters)]:
            path = operations.path_of(operation, shops.bobs)
            if surface == "core":
                answer = await shops.staff.core("GET", path, **query, limit=100)
            else:
                answer = await shops.staff.admin("GET", f"/admin{path}", **query, limit=100)
            if operation.tenant_wide:
                wrong += [] if refused(answer) == FORBIDDEN else [(operation.name, answer.envelope)]
                continue
            text = str(answer.envelope["data"])
            for kind, identifier in shops.anns.items():
                if identifier not in query.values() and identifier not in (shops.bobs[kind], shops.owned[kind]):
                    wrong += [(operation.name, query, kind)] if identifier in text else []
            unused = operation.subject == "integration" or operation.name == "ListPlayerMessages"  # Nothing delivered.
            if not query and not unused and not answer.data["items"]:
                wrong.append((operation.name, "no row at all"))
    assert wrong == []


async def test_reference_to_another_merchants_thing_is_an_unknown_id(shops: Shops) -> None:
    unknown, tried, wrong = operations.unknown_like(shops.anns), set(), []
    for operation in (row for row in OF_STAFF if row in operations.WITH_BODY):
        for place in references(operation.request):
            kind = named_by(place)
            if not kind or kind in OF_PLAYERS:
                continue
            if said := await said_of_each(shops.staff, operation, shops.bobs, place, shops.anns, unknown):
                wrong += [] if said[0] == said[1] else [(operation.name, place, said)]
                tried.add((operation.name, place[-1]))
    assert wrong == []
    assert {one for one, _ in tried} >= {it.name for it in OF_STAFF if it.creates and "campaign_id" in str(it.example)}


async def test_thing_made_by_a_merchants_staff_is_the_merchants(shops: Shops) -> None:
    other = replace(shops, staff=replace(shops.staff, merchant_id=shops.anns["merchant"]))
    read = set()
    for operation in (row for row in OF_STAFF if row.creates):
        answer = await shops.ask("admin", operation, shops.bobs)
        if operation.resource == "merchant":
            assert refused(answer) == FORBIDDEN
            continue
        now = {**shops.owned, operation.resource: answer.data["id"] if "id" in answer.data else answer.data["prize_id"]}
        for row in (row for row in OF_STAFF if row.verb == "GET" and row.path == f"{operation.path}/{{id}}"):
            assert (await shops.ask("admin", row, now)).data
            assert (await other.ask("admin", row, now)).http == 404
            read.add(operation.resource)
    assert read >= {"campaign", "game", "prize", "leaderboard"}


async def test_thing_of_the_tenant_is_not_made_by_a_merchants_staff(shops: Shops) -> None:
    under_the_tenants = {**shops.bobs, "campaign": shops.owned["campaign"]}
    answers = {
        row.resource: await shops.ask("admin", row, under_the_tenants)
        for row in OF_STAFF
        if row.creates and row.resource in ("campaign", "game", "prize", "quest", "leaderboard", "integration")
    }
    assert answers.pop("campaign").data["merchant_id"] == shops.staff.merchant_id
    assert {kind: refused(one) for kind, one in answers.items()} == dict.fromkeys(answers, FORBIDDEN)
    assert len(answers) == 5


async def test_prize_of_no_campaign_is_refused_to_a_merchants_staff(shops: Shops) -> None:
    made = await shops.staff.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", "value": 1})
    assert refused(made) == FORBIDDEN
    path = f"/admin/prizes/{shops.bobs['prize']}"
    assert refused(await shops.staff.admin("PUT", path, {"campaign_id": ""})) == FORBIDDEN


async def test_campaign_cannot_leave_its_merchant(shops: Shops) -> None:
    path = f"/admin/campaigns/{shops.bobs['campaign']}"
    assert refused(await shops.staff.admin("PUT", path, {"merchant_id": ""})) == FORBIDDEN
    assert (await shops.staff.admin("PUT", path, {"merchant_id": shops.anns["merchant"]})).code == "INVALID_ARGUMENT"


async def test_copied_campaign_shares_the_tenants_prizes(shops: Shops) -> None:
    """Copied by its staff, they would be the merchant's, with fresh stock and the tenant's secrets."""
    mug = await make_prize(shops.tenant)
    campaign = await make_campaign(shops.staff)
    for prize_id in (mug, await make_prize(shops.staff, campaign_id=campaign["id"])):
        assert (await shops.staff.admin("POST", "/admin/games", wheel(campaign["id"], prize_id))).data

    async def copied(by: Stack) -> tuple[int, bool]:
        made = (await by.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})).data["id"]
        prizes = (await by.admin("GET", "/admin/prizes", campaign_id=made)).data["items"]
        games = (await by.admin("GET", "/admin/games", campaign_id=made)).data["items"]
        assert len(games) == 2
        return len(prizes), mug in str(games)

    assert await copied(shops.staff) == (1, True)
    assert await copied(shops.tenant) == (2, False)


async def test_wallet_outside_the_merchants_scope_is_not_moved(shops: Shops) -> None:
    async def adjust(scope_key: str) -> Answer:
        body = {"player_id": "player_own", "scope_key": scope_key, "currency": "points", "amount": 1}
        return await shops.staff.admin("POST", "/admin/wallet/adjustments", body)

    assert (await adjust(shops.bobs["campaign"])).data
    assert (await adjust(shops.bobs["merchant"])).data
    for owned in (shops.tenant.tenant_id, shops.owned["campaign"]):
        assert refused(await adjust(owned)) == FORBIDDEN
    for anns in (shops.anns["campaign"], shops.anns["merchant"]):
        assert (await adjust(anns)).code == "INVALID_ARGUMENT"


async def test_delivery_log_shows_a_merchants_staff_its_own_events(shops: Shops) -> None:
    hook = {"type": "sms", "events": ["text_of"], "config": {}}
    hook_id = (await shops.tenant.admin("POST", "/admin/integrations", hook)).data["id"]
    for campaign in (shops.anns["campaign"], shops.bobs["campaign"]):
        body = {"type": "text_of", "campaign_id": campaign, "data": {"of": campaign}}
        assert (await shops.tenant.admin("POST", "/admin/integrations/emit", body)).data["dispatched"] == 1

    async def deliveries(stack: Stack) -> dict[str, str]:
        items = (await stack.admin("GET", f"/admin/integrations/{hook_id}/deliveries")).data["items"]
        return {json.loads(item["request"])["data"]["of"]: item["id"] for item in items}

    await until(lambda: deliveries(shops.tenant), lambda it: len(it) == 2)
    assert set(await deliveries(shops.staff)) == {shops.bobs["campaign"]}
    narrowed = {"campaign_id": shops.bobs["campaign"]}
    assert (await shops.tenant.admin("PUT", f"/admin/integrations/{hook_id}", narrowed)).http == 200
    resent = [
        (await shops.staff.admin("POST", f"/admin/integrations/{hook_id}/resend", {"delivery_id": sent})).http
        for _, sent in sorted((await deliveries(shops.tenant)).items(), key=lambda it: it[0] == shops.bobs["campaign"])
    ]
    assert resent == [404, 200]


KEY: Final = {"Idempotency-Key": "daily-1"}


async def test_key_of_another_merchants_machine_is_another_key(shops: Shops, valkey: redis.asyncio.Redis) -> None:
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
        await valkey.flushall()


async def test_key_of_another_merchant_replays_nothing(shops: Shops, valkey: redis.asyncio.Redis) -> None:
    path, body = f"/admin/leaderboards/{shops.anns['leaderboard']}/adjust", {"player_id": "player_ann", "delta": 1}
    body |= {"reason": "a prize draw"}
    anns = replace(shops.staff, merchant_id=shops.anns["merchant"])
    assert (await anns.admin("POST", path, body, headers=KEY)).data["player_id"] == "player_ann"
    for _ in range(2):
        refusal = await shops.staff.admin("POST", path, body, headers=KEY)
        assert refused(refusal) == (404, "NOT_FOUND", "UNKNOWN_LEADERBOARD")
        await valkey.flushall()
