import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.merkle_log import append, found, new_witness, problems, tamper
from tests.support.operator import Operator
from tests.support.stack import fields_of
from tests.support.waiting import until
from tests.support.world import World, prize_ids


@pytest.fixture(scope="module")
def module_extra_settings() -> dict[str, Any]:
    return {"merkle_log": "promo.example.com"}


async def check_dossier(world: World, tombola: Operator) -> str:
    """What `tombola verify` says of the campaign's dossier, as it is now."""
    words = ("--consumer-url", world.stack.process.consumer_url)
    written = await tombola("campaigns", "dossier", world.campaign_id, "dossier.jsonl", *words)
    assert written.code == 0, written.err
    return (await tombola("verify", "dossier.jsonl")).out


async def change_a_row(world: World, tombola: Operator, change: str, row: str, wrong: Any, right: Any) -> None:
    """Changes a row behind the service: witness, auditor and dossier name it."""
    await append(world.stack)
    witness = await new_witness(world.stack)
    await tamper(world.stack, change, row.partition(" ")[2], wrong)
    assert await problems(world.stack, witness, whole=True) != []
    assert row in {one for _, one in await found(world.stack)}
    assert "FAILED" in await check_dossier(world, tombola)
    await tamper(world.stack, change, row.partition(" ")[2], right)


async def test_official_checks_a_promotion_with_sealed_moments(world: World, tmp_path: Path) -> None:
    stack, tombola, ends = world.stack, Operator(world.stack, tmp_path), int(time.time()) + 4
    sealed = {"kind": "SEALED", "units": 3, "starts_at": ends - 3_600, "ends_at": ends}
    vespa = await world.prize(name="Vespa", total=3, release=sealed)
    game_id = await world.game({"type": "scratch_card", "reward_handler": "moments"}, {"prizes": [{"prize_id": vespa}]})
    won: list[str] = []
    for nth in range(9):
        if nth == 6:
            await until(lambda: stack.engine.clock.now() > ends)  # From here on every unit is free.
        won += prize_ids(await world.round(game_id, f"player{nth}"))
    assert won == [vespa] * 3, "every unit goes if a play follows"
    assert "9 plays follow" in (said := await check_dossier(world, tombola)) and "3 prizes were won after" in said
    assert not re.search("FAILED|prizes that they drew|schedules", said), "and each of the plays in vain was right"
    assert (await tombola("export", "winners", "--campaign", world.campaign_id)).out.count("Vespa") == 3
    reward = await world.database.fetchval("SELECT min(reward_id) FROM rewards WHERE prize_id = $1", vespa)
    change = "UPDATE rewards SET value = $3 WHERE tenant_id = $1 AND reward_id = $2"
    await change_a_row(world, tombola, change, f"reward {reward}", 99, 5)


@pytest.mark.fault(
    "A row of plays, awards or draws changed in Postgres", size="a draw's result", figure="named by all who check"
)
async def test_official_checks_a_raffle_with_a_public_number(world: World, tmp_path: Path) -> None:
    stack, tombola, published = world.stack, Operator(world.stack, tmp_path), int(time.time()) + 8
    lottery = {"kind": "DECLARED", "source": "Lotto 6 of 49, Saturday, in ascending order", "at": published}
    body: dict[str, Any] = {"campaign_id": world.campaign_id, "name": "Raffle", "tickets": {"imported": True}}
    body |= {"prizes": [{"prize_id": await world.prize(total=1), "count": 1}], "alternates": 2, "randomness": lottery}
    path, late = [f"/admin/draws/{(await stack.admin('POST', '/admin/draws', body)).data['id']}" for _ in range(2)]
    draw_id = path.rpartition("/")[2]
    tickets = tombola.file("".join(f"till-{nth},{nth}\n" for nth in range(1, 41)), "tills.csv")
    assert (await tombola("draws", "tickets", draw_id, tickets)).code == 0
    root = (await stack.admin("POST", f"{path}/close", {})).data["tickets_root"]
    early = await stack.admin("POST", f"{path}/draw", {"value": "3 9 17 28 33 41"})
    assert (early.reason, early.envelope["data"]["available_at"]) == ("RANDOMNESS_PENDING", published)
    await until(lambda: stack.engine.clock.now() > published)
    assert fields_of(await stack.admin("POST", f"{path}/draw", {})) == ["value"]
    drawn = (await stack.admin("POST", f"{path}/draw", {"value": " 3 9 17 28 33 41 "})).data
    assert drawn["randomness"]["value"] == "3917283341"
    assert (await stack.admin("POST", f"{late}/close", {})).reason == "RANDOMNESS_KNOWN"
    await world.database.execute("UPDATE draws SET closes_at = now() WHERE draw_id = $1", late.rpartition("/")[2])
    assert (await stack.admin("PUT", late, {"randomness": {**lottery, "at": published + 3600}})).code == "OK"
    two = [{**body["prizes"][0], "count": 2}]
    assert fields_of(await stack.admin("PUT", late, {"prizes": two})) == ["prizes[0].count"]
    confirmed = (await stack.admin("POST", f"{path}/confirm", {})).data
    url = f"{stack.process.consumer_url}/api/v1/draws/{draw_id}/file"
    async with stack.http.get(url, headers={"X-Tenant-Id": stack.tenant_id}) as answer:
        tombola.file(await answer.text(), "draw.jsonl")
    checked = await tombola("draws", "verify", "draw.jsonl", "--root", root)
    assert (checked.code, "FAILED" in checked.out, "compare it with 'Lotto" in checked.out) == (0, False, True)
    other = await tombola("verify", "draw.jsonl")
    assert other.code == 3 and "use `tombola draws verify`" in other.err
    assert "FAILED" not in await check_dossier(world, tombola)
    change = "UPDATE draws SET result_hash = $3 WHERE tenant_id = $1 AND draw_id = $2"
    await change_a_row(world, tombola, change, f"draw {draw_id}", "00", confirmed["result_hash"])
