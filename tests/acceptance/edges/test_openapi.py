"""The documents as they are served, and held to what the operations really answer and refuse."""

import re
from dataclasses import replace
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.operations import API, OPERATIONS, Operation
from runtime.wire.schema import fields_of
from tests.support.bodies import serves
from tests.support.leaderboards import make_board
from tests.support.operations import Ids, body_of, edge_body, furnish, path_of
from tests.support.stack import Answer, Stack
from tests.support.stack import fields_of as wrong_fields_of
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, World, new_world

SURFACES: tuple[Surface, ...] = ("core", "consumer", "admin")


@pytest.mark.parametrize("surface", SURFACES)
async def test_document_of_each_surface_is_served(stack: Stack, surface: Surface) -> None:
    url = getattr(stack.process, f"{surface}_url")
    async with stack.http.get(f"{url}{API}/openapi.json") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert await answer.json() == document(surface)
        tag = answer.headers["ETag"]
    async with stack.http.get(f"{url}{API}/openapi.json", headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


def required_of(operation: Operation) -> list[str]:
    message = operation.request
    if operation.resource:
        message = fields_of(message)[operation.resource].type
    return [name for name, field in fields_of(message).items() if field.required and name in (operation.example or {})]


ASKING: Final = [row for row in OPERATIONS if required_of(row) and not (row.resource and not row.creates)]


async def test_required_fields_are_what_each_operation_asks_for(stack: Stack) -> None:
    wrong = []
    # An operation of an actor or a task looks at its own thing before its fields.
    for operation in (row for row in ASKING if row.run is not None and row.subject != "task"):
        path, required = operation.path.replace("{id}", "x_1"), required_of(operation)
        player = {"player_id": "player_a"} if operation.of_player and "player_id" not in required else {}

        async def violations(*fields: str, row: Operation = operation, of: Any = player, to: str = path) -> list[Any]:
            body = {field: (row.example or {})[field] for field in fields}
            answer = await stack.core(row.verb, to, {row.resource: body} if row.resource else {**of, **body})
            prefix = f"{row.resource}."
            found = answer.envelope["data"].get("violations", ())
            return [(one["field"].removeprefix(prefix), one["description"]) for one in found]

        for field in required:
            found = await violations(*(other for other in required if other != field))
            if field not in {name.partition(".")[0] for name, _ in found}:
                wrong.append((operation.name, field, found))
        missed = [name for name, said in await violations(*required) if said == "is required" and "." not in name]
        wrong += [(operation.name, field, "is required too") for field in missed]
    assert wrong == []


@pytest.mark.parametrize("surface", SURFACES)
async def test_path_without_its_id_is_answered_as_documented(stack: Stack, surface: Surface) -> None:
    """`.` is taken out of a path by whoever sends it; an empty id is sent as it is, and is no path of ours."""
    url, tried = getattr(stack.process, f"{surface}_url"), set()
    headers = {"Authorization": f"Bearer {stack.token('player_a' if surface == 'consumer' else 'staff', ('admin',))}"}
    query = {"scope.tenant_id" if surface == "core" else "tenant_id": stack.tenant_id}
    for path, verbs in document(surface)["paths"].items():
        for verb, row in verbs.items():
            if "/{id}/" not in path:
                continue
            for lost in (".", ""):
                sent = url + path.replace("{id}", lost)
                async with stack.http.request(verb, sent, params=query, json={}, headers=headers) as answer:
                    documented, reason = row["responses"][str(answer.status)], (await answer.json())["data"]["reason"]
                # The last may meet any request, as the document's introduction says.
                assert reason in (*documented["content"]["application/json"]["examples"], "UNKNOWN_ROUTE"), (verb, sent)
                tried.add((row["operationId"], answer.status))
    assert ("ImportCodes", 405) in tried or surface == "consumer", tried


DOCUMENT: Final = "urn:document"


@cache
def registry_of(surface: Surface) -> Registry[Any]:
    made = document(surface)
    for name, schema in made["components"]["schemas"].items():
        if "properties" in schema and not name.endswith(("Metadata", "Error", "Payload")):
            # Open to later versions; of this one, no field is undocumented.
            schema.setdefault("additionalProperties", False)
    return Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(made)).crawl()


class Conforming:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.seen: set[str] = set()

    async def __call__(self, surface: Surface, verb: str, path: str, body: Any = None, **more: Any) -> Answer:
        answer: Answer = await getattr(self.stack, surface)(verb, path, body, **more)
        paths = registry_of(surface).contents(DOCUMENT)["paths"]
        template = next(
            template
            for template in sorted(paths, key=lambda template: "{" in template)
            if verb.lower() in paths[template] and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), API + path)
        )
        row = paths[template][verb.lower()]
        media = row["responses"][str(answer.http)]["content"]["application/json"]
        answered = ("responses", str(answer.http), "content", "application/json", "schema")
        pointer = "/".join(
            quote(step.replace("~", "~0").replace("/", "~1")) for step in ("paths", template, verb.lower(), *answered)
        )
        schema = {"$ref": f"{DOCUMENT}#/{pointer}"}
        Draft202012Validator(schema, registry=registry_of(surface)).validate(answer.envelope)
        if answer.http >= 400:
            assert answer.reason in media["examples"], (row["operationId"], answer.envelope)
        else:
            self.seen.add(row["operationId"])
        return answer


async def test_answers_are_as_documented(stack: Stack) -> None:
    ask = Conforming(stack)
    async with new_world(stack) as world:
        await manage(ask, world)
        await play(ask, world)
    known = await furnish(stack)
    await every_example(ask, known)
    assert (await ask("admin", "DELETE", f"/admin/assets/{known['asset']}")).code == "OK"
    await end_approvals(ask, stack, known)
    for surface in SURFACES:
        row_names = {row["operationId"] for verbs in document(surface)["paths"].values() for row in verbs.values()}
        missing = row_names - ask.seen - {"GetHealth", "GetReadiness", "GetMetrics"}
        # What is asked of machines and by login is held to the document by its own tests, and by schemathesis.
        reads = {row.name for row in OPERATIONS if row.verb == "GET" and row.subject != "integration"}
        assert sorted(missing & reads) == [], surface
        assert len(missing) < 14, (surface, " ".join(sorted(missing)))


async def end_approvals(ask: Conforming, stack: Stack, known: Ids) -> None:
    body = {"player_id": known["player"], "scope_key": known["campaign"], "currency": "points", "amount": 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_adjustment_above=4))
        own = await ask("admin", "POST", "/admin/wallet/adjustments", body)
        others = await ask("core", "POST", "/wallet/adjustments", body)
        for approval, act in ((own, "withdraw"), (others, "reject")):
            assert approval.http == 202
            path = f"/admin/approvals/{approval.envelope['data']['approval']['id']}/{act}"
            assert (await ask("admin", "POST", path, {})).code == "OK"


async def every_example(ask: Conforming, known: Ids) -> None:
    for operation in (row for row in OPERATIONS if row.verb != "DELETE" and not row.streamed):
        path = path_of(operation, known)
        if operation.consumer is not None:
            body = edge_body(operation, known) if operation.has_body else None
            await ask("consumer", operation.verb, path, body, player=known["player"])
        if serves("admin", operation):
            body = edge_body(operation, known) if operation.has_body else None
            await ask("admin", operation.verb, f"/admin{path}", body, roles=("admin", "platform"))
        body = body_of(operation, known) if operation.has_body else None
        query = {"player_id": known["player"]} if body is None and operation.of_player else {}
        await ask("core", operation.verb, path, body, **query)


async def manage(ask: Conforming, world: World) -> None:
    campaign, prize = world.campaign_id, await world.prize(total=5)
    voucher = await world.prize(codes=["A-1"])
    await ask("admin", "POST", f"/admin/prizes/{voucher}/codes", {"codes": ["A-1", "A-2", ""]})
    game = await world.wheel(prize)
    await ask("core", "GET", "/exports", name="plays")
    await ask("admin", "PUT", f"/admin/games/{game}", {"name": "Wheel of mugs"})
    assert (await ask("admin", "PUT", f"/admin/games/{game}", {"revision": 1})).reason == "STALE_REVISION"
    assert (await ask("admin", "DELETE", f"/admin/prizes/{prize}")).reason == "IN_USE"
    body = {"campaign_id": campaign, "name": "Q", "status": "active", "type": "daily", "turns": 1}
    body["condition"] = {"kind": "event", "count": 1}
    quest = (await ask("admin", "POST", "/admin/quests", body)).data["id"]
    await ask("admin", "POST", f"/admin/quests/{quest}/rotate-secret", {})
    await ask("core", "POST", f"/quests/{quest}/events", {"event_id": "e", "player_id": "ann"})
    pack_body = {"campaign_id": campaign, "name": "P", "gives": {"turns": 1}}
    pack, no_pack = [(await ask("admin", "POST", "/admin/packs", pack_body)).data["id"] for _ in range(2)]
    await ask("admin", "POST", f"/admin/packs/{pack}/codes", {"codes": ["CODE-0001", "no"]})
    await ask("admin", "POST", f"/admin/packs/{pack}/rotate-secret", {})
    await ask("core", "POST", f"/packs/{pack}/receipts", {"receipt_id": "till-1", "player_id": "ann"})
    board_body = {"campaign_id": campaign, "name": "B", "metric": "plays", "mode": "sum"}
    board = (await ask("admin", "POST", "/admin/leaderboards", board_body)).data["id"]
    hook = {"type": "crm", "events": ["prize_won"], "campaign_id": campaign}
    integration = (await ask("admin", "POST", "/admin/integrations", hook)).data["id"]
    for player in ("ann", "bob"):
        await world.round(game, player)
        given = {"player_id": player, "scope_key": campaign, "currency": "coin", "amount": 1, "reference_id": "r"}
        await ask("admin", "POST", "/admin/wallet/adjustments", given)
    terms = {"tickets": {"currency": "coin"}, "prizes": [{"prize_id": prize, "count": 1}], "alternates": 1}
    draw_body = {"campaign_id": campaign, "name": "D", "randomness": {"kind": "INTERNAL"}, **terms}
    draw, unused = [(await ask("admin", "POST", "/admin/draws", draw_body)).data["id"] for _ in range(2)]
    await ask("admin", "PUT", f"/admin/draws/{unused}", {"alternates": 2})
    for act, body in (("close", {}), ("draw", {}), ("replace", {"rank": 1, "reason": "gone"}), ("confirm", {})):
        await ask("admin", "POST", f"/admin/draws/{draw}/{act}", body)
    token = (await ask("admin", "POST", "/admin/tokens", {"name": "Till", "roles": ["designer"]})).data["id"]
    for removed in (
        *(f"tokens/{token}", f"quests/{quest}", f"leaderboards/{board}", f"draws/{unused}", f"packs/{no_pack}"),
        *(f"integrations/{integration}", f"games/{game}", f"prizes/{prize}"),
    ):
        await ask("admin", "DELETE", f"/admin/{removed}")
    assert (await ask("admin", "GET", "/admin/games/x")).reason == "UNKNOWN_GAME"
    assert (await ask("admin", "GET", "/admin/games", roles=())).reason == "TOKEN_MISSING"
    assert (await ask("admin", "GET", "/admin/games", roles=("clerk",))).reason == "ROLE_REQUIRED"
    assert (await ask("admin", "POST", "/admin/games", {"name": 3})).reason == "VALIDATION"


async def play(ask: Conforming, world: World) -> None:
    player = "player_ann"
    mug = await world.prize(total=10, fulfillment={"redemption_mode": "on_claim"})
    points = await world.prize(type="points", value=5)
    rungs = [{"name": "Two coins", "currency": "coin", "threshold": 2, "prize_id": mug}]
    drops = [{"type": "star", "prize_id": points, "frequency": 1, "max_catchable": 1}]
    tiers = {"tiers": [{"min": 1, "max": 9, "prize_group": "g"}], "prize_groups": {"g": []}, "max_score": 9}
    wheel = await world.wheel(mug, access="public", rules={"max_plays_per_user": 3})
    eggs = await world.game(EGGS, tiers)
    gifts = await world.game(GIFTS, {"drops": drops, "total_items": 2, "interval_ms": 1})
    leaves = await world.game(
        COLLECTION, COINS, milestones={"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "rungs": rungs}
    )
    payloads: dict[str, Any] = {
        wheel: {},
        eggs: {"score": 3, "duration_ms": 1},
        gifts: {"caught_items": []},
        leaves: {},
    }
    for game, payload in payloads.items():
        session = (await ask("consumer", "POST", f"/games/{game}/start", {}, player=player)).data["session_id"]
        body = {"session_id": session, "payload": payload}
        played = await ask("consumer", "POST", f"/games/{game}/play", body, player=player)
        assert (await ask("consumer", "POST", f"/games/{game}/play", body, player=player)).reason == "SESSION_PLAYED"
        for read in ("eligibility", "history/me", "render", "milestones"):
            await ask("consumer", "GET", f"/games/{game}/{read}", player=player)
        await ask("admin", "POST", f"/admin/plays/{played.data['play_id']}/replay", {})
        await ask("core", "GET", f"/games/{game}/history/me", player_id=player)
    assert "guest_token" in (await ask("consumer", "POST", f"/games/{wheel}/start", {})).data
    await ask("core", "POST", f"/games/{wheel}/start", {})
    [rung] = (await ask("consumer", "GET", f"/games/{leaves}/milestones", player=player)).data["items"]
    refused = await ask("consumer", "POST", f"/games/{leaves}/redeem", {}, player=player)
    assert wrong_fields_of(refused) == ["milestone_id"]
    for _ in range(2):
        body = {"milestone_id": rung["id"]}
        await ask("consumer", "POST", f"/games/{leaves}/redeem", body, player=player)
    rewards = (await ask("consumer", "GET", "/rewards/me", player=player)).data["items"]
    for _ in range(2):
        await ask("consumer", "POST", f"/rewards/{rewards[0]['id']}/claim", {}, player=player)
    await ask("admin", "POST", f"/admin/rewards/{rewards[1]['id']}/fulfill", {"note": "by hand"})
    for _ in range(2):
        await ask("admin", "POST", f"/admin/rewards/{rewards[1]['id']}/revoke", {"reason": "a cheat"})
    [coded] = (await world.round(await world.wheel(await world.prize(codes=["A-3"])), player)).data["rewards"]
    await ask("admin", "POST", f"/admin/rewards/{coded['reward_id']}/reveal-code", {"reason": "lost"})
    await world.turns(player, 1)
    for path in ("/wallet", "/wallet/ledger", "/players/me/turns", f"/public/campaigns/{world.campaign_id}"):
        await ask("consumer", "GET", path, player=player)
    await ask("consumer", "PUT", "/players/me", {"display_name": "Ann"}, player=player)
    board = (await make_board(world.stack, world.campaign_id, metric="plays"))["id"]
    for who in ({}, {"player": player}):
        await ask("consumer", "GET", f"/leaderboards/{board}/rankings", **who)
    change = {"player_id": player, "reason": "a round was lost"}
    await ask("admin", "POST", f"/admin/leaderboards/{board}/adjust", {**change, "delta": 1})
    for act, body in (("disqualify", change), ("finalize", {})):
        await ask("admin", "POST", f"/admin/leaderboards/{board}/{act}", body)
