import asyncio
import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.deliveries import signed as sign
from tests.support.guests import log_in, new_guest
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign
from tests.support.rivals import begun, held, waits
from tests.support.stack import OTHER_TENANT, Answer
from tests.support.waiting import until
from tests.support.world import World

REFUSED = (401, "SIGNATURE_INVALID")


@dataclass(frozen=True)
class Taking:
    world: World
    id: str
    secret: str

    async def tell(self, event: str = "e1", *, secret: str = "", **options: Any) -> Answer:
        body = options.pop("body", None)
        who = {name: options.pop(name) for name in ("player_id", "email", "phone") if name in options}
        text = json.dumps({"event_id": event, **(who or {"player_id": "ann"})}) if body is None else body
        return await call(self.world, self.id, text, secret or self.secret, **options)

    async def put(self, **fields: Any) -> Answer:
        return await self.world.stack.admin("PUT", f"/admin/quests/{self.id}", fields)

    async def rotate(self, **fields: Any) -> Answer:
        return await self.world.stack.admin("POST", f"/admin/quests/{self.id}/rotate-secret", fields)

    async def complete(self, player: str = "ann") -> Answer:
        return await self.world.stack.consumer("POST", f"/quests/{self.id}/complete", {}, player=player)

    async def have(self, player: str = "ann") -> int:
        body = {"campaign_id": self.world.campaign_id}
        items = (await self.world.stack.consumer("GET", "/players/me/quests", player=player, **body)).data["items"]
        return next(int(one["have"]) for one in items if one["quest_id"] == self.id)

    async def count_stored(self) -> int:
        return int(await self.world.database.fetchval("SELECT count(*) FROM quest_events WHERE quest_id = $1", self.id))


async def call(
    world: World,
    quest_id: str,
    body: str,
    secret: str,
    *,
    at: float = 0,
    id: str = "msg_1",
    tenant_id: str = "",
    sent: bytes | None = None,
    signed: bool = True,
) -> Answer:
    """The answer to a call that is signed as the libraries of Standard Webhooks do, but for what is said otherwise."""
    headers = sign(body, id=id, at=at, secret=secret)
    if not signed:
        del headers["webhook-signature"]
    path, query = f"/quests/{quest_id}/events", {"tenant_id": tenant_id or world.stack.tenant_id}
    return await world.stack.upload(path, sent or body.encode(), role="", headers=headers, **query)


async def taking(world: World, count: int = 1, **fields: Any) -> Taking:
    body = {"campaign_id": world.campaign_id, "name": "Q", "turns": 3, "status": "active", **fields}
    made = await world.stack.admin("POST", "/admin/quests", {**body, "condition": {"kind": "event", "count": count}})
    return Taking(world, str(made.data["id"]), str(made.data["secret"]))


def refused(answer: Answer) -> bool:
    return (answer.http, answer.reason) == REFUSED


async def test_quest_of_events_is_completed_by_enough_events(world: World) -> None:
    quest = await taking(world, count=2)
    early = await quest.complete()
    assert (early.reason, early.envelope["data"]["have"], early.envelope["data"]["need"]) == ("CONDITION_NOT_MET", 0, 2)
    first = await quest.tell("e1")
    assert first.data == {"quest_id": quest.id, "event_id": "e1", "reported_at": pytest.approx(time.time(), abs=60)}
    assert (await quest.tell("e1", id="msg_2")).data == first.data, "told again, it is the same event"
    assert (await quest.have(), await quest.have("bob")) == (1, 0)
    await quest.tell("e2")
    assert await quest.have() == 2
    assert (await quest.complete()).data["turns_granted"] == 3
    assert (await quest.complete()).reason == "ALREADY_COMPLETED"
    assert (await quest.complete("bob")).reason == "CONDITION_NOT_MET"


async def test_event_id_and_secret_are_of_one_quest(world: World) -> None:
    one, other = await taking(world), await taking(world)
    assert one.secret != other.secret
    assert refused(await one.tell(secret=other.secret)) and refused(await other.tell(secret=one.secret))
    assert ((await one.tell("same")).http, (await other.tell("same", player_id="bob")).http) == (200, 200)
    assert (await one.have(), await other.have(), await other.have("bob")) == (1, 0, 1)


async def test_unverified_event_is_refused_in_one_way(world: World) -> None:
    quest = await taking(world)
    by_word = await world.stack.admin("POST", "/admin/quests", {"campaign_id": world.campaign_id, "name": "W"})
    body = json.dumps({"event_id": "e", "player_id": "ann"})
    wrong: list[dict[str, Any]] = [
        *({"signed": False}, {"secret": "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"}, {"id": "x" * 300}),
        *({"at": time.time() - 301}, {"at": time.time() + 302}, {"body": " " * 20_000 + body}),
        *({"sent": body.replace("ann", "bob").encode()}, {"sent": b"\xff\xfe"}),
        *({"tenant_id": OTHER_TENANT}, {"tenant_id": "tenant_invented"}),
    ]
    answers = [await quest.tell(**one) for one in wrong]
    answers += [await call(world, name, body, quest.secret) for name in ("quest_none", by_word.data["id"])]
    assert [answer.http for answer in answers if not refused(answer)] == []
    assert len({json.dumps({**answer.envelope, "trace_id": ""}) for answer in answers}) == 1, "nothing tells them apart"
    assert (await quest.count_stored(), await quest.have()) == (0, 0)


async def test_event_with_a_wrong_body_is_refused(world: World) -> None:
    quest, taken = await taking(world), []
    for body in (
        *("not json", "[]", "{}", '{"event_id": ""}', '{"event_id": "e"}', '{"event_id": "e", "player_id": ""}'),
        '{"event_id": "e", "player_id": "ann", "more": 1}',
        '{"event_id": "e", "player_id": "ann", "email": "ann@example.com"}',
        *('{"event_id": "e", "email": "no address"}', '{"event_id": "e", "phone": "0171"}'),
        json.dumps({"event_id": "e" * 201, "player_id": "ann"}),
        *(json.dumps({"event_id": "e\n", "player_id": "ann"}), json.dumps({"event_id": "e", "player_id": "a" * 129})),
    ):
        if (answer := await quest.tell(body=body)).http != 400:
            taken.append((body, answer.envelope))
    assert taken == []
    assert await quest.count_stored() == 0


async def test_event_names_its_player_by_id_or_contact(world: World) -> None:
    player = await log_in(world.stack, contact="events@example.com")
    quest = await taking(world, count=5)
    assert (await quest.tell("e1", email="Events@Example.com")).http == 200
    assert (await quest.tell("e1", player_id=player)).http == 200, "it is the same event of the same player"
    assert await quest.have(player) == 1
    for who in ({"email": "x@example.com"}, {"phone": "+15550199"}, {"player_id": "player_01k00000000000000000000000"}):
        answer = await quest.tell("e2", **who)
        assert (answer.http, answer.reason) == (404, "UNKNOWN_PLAYER")
        assert "nobody@example.com" not in json.dumps(answer.envelope)
    assert (await quest.tell("e3", player_id="customer-81")).http == 200, "an outside identity comes here with it"
    assert await quest.have("customer-81") == 1
    shops = World(world.stack, (await make_campaign(world.stack, merchant_id=await make_merchant(world.stack)))["id"])
    theirs = await taking(shops)
    assert (await theirs.tell("e1", email="events@example.com")).reason == "UNKNOWN_PLAYER", "a stranger to the shop"
    assert (await shops.round(await shops.wheel(), player)).code == "OK"
    assert (await theirs.tell("e1", email="events@example.com")).http == 200


async def test_event_before_during_and_after_the_guests_login_is_the_players(world: World) -> None:
    game = await world.wheel(access="public")
    quest = await taking(world)
    guest = await new_guest(world, game)
    assert (await quest.tell("before", player_id=guest.player_id)).http == 200
    async with held(world.stack, "SELECT FROM quests WHERE quest_id = $1 FOR UPDATE", quest.id):
        telling = await begun(world.stack, quest.tell("e1", player_id=guest.player_id), "quest_events.record")
        login = asyncio.ensure_future(log_in(world.stack, guest, contact="meets@example.com"))
        await until(lambda: waits(world.stack, "merging.lock_players"))
    player = await login
    assert (await telling).http == 200
    assert (await quest.tell("late", player_id=guest.player_id)).http == 200
    counted = await world.database.fetch("SELECT player_id FROM quest_events WHERE quest_id = $1", quest.id)
    assert [row["player_id"] for row in counted] == [player] * 3


@pytest.mark.parametrize(("type", "days"), [("daily", 1), ("weekly", 7)])
async def test_event_before_the_period_does_not_count(world: World, type: str, days: int) -> None:
    quest = await taking(world, type=type)
    await quest.tell("e1")
    earlier = "UPDATE quest_events SET reported_at = reported_at - make_interval(days => $2) WHERE quest_id = $1"
    await world.database.execute(earlier, quest.id, days)
    assert (await quest.complete()).reason == "CONDITION_NOT_MET"
    assert (await quest.tell("e1")).http == 200, "an event is not told anew in the next period"
    assert await quest.have() == 0
    await quest.tell("e2")
    assert (await quest.complete()).data["turns_granted"] == 3


async def test_event_to_a_closed_quest_is_refused(world: World) -> None:
    quest = await taking(world)
    first = await quest.tell("e1")
    for fields in (
        *({"status": "draft"}, {"status": "active", "start_date": int(time.time()) + 3600}),
        {"start_date": 0, "end_date": int(time.time()) - 3600},
    ):
        assert (await quest.put(**fields)).http == 200
        answer = await quest.tell("e2")
        assert (answer.http, answer.reason) == (400, "QUEST_CLOSED")
        assert (await quest.tell("e1")).data == first.data
    assert await quest.count_stored() == 1


async def test_event_of_a_suspended_player_is_refused(world: World) -> None:
    quest = await taking(world)
    await quest.tell("e1", player_id="sue")
    suspends = {"status": "suspended", "reason": "cheats"}
    assert (await world.stack.admin("PUT", "/admin/players/sue", suspends)).http == 200
    answer = await quest.tell("e2", player_id="sue")
    assert (answer.http, answer.reason, await quest.count_stored()) == (403, "SUSPENDED", 1)


async def test_secret_is_shown_once_and_ends_with_the_condition(world: World) -> None:
    quest = await taking(world)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", quest.secret)
    shown = (await world.stack.admin("GET", f"/admin/quests/{quest.id}")).data
    assert (shown["secret"], shown["secret_set"]) == ("", True)
    public = (await world.stack.consumer("GET", f"/public/campaigns/{world.campaign_id}")).data["quests"]
    [listed] = [one for one in public if one["id"] == quest.id]
    assert listed["condition"]["kind"] == "QUEST_CONDITION_KIND_EVENT"
    again = (await quest.put(condition={"kind": "event", "count": 2})).data
    assert (again["secret"], again["secret_set"]) == ("", True)
    assert (await quest.tell()).http == 200, "it takes events still, by the same secret"
    other = (await quest.put(condition={"kind": "plays", "count": 2})).data
    assert (other["secret"], other["secret_set"]) == ("", False)
    assert refused(await quest.tell("e2"))
    anew = (await quest.put(condition={"kind": "event", "count": 2})).data
    assert anew["secret"] not in ("", quest.secret)
    assert refused(await quest.tell("e2")) and (await quest.tell("e2", secret=anew["secret"])).http == 200
    audited = await world.database.fetch("SELECT before, after FROM audit_entries WHERE subject_id = $1", quest.id)
    assert len(audited) == 4 and "whsec_" not in str(audited) and "sealed:" not in str(audited)


async def test_secret_is_rotated_with_an_overlap(world: World) -> None:
    first = await taking(world, count=9)
    second = replace(first, secret=(await first.rotate()).data["secret"])
    assert [(await one.tell(f"a{nth}")).http for nth, one in enumerate((first, second))] == [200, 200]
    ended = (await first.rotate(end_previous=True)).data
    assert (ended["secret"], ended["secret_set"]) == ("", True)
    assert refused(await first.tell("b")) and (await second.tell("b")).http == 200
    third = replace(first, secret=(await first.rotate()).data["secret"])
    fourth = replace(first, secret=(await first.rotate()).data["secret"])
    assert refused(await second.tell("c")), "of three, the first ends"
    assert [(await one.tell(f"c{nth}")).http for nth, one in enumerate((third, fourth))] == [200, 200]
    rotations = "SELECT after ->> 'overlap' FROM audit_entries WHERE subject_id = $1 AND action = 'quest.rotate'"
    overlaps = [row[0] for row in await world.database.fetch(f"{rotations} ORDER BY entry_id", first.id)]
    assert overlaps == ["true", "false", "true", "true"]


async def test_secret_is_of_quests_that_take_events_alone(world: World) -> None:
    made = (await world.stack.admin("POST", "/admin/quests", {"campaign_id": world.campaign_id, "name": "Q"})).data
    assert (made["secret"], made["secret_set"]) == ("", False)
    for quest_id, refusal in ((made["id"], (400, "ILLEGAL_TRANSITION")), ("quest_none", (404, "UNKNOWN_QUEST"))):
        answer = await world.stack.admin("POST", f"/admin/quests/{quest_id}/rotate-secret", {})
        assert (answer.http, answer.reason) == refusal


async def test_copied_quest_gets_a_secret_of_its_own(world: World) -> None:
    quest = await taking(world)
    copy = (await world.stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {})).data["id"]
    [copied] = (await world.stack.admin("GET", "/admin/quests", campaign_id=copy)).data["items"]
    assert (copied["condition"]["kind"], copied["secret_set"]) == ("QUEST_CONDITION_KIND_EVENT", False)
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{copy}", {"status": "active"})).http == 200
    own = replace(quest, id=copied["id"])
    assert refused(await own.tell())
    assert (await replace(own, secret=(await own.rotate()).data["secret"]).tell()).http == 200


async def test_event_beside_an_erasure_does_not_outlive_it(world: World) -> None:
    quest = await taking(world)
    await quest.tell("before", player_id="eve")
    async with held(world.stack, "SELECT FROM quests WHERE quest_id = $1 FOR UPDATE", quest.id):
        telling = await begun(world.stack, quest.tell("e1", player_id="eve"), "quest_events.record")
        erasing = asyncio.ensure_future(world.stack.admin("POST", "/admin/players/eve/erase", {"reason": "asked"}))
        await until(lambda: waits(world.stack, "erasure.lock_players"))
    assert ((await telling).http, (await erasing).http) == (200, 200)
    assert await quest.count_stored() == 0


async def test_docs_example_sends_an_event(world: World) -> None:
    quest = await taking(world)
    page = (Path(__file__).parents[3] / "docs/how-to/listen-to-events.md").read_text()
    script = page.partition("## Send quest events")[2].partition("```sh\n")[2].partition("```")[0]
    fields = {"ADMIN_URL": world.stack.process.admin_url, "TENANT": world.stack.tenant_id}
    fields |= {"QUEST": quest.id, "SECRET": quest.secret}
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", **fields}
    shell = await asyncio.create_subprocess_exec("sh", "-euc", script, env=env, stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    assert json.loads(said)["data"]["event_id"] == "newsletter-4711"
    assert await quest.have("customer-81") == 1
