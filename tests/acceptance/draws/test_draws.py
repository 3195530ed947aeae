import asyncio
import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.app import running
from runtime.commands.evidence.draws import verify
from runtime.commands.evidence.findings import Finding
from runtime.errors import Fault
from runtime.operations.draws import lifecycle
from runtime.operations.draws.randomness import canonical
from runtime.operations.leaderboards import auto_finalize
from runtime.operations.leaderboards.rank_prizes import RankPrizes
from runtime.streams import expiry
from tests.support.guests import guest_who_played, log_in, rewards_of
from tests.support.leaderboards import Played, make_board, open_games, record
from tests.support.locks import blocked
from tests.support.operations import make_merchant
from tests.support.operator import Operator
from tests.support.resources import make_campaign, make_prize
from tests.support.stack import Answer, Stack, fields_of
from tests.support.verifiers import DRAWS, MARKS, is_refuted, javascript
from tests.support.waiting import until
from tests.support.world import World

PLAYERS = {"ann": 1, "bob": 5, "cleo": 3, "dan": 2}


async def credit(world: World, tickets: dict[str, int]) -> None:
    game_id = await world.wheel()
    for player_id, amount in tickets.items():
        if player_id in (*PLAYERS, "eve"):
            await world.round(game_id, player_id)  # A player's first play makes it known.
        body = {"player_id": player_id, "scope_key": world.campaign_id, "currency": "ticket", "amount": amount}
        answer = await world.stack.admin("POST", "/admin/wallet/adjustments", {**body, "reference_id": "given"})
        assert answer.code == "OK"


async def make_draw(world: World, prize_id: str, count: int = 1, **fields: Any) -> str:
    body = {"campaign_id": world.campaign_id, "name": "Grand prize", "tickets": {"currency": "ticket"}, "alternates": 1}
    body |= {"prizes": [{"prize_id": prize_id, "count": count}], "randomness": {"kind": "INTERNAL"}, **fields}
    answer = await world.stack.admin("POST", "/admin/draws", body)
    assert answer.data["status"] == "DRAW_STATUS_OPEN", answer
    return str(answer.data["id"])


async def step(world: World, draw_id: str, name: str, **body: Any) -> Answer:
    return await world.stack.admin("POST", f"/admin/draws/{draw_id}/{name}", body)


async def drawn(world: World, prize_id: str, count: int = 1, **fields: Any) -> str:
    """A draw among PLAYERS with its winners drawn."""
    await credit(world, PLAYERS)
    draw_id = await make_draw(world, prize_id, count, **fields)
    assert (await step(world, draw_id, "close")).data["status"] == "DRAW_STATUS_CLOSED"
    assert (await step(world, draw_id, "draw")).data["status"] == "DRAW_STATUS_DRAWN"
    return draw_id


async def evidence(world: World, draw_id: str) -> list[dict[str, Any]]:
    stack = world.stack
    url = f"{stack.process.consumer_url}/api/v1/draws/{draw_id}/file"
    async with stack.http.get(url, headers={"X-Tenant-Id": stack.tenant_id}) as response:
        assert response.status == 200
        return [json.loads(line) for line in (await response.text()).splitlines()]


async def test_draw_awards_each_prize_and_its_file_proves_it(world: World, tmp_path: Path) -> None:
    prize_id = await world.prize(total=5)
    draw_id = await drawn(world, prize_id, 2)
    confirmed = (await step(world, draw_id, "confirm")).data
    assert (confirmed["ticket_count"], confirmed["holder_count"]) == (11, 4)
    assert [one["reason"] for one in confirmed["winners"]] == ["", "", "ALTERNATE"]
    rewards = await world.database.fetch("SELECT reward_id, player_id FROM rewards WHERE prize_id = $1", prize_id)
    assert set(map(tuple, rewards)) == {(one["reward_id"], one["player_id"]) for one in confirmed["winners"][:2]}
    path = tmp_path / "draw.jsonl"
    lines = await evidence(world, draw_id)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [finding.ok for finding in verify(path, confirmed["tickets_root"])] == [True] * 7
    assert False in [finding.ok for finding in verify(path, "00")], "not the published root"
    assert '"ann"' not in path.read_text()
    own = (await world.stack.consumer("GET", f"/draws/{draw_id}", player=confirmed["winners"][0]["player_id"])).data
    assert (own["me"]["rank"], own["me"]["reward"]["id"]) == (1, confirmed["winners"][0]["reward_id"])
    assert {"holder": own["me"]["holder"], "tickets": own["me"]["tickets"]} in lines
    public = (await world.stack.consumer("GET", f"/draws/{draw_id}")).data
    assert "me" not in public and [one["player_id"] for one in public["winners"]] == ["", "", ""]
    await world.check()


CHANGES: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    # What is changed of the file; how an error begins where it is no evidence at all.
    "tickets": (lambda lines: lines[1].update(tickets=lines[1]["tickets"] + 1), ""),
    "holder": (lambda lines: lines.insert(1, {"holder": "00", "tickets": 1}), ""),
    "prize": (lambda lines: lines[0]["prizes"][0].update(prize_id="prize_other"), ""),
    "randomness": (lambda lines: lines[0]["randomness"].update(commitment="00"), ""),
    "name": (lambda lines: lines[0].update(name="Another prize"), ""),
    "value": (lambda lines: lines[-1].update(value="00"), ""),
    "result": (lambda lines: lines[-1]["result"].reverse(), ""),
    "end": (lambda lines: lines.append({"holder": "ff", "tickets": 1}), "lines after the result"),
    "head": (lambda lines: lines.pop(0), "not an evidence file"),
    "closed after the draw": (lambda lines: lines[0].update(closed_at=lines[-1]["drawn_at"] + 1), ""),
    "instant": (
        lambda lines: lines[0].update(closed_at=1e300),
        "line 1: closed_at must be a time in whole unix seconds",
    ),
    "count": (lambda lines: lines[0]["prizes"][0].update(count="1"), "line 1: prizes[0].count must be a whole number"),
    "kind": (lambda lines: lines[0]["randomness"].update(kind={}), "line 1: randomness.kind must be one of DRAND, DEC"),
    "draw": (lambda lines: lines[0].update(name="\ud800"), "line 1: the texts must be valid Unicode"),
    "ticket": (lambda lines: lines[2].update(tickets="1"), "line 3: tickets must be a whole number from 1 to 92233"),
    "missing": (lambda lines: lines[-1].pop("drawn_at"), "line 6: drawn_at must be a time"),
}


async def test_changed_evidence_is_refuted(world: World, tmp_path: Path) -> None:
    """By both verifiers, with the same findings."""
    whole, wrong = await evidence(world, await drawn(world, await world.prize())), []
    ours, paths = dict[str, list[str]](), [tmp_path / f"{name}.jsonl" for name in ("whole", *CHANGES)]
    for path in paths:
        (change, error), lines = CHANGES.get(path.stem, (len, "")), copy.deepcopy(whole)
        change(lines)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        try:
            found, said = verify(path), ""
        except ValueError as failure:
            found, said = [Finding("", False)], str(failure)
        ours[path.stem] = [f"error  {said}"] if said else [MARKS[ok] + text for text, ok in found]
        is_right = (False in [one.ok for one in found]) is (path.stem != "whole")
        wrong += [] if is_right and bool(said) == bool(error) and error in said else [(path.stem, found, said)]
    assert wrong == []
    theirs = dict(zip(ours, javascript(DRAWS, paths), strict=True))
    # Where one of them has an error, it has no findings.
    differ = [
        name for name in ours if ours[name] != theirs[name] and "error" not in (ours[name][0][:5], theirs[name][0][:5])
    ]
    assert differ == [name for name in ours if is_refuted(theirs[name]) is (name == "whole")] == []


@pytest.mark.parametrize("notation", ["4 8 15", "4815", "40,8,150", " 04-8 015. ", "４\n٨ 15"])
def test_declared_number_has_one_form(notation: str) -> None:
    assert (canonical(notation), canonical("00 0"), canonical("-")) == ("4815", "0", "")
    with pytest.raises(Fault, match="letters"):
        canonical(f"Lotto {notation}")
    with pytest.raises(Fault, match="fractions"):
        canonical(f"{notation}½")


@pytest.mark.fault("Draw killed at each step; drawn twice", size="each step", figure="the second refused")
async def test_second_draw_and_steps_out_of_order_are_refused(world: World) -> None:
    await credit(world, PLAYERS)
    draw_id = await make_draw(world, await world.prize())
    for early in ("draw", "confirm"):
        assert (await step(world, draw_id, early)).reason == "ILLEGAL_TRANSITION"
    assert (await step(world, draw_id, "replace", rank=1, reason="gone")).reason == "ILLEGAL_TRANSITION"
    assert (await world.stack.consumer("GET", f"/draws/{draw_id}/file")).reason == "UNKNOWN_DRAW"
    empty = await make_draw(world, await world.prize(), tickets={"currency": "tiket"})
    refused = await step(world, empty, "close")
    assert refused.reason == "ILLEGAL_TRANSITION" and "no player has a ticket" in refused.envelope["message"]
    await world.database.execute("UPDATE draws SET closes_at = now() - interval '1 s' WHERE draw_id = $1", empty)
    assert (await step(world, empty, "close")).data["status"] == "DRAW_STATUS_CLOSED", "as announced"
    assert "it has no tickets; cancel it" in (await step(world, empty, "draw")).envelope["message"]
    root = (await step(world, draw_id, "close")).data["tickets_root"]
    await credit(world, {"eve": 100})
    assert (await step(world, draw_id, "close")).data["tickets_root"] == root, "frozen tickets do not change"
    path = f"/admin/draws/{draw_id}"
    assert (await world.stack.admin("PUT", path, {"alternates": 0})).reason == "ILLEGAL_TRANSITION"
    assert (await world.stack.admin("DELETE", path)).reason == "ILLEGAL_TRANSITION"
    first = (await step(world, draw_id, "draw")).data
    assert (await step(world, draw_id, "draw")).reason == "ILLEGAL_TRANSITION"
    assert (await world.stack.admin("GET", path)).data["result_hash"] == first["result_hash"]
    cancelled = await world.stack.admin("PUT", path, {"status": "DRAW_STATUS_CANCELLED"})
    assert cancelled.data["status"] == "DRAW_STATUS_CANCELLED"
    assert (await step(world, draw_id, "confirm")).reason == "ILLEGAL_TRANSITION"


@pytest.mark.fault("Draw killed at each step; drawn twice", size="10 at once over 2 processes", figure="1 draw")
async def test_rivals_on_two_processes_draw_and_confirm_once(world: World) -> None:
    stack, prize_id = world.stack, await world.prize(total=9)
    await credit(world, PLAYERS)
    draw_id = await make_draw(world, prize_id, 3)
    await step(world, draw_id, "close")
    async with running(stack.process.settings, ("core", "admin")) as other:

        async def on(url: str, name: str) -> int:
            headers = {"Authorization": f"Bearer {stack.token('boss', ('admin',))}"}
            async with stack.http.post(f"{url}/api/v1/admin/draws/{draw_id}/{name}", json={}, headers=headers) as reply:
                return reply.status

        urls = [stack.process.admin_url, other.admin_url]
        assert sorted(await asyncio.gather(*(on(url, "draw") for url in urls * 5))) == [200] + [400] * 9
        assert set(await asyncio.gather(*(on(url, "confirm") for url in urls * 5))) == {200}
    assert await world.database.fetchval("SELECT count(*) FROM rewards WHERE prize_id = $1", prize_id) == 3
    await world.check()


async def test_confirmation_that_dies_is_finished_by_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    prize_id = await world.prize(total=9)
    draw_id = await drawn(world, prize_id, 2)

    async def dies(self: RankPrizes) -> int:
        raise ConnectionError("the process dies")

    with monkeypatch.context() as broken:
        broken.setattr(RankPrizes, "award", dies)
        assert (await step(world, draw_id, "confirm")).http == 500
    await lifecycle.finish_due(world.stack.engine)
    winners = (await world.stack.admin("GET", f"/admin/draws/{draw_id}/winners")).data["items"]
    assert [bool(one["reward_id"]) for one in winners] == [True, True, False]
    other = await make_draw(world, prize_id)

    async def cancelled(*_: object) -> None:
        cancel = {"status": "DRAW_STATUS_CANCELLED"}
        assert (await world.stack.admin("PUT", f"/admin/draws/{other}", cancel)).code == "OK"

    monkeypatch.setattr(lifecycle, "announce", cancelled)
    assert (await step(world, other, "close")).reason == "ILLEGAL_TRANSITION", "a step does not answer CANCELLED"


async def test_replaced_winner_passes_the_prize_to_the_alternate(world: World) -> None:
    prize_id = await world.prize(total=1, fulfillment={"redemption_mode": "REDEMPTION_MODE_ON_CLAIM"})
    draw_id = await drawn(world, prize_id)
    for rank, why in ((3, "it has no rank 3"), (2, "is an alternate"), (0, "rank: must be from 1 to")):
        assert why in (await step(world, draw_id, "replace", rank=rank, reason="gone")).envelope["message"]
    await step(world, draw_id, "confirm")
    assert "revoke it first" in str(await step(world, draw_id, "replace", rank=1, reason="gone"))
    winner, alternate = (await world.stack.admin("GET", f"/admin/draws/{draw_id}")).data["winners"]
    await world.database.execute("UPDATE rewards SET expires_at = now() WHERE reward_id = $1", winner["reward_id"])
    await expiry.expire(world.stack.engine)
    _, second = (await step(world, draw_id, "replace", rank=1, reason="not reached")).data["winners"]
    assert (second["reason"], second["player_id"]) == ("", alternate["player_id"]) and second["reward_id"]
    assert "replaced already" in str(await step(world, draw_id, "replace", rank=1, reason="not reached"))
    for one, prize in ((winner, ""), (alternate, prize_id)):
        shown = (await world.stack.consumer("GET", f"/draws/{draw_id}", player=one["player_id"])).data
        assert shown["me"]["prize_id"] == prize
    await world.stack.admin("POST", f"/admin/rewards/{second['reward_id']}/revoke", {})
    assert (await step(world, draw_id, "replace", rank=2, reason="not reached")).reason == "NO_ALTERNATE"
    await world.check()


async def test_alternate_is_not_called_for_a_delivered_unit(world: World) -> None:
    prize_id = await world.prize(total=1)
    draw_id = await drawn(world, prize_id)
    winner = (await step(world, draw_id, "confirm")).data["winners"][0]
    assert (await world.stack.admin("POST", f"/admin/rewards/{winner['reward_id']}/revoke", {})).code == "OK"
    assert (await world.stack.admin("GET", f"/admin/draws/{draw_id}")).data["winners"][0]["reason"] == "REVOKED"
    assert (await step(world, draw_id, "replace", rank=1, reason="ineligible")).reason == "OUT_OF_STOCK"
    assert (await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 2}})).code == "OK"
    replaced = (await step(world, draw_id, "replace", rank=1, reason="ineligible")).data["winners"]
    assert [one["reason"] for one in replaced] == ["REPLACED", ""]
    coded = await drawn(world, await world.prize(codes=["ONE"], fulfillment={"channel": "voucher_code"}))
    winner = (await step(world, coded, "confirm")).data["winners"][0]
    await world.stack.admin("POST", f"/admin/rewards/{winner['reward_id']}/revoke", {})
    assert (await step(world, coded, "replace", rank=1, reason="ineligible")).reason == "OUT_OF_STOCK", "no code"


@pytest.mark.parametrize("kind", ["SUSPENDED", "ERASED"])
async def test_suspended_or_erased_winner_gets_no_prize_and_no_such_alternate_is_called(
    own_world: World, kind: str
) -> None:
    world = own_world
    draw_id = await drawn(world, await world.prize(total=1), alternates=2)
    first, second, third = (await world.stack.admin("GET", f"/admin/draws/{draw_id}")).data["winners"]
    for one in (first, second):
        path = f"/admin/players/{one['player_id']}"
        if kind == "ERASED":
            assert (await world.stack.admin("POST", f"{path}/erase", {"reason": "asked for"})).code == "OK"
        else:
            assert (await world.stack.admin("PUT", path, {"status": "PLAYER_STATUS_SUSPENDED"})).code == "OK"
    confirmed = (await step(world, draw_id, "confirm")).data["winners"]
    assert [one["reason"] for one in confirmed] == [kind, "ALTERNATE", "ALTERNATE"]
    shown = (await world.stack.consumer("GET", f"/draws/{draw_id}", player=third["player_id"])).data
    assert shown["winners"][0]["reason"] == "NOT_AWARDED"
    replaced = (await step(world, draw_id, "replace", rank=1, reason="not eligible")).data["winners"]
    assert [one["reason"] for one in replaced] == ["REPLACED", "ALTERNATE", ""]
    assert replaced[2]["player_id"] == third["player_id"] and replaced[2]["reward_id"]


async def test_guest_that_logs_in_after_the_close_keeps_its_rank_and_the_player_gets_the_prize(world: World) -> None:
    game_id, prize_id = await world.wheel(access="public"), await world.prize(total=9)
    guest = await guest_who_played(world, game_id)
    player_id = await log_in(world.stack, contact="raffle@example.com")
    await credit(world, {guest.player_id: 2, player_id: 1})
    draw_id = await make_draw(world, prize_id, 2)
    await step(world, draw_id, "close")
    assert await log_in(world.stack, guest, contact="raffle@example.com") == player_id
    assert len((await step(world, draw_id, "draw")).data["winners"]) == 2
    await step(world, draw_id, "confirm")
    own = (await world.stack.consumer("GET", f"/draws/{draw_id}", player=player_id)).data["me"]
    assert (own["tickets"], own["rank"]) == (3, 1)
    assert [one["prize_id"] for one in await rewards_of(world.stack, player_id)] == [prize_id] * 2
    await world.check()


async def test_draw_by_scores_keeps_its_board_and_closes_by_itself(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    world = World(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 7), Played("bob", game_id, 2), Played("cleo", game_id, 0)])
    tickets = {"ranking": board["id"]}
    draw_id = await make_draw(world, await world.prize(), tickets=tickets, closes_at=int(time.time()) + 60)
    deleted = await stack.admin("DELETE", f"/admin/leaderboards/{board['id']}")
    assert [one["id"] for one in deleted.envelope["data"]["used_by"]] == [draw_id]
    archive = "UPDATE leaderboards SET status = $2 WHERE board_id = $1"
    await world.database.execute(archive, board["id"], "archived")
    body = {"campaign_id": campaign_id, "name": "Draw", "prizes": [{"prize_id": await world.prize(), "count": 1}]}
    body |= {"tickets": tickets, "randomness": {"kind": "INTERNAL"}}
    assert fields_of(await stack.admin("POST", "/admin/draws", body)) == ["tickets.ranking"]
    await world.database.execute(archive, board["id"], "active")
    await world.database.execute("UPDATE draws SET closes_at = now() WHERE draw_id = $1", draw_id)
    closed: dict[str, Any] = {}

    async def is_closed() -> bool:
        await lifecycle.finish_due(stack.engine)
        closed.update((await stack.admin("GET", f"/admin/draws/{draw_id}")).data)
        return bool(closed["closed_at"])

    await until(is_closed)
    assert (closed["status"], closed["ticket_count"], closed["holder_count"]) == ("DRAW_STATUS_CLOSED", 9, 2)
    other = await make_draw(world, await world.prize(), tickets=tickets)
    await world.database.execute("DELETE FROM leaderboards WHERE board_id = $1", board["id"])
    assert (await step(world, other, "close")).reason == "ILLEGAL_TRANSITION", "not a draw without tickets"


async def test_jobs_leave_a_board_and_a_draw_whose_end_was_just_moved(world: World) -> None:
    board, draw_id = await make_board(world.stack, world.campaign_id), await make_draw(world, await world.prize())
    boards = (auto_finalize.finalize_all, "UPDATE leaderboards SET end_date")
    for job, sets in (boards, (lifecycle.finish_due, "UPDATE draws SET closes_at")):
        of_campaign = (f"{sets} = now() + $2::interval WHERE campaign_id = $1", world.campaign_id)
        await world.database.execute(*of_campaign, timedelta(minutes=-1))
        async with world.database.connection() as staff, staff.transaction():
            await staff.execute(*of_campaign, timedelta(hours=1))
            finishing = await blocked(world.database, job(world.stack.engine))
        await finishing
    shown = [
        await world.stack.admin("GET", f"/admin/{one}") for one in (f"leaderboards/{board['id']}", f"draws/{draw_id}")
    ]
    assert [one.data["status"] for one in shown] == ["LEADERBOARD_STATUS_ACTIVE", "DRAW_STATUS_OPEN"]


async def test_merchants_staff_draws_only_among_wallets_of_the_merchant(stack: Stack) -> None:
    staff = replace(stack, merchant_id=(merchant_id := await make_merchant(stack)))
    campaign_id, other = [(await make_campaign(stack, merchant_id=one))["id"] for one in (merchant_id, "")]
    prize_id = await make_prize(staff, campaign_id=campaign_id)
    body = {"campaign_id": campaign_id, "name": "Draw", "prizes": [{"prize_id": prize_id, "count": 1}]}
    body |= {"randomness": {"kind": "INTERNAL"}}
    for scope, fields in ((other, ["tickets.scope_key"]), (stack.tenant_id, ["tickets.scope_key"])):
        tickets = {"currency": "ticket", "scope_key": scope}
        assert fields_of(await staff.admin("POST", "/admin/draws", {**body, "tickets": tickets})) == fields
    tickets = {"currency": "ticket", "scope_key": other}
    assert fields_of(await stack.admin("POST", "/admin/draws", {**body, "tickets": tickets})) == ["tickets.scope_key"]
    tickets = {"currency": "ticket", "scope_key": merchant_id}
    assert (await staff.admin("POST", "/admin/draws", {**body, "tickets": tickets})).code == "OK"


async def test_winners_names_are_hidden_from_staff_of_a_merchant(world: World) -> None:
    draw_id = await drawn(world, await world.prize())
    name = "UPDATE players SET display_name = 'N' WHERE tenant_id = $1"
    await world.stack.database.execute(name, world.stack.tenant_id)
    shop = replace(world.stack, merchant_id=await make_merchant(world.stack))
    for staff, names in ((world.stack, ["N", "N"]), (shop, ["", ""])):
        listed = (await staff.admin("GET", f"/admin/draws/{draw_id}/winners")).data["items"]
        shown = (await staff.admin("GET", f"/admin/draws/{draw_id}")).data["winners"]
        assert [one["display_name"] for one in listed] == [one["display_name"] for one in shown] == names


async def test_wrong_terms_are_named(world: World) -> None:
    body = {"campaign_id": world.campaign_id, "name": "Grand prize"}
    body |= {"tickets": {"currency": "ticket", "ranking": "board_1"}, "prizes": [], "alternates": 6_000, "closes_at": 1}
    body |= {"randomness": {"kind": "DECLARED", "at": 1}}
    refused = await world.stack.admin("POST", "/admin/draws", body)
    assert set(fields_of(refused)) == {"tickets", "prizes", "closes_at", "randomness.source", "randomness.at"}
    body |= {"tickets": {"ranking": "board_1"}, "prizes": [{"prize_id": "prize_1", "count": 1}], "alternates": 0}
    body |= {"closes_at": 0, "randomness": {"kind": "INTERNAL"}}
    refused = await world.stack.admin("POST", "/admin/draws", body)
    assert set(fields_of(refused)) == {"tickets.ranking", "prizes[0].prize_id"}
    body |= {"tickets": {"entries": True}, "prizes": [{"prize_id": await world.prize(total=3), "count": 2}] * 2}
    assert fields_of(await world.stack.admin("POST", "/admin/draws", body)) == ["prizes[1].count"]


async def test_public_campaign_has_its_draws_and_players_see_their_tickets_until_now(world: World) -> None:
    stack, prize_id = world.stack, await world.prize(name="Car", total=1)
    await credit(world, PLAYERS)
    draw_id, cancelled = [await make_draw(world, prize_id) for _ in range(2)]
    await stack.admin("PUT", f"/admin/draws/{cancelled}", {"status": "DRAW_STATUS_CANCELLED"})
    [shown] = (await stack.consumer("GET", f"/public/campaigns/{world.campaign_id}")).data["draws"]
    assert (shown["id"], shown["prizes"]) == (draw_id, [{"prize_id": prize_id, "count": 1, "name": "Car"}])
    for player_id, tickets in (("bob", 5), ("stranger", 0)):
        me = (await stack.consumer("GET", f"/draws/{draw_id}", player=player_id)).data.get("me", {})
        assert me.get("tickets", 0) == tickets
    assert (await step(world, draw_id, "close")).code == "OK"
    await stack.admin("PUT", f"/admin/draws/{draw_id}", {"status": "DRAW_STATUS_CANCELLED"})
    shown = (await stack.consumer("GET", f"/public/campaigns/{world.campaign_id}")).data["draws"]
    assert [one["id"] for one in shown] == [draw_id], "an open one vanishes, a closed one does not: it cannot be hidden"


async def test_imported_list_gives_the_tickets_of_the_draw(world: World, tmp_path: Path) -> None:
    stack, prize_id, operator = world.stack, await world.prize(total=9), Operator(world.stack, tmp_path)
    guest = await guest_who_played(world, await world.wheel(access="public"))
    member = await log_in(stack, contact="list@example.com")
    other = await make_draw(world, prize_id)
    assert (await step(world, other, "tickets", holders=[{"player_id": "p", "tickets": 1}])).reason == "NOT_IMPORTED"
    draw_id = await make_draw(world, prize_id, tickets={"imported": True})
    async with world.database.connection() as rival, rival.transaction():
        await rival.execute("SELECT FROM draws WHERE draw_id = $1 FOR UPDATE", draw_id)
        busy = await step(world, draw_id, "tickets", holders=[{"player_id": "lea", "tickets": 3}])
        assert (busy.http, busy.reason) == (409, "IMPORT_RUNNING"), "it waits with no connection"
    assert "from 1 to 3000 players" in (await step(world, draw_id, "tickets", holders=[])).envelope["message"]
    wrong = [{"player_id": "p", "tickets": -1}, {"player_id": "p", "tickets": 10**13}, {"player_id": "<", "tickets": 1}]
    fields = fields_of(await step(world, draw_id, "tickets", holders=[*wrong, {"player_id": "lea"}]))
    at = ("0].tickets", "1].player_id", "1].tickets", "2].player_id", "3].tickets")
    assert fields == [f"holders[{field}" for field in at]
    unknown = [{"player_id": "till-1", "tickets": 1}, {"player_id": f"player_{'0' * 26}", "tickets": 1}]
    assert fields_of(await step(world, draw_id, "tickets", holders=unknown)) == ["holders[1].player_id"]
    file = operator.file(f"\ufeffplayer_id;tickets\nposted;4\n{guest.player_id};2\n{member};1\ngone;5\n", "list.csv")
    sent = await operator("draws", "tickets", draw_id, file)
    assert sent.out.strip() == "4 players set; the list has 12 tickets of 4 players"
    gone = [{"player_id": f"gone{n or ''}", "tickets": 0} for n in range(3_000)]
    assert (await step(world, draw_id, "tickets", holders=gone)).data == {"holder_count": 3, "ticket_count": 7}
    broken = await operator("draws", "tickets", draw_id, operator.file("a,1\na,2\nb,-3\n", "bad.csv"))
    assert [line in broken.err for line in ("bad.csv:2: player a", "bad.csv:3: must be")] == [True, True], broken.err
    assert (await stack.consumer("GET", f"/draws/{draw_id}", player="posted")).data["me"]["tickets"] == 4
    met = [(await stack.admin("GET", f"/admin/players/{one}")).http for one in ("posted", "till-1", "gone7")]
    assert met == [200, 404, 404], "staff can open each holder"
    assert await log_in(stack, guest, contact="list@example.com") == member
    assert (await step(world, draw_id, "close")).data["holder_count"] == 2
    late = await step(world, draw_id, "tickets", holders=[{"player_id": "late", "tickets": 1}])
    assert late.reason == "ILLEGAL_TRANSITION"
    assert sorted(line["tickets"] for line in (await evidence(world, draw_id))[1:]) == [3, 4]
    await step(world, draw_id, "draw")
    assert [bool(one["reward_id"]) for one in (await step(world, draw_id, "confirm")).data["winners"]] == [True, False]
    await world.check()
