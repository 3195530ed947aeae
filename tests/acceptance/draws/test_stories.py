"""Two promotions from their first terms to the official's check: sealed moments, and a raffle with a public number."""

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from runtime.rules import release
from tests.support.merkle_log import append, found, new_witness, problems, tamper
from tests.support.operator import Operator
from tests.support.waiting import until
from tests.support.world import World, prize_ids

NOTARY: Final = X25519PrivateKey.generate()


@pytest.fixture(scope="module")
def module_extra_settings() -> dict[str, Any]:
    public = NOTARY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return {"merkle_log": "promo.example.com", "notary_key": base64.b64encode(public).decode()}


async def dossier(world: World, tombola: Operator) -> str:
    """What `tombola verify` says of the campaign's dossier, as it is now."""
    words = ("--consumer-url", world.stack.process.consumer_url)
    written = await tombola("campaigns", "dossier", world.campaign_id, "dossier.jsonl", *words)
    assert written.code == 0, written.err
    return (await tombola("verify", "dossier.jsonl")).out


async def test_official_checks_a_promotion_with_sealed_moments(world: World, tmp_path: Path) -> None:
    stack, tombola, ends = world.stack, Operator(world.stack, tmp_path), int(time.time()) + 4
    sealed = {"kind": "SEALED", "units": 3, "starts_at": ends - 3_600, "ends_at": ends}
    vespa = await world.prize(name="Vespa", total=3, release=sealed)
    deposited = (await stack.admin("GET", f"/admin/prizes/{vespa}")).data["release"]
    game_id = await world.game({"type": "scratch_card", "reward_handler": "moments"}, {"prizes": [{"prize_id": vespa}]})
    won: list[float] = []
    for nth in range(9):
        if nth == 6:
            await until(lambda: stack.engine.clock.now() > ends)  # From here on every unit is free.
        answer = await world.round(game_id, f"player{nth}")
        won += [stack.engine.clock.now()] * len(prize_ids(answer))
    assert len(won) == 3, "every unit goes if a play follows"
    opened = (await stack.admin("GET", f"/admin/prizes/{vespa}")).data["release"]["opening"]
    key = NOTARY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    files = [tombola.file(text, name) for text, name in ((deposited["notary_copy"], "copy"), (key, "key.pem"))]
    assert (await tombola("keys", "open", files[0], "--key", files[1])).out.strip() == opened
    assert release.commitment(opened) == deposited["commitment"]
    revealed = json.loads(opened)
    instants = sorted(release.sealed_instants(revealed["release"], bytes.fromhex(revealed["seed"])))
    assert [at > instant for at, instant in zip(won, instants, strict=True)] == [True] * 3
    assert "9 plays follow" in (said := await dossier(world, tombola)) and "FAILED" not in said
    assert (await tombola("export", "winners", "--campaign", world.campaign_id)).out.count("Vespa") == 3
    await append(stack)
    witness = await new_witness(stack)
    reward = await world.database.fetchval("SELECT min(reward_id) FROM rewards WHERE prize_id = $1", vespa)
    change = "UPDATE rewards SET value = $3 WHERE tenant_id = $1 AND reward_id = $2"
    await tamper(stack, change, reward, 99)
    assert await problems(stack, witness, whole=True) != []
    assert f"reward {reward}" in {row for _, row in await found(stack)}
    assert "FAILED" in await dossier(world, tombola)
    await tamper(stack, change, reward, 5)


async def test_official_checks_a_raffle_with_a_public_number(world: World, tmp_path: Path) -> None:
    stack, tombola, published = world.stack, Operator(world.stack, tmp_path), int(time.time()) + 4
    car = await world.prize(name="Car", total=1)
    lottery = {"kind": "DECLARED", "source": "Lotto 6 of 49, Saturday, in ascending order", "at": published}
    body: dict[str, Any] = {"campaign_id": world.campaign_id, "name": "Raffle", "tickets": {"imported": True}}
    body |= {"prizes": [{"prize_id": car, "count": 1}], "alternates": 2, "randomness": lottery}
    draw_id = (await stack.admin("POST", "/admin/draws", body)).data["id"]
    tickets = tombola.file("".join(f"till-{nth},{nth}\n" for nth in range(1, 41)), "tills.csv")
    assert (await tombola("draws", "tickets", draw_id, tickets)).code == 0
    path = f"/admin/draws/{draw_id}"
    root = (await stack.admin("POST", f"{path}/close", {})).data["tickets_root"]
    await until(lambda: stack.engine.clock.now() > published)
    assert (await stack.admin("POST", f"{path}/draw", {"value": "3 9 17 28 33 41"})).code == "OK"
    drawn = (await stack.admin("POST", f"{path}/confirm", {})).data
    async with stack.http.get(
        f"{stack.process.consumer_url}/api/v1/draws/{draw_id}/file", headers={"X-Tenant-Id": stack.tenant_id}
    ) as answer:
        tombola.file(await answer.text(), "draw.jsonl")
    checked = await tombola("draws", "verify", "draw.jsonl", "--root", root)
    assert (checked.code, "FAILED" in checked.out, "compare it with 'Lotto" in checked.out) == (0, False, True)
    said = await dossier(world, tombola)
    assert "FAILED" not in said
    await append(stack)
    witness = await new_witness(stack)
    result = "UPDATE draws SET result_hash = $3 WHERE tenant_id = $1 AND draw_id = $2"
    await tamper(stack, result, draw_id, "00")
    assert await problems(stack, witness, whole=True) != []
    assert f"draw {draw_id}" in {row for _, row in await found(stack)}
    assert "FAILED" in await dossier(world, tombola)
    await tamper(stack, result, draw_id, drawn["result_hash"])
