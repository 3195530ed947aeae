import asyncio
import base64
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from runtime.operations.games import released
from runtime.operations.prizes.release import opened as opened_at
from runtime.operations.reporting.exports import EXPORTS
from runtime.rules import release
from runtime.rules.log.tiles import Tile
from runtime.settings import Settings
from tests.support.merkle_log import append
from tests.support.operator import Operator
from tests.support.stack import fields_of, refused
from tests.support.tables import everything_in
from tests.support.waiting import until
from tests.support.world import World, prize_ids

pytestmark = pytest.mark.settings(show_odds=True, merkle_log="promo.example")

MOMENTS = {"type": "scratch_card", "reward_handler": "moments"}


async def game(world: World, prize_id: str) -> str:
    return await world.game(MOMENTS, {"prizes": [{"prize_id": prize_id}]})


async def prize(world: World, prize_id: str) -> dict[str, Any]:
    return dict((await world.stack.admin("GET", f"/admin/prizes/{prize_id}")).data)


def listed(*times: tuple[float, int]) -> dict[str, Any]:
    return {"kind": "TIMES", "times": [{"at": int(at), "units": units} for at, units in times]}


async def test_racing_plays_win_each_free_unit_once(world: World) -> None:
    prize_id = await world.prize(total=9, release=listed((1, 5), (time.time() + 3600, 4)))
    games = [await game(world, prize_id) for _ in range(2)]
    players = [f"player{n}" for n in range(200)]
    sessions = await asyncio.gather(*(world.session(games[n % 2], player) for n, player in enumerate(players)))
    answers = await asyncio.gather(*(world.play(games[n % 2], sessions[n], player) for n, player in enumerate(players)))
    assert sum(len(prize_ids(answer)) for answer in answers) == 5
    assert await world.stock(prize_id) == (4, 5)


async def test_notary_alone_reads_sealed_times(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack, operator = world.stack, Operator(world.stack, tmp_path)
    notary, other = [X25519PrivateKey.generate() for _ in range(2)]
    public = notary.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    settings = Settings.from_env({"NOTARY_KEY": base64.b64encode(public).decode()})
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, notary_key=settings.notary_key))
    starts = int(time.time()) - 1000
    sealed = {"kind": "SEALED", "units": 20, "starts_at": starts, "ends_at": starts + 10**6}
    prize_id = await world.prize(total=20, release=sealed, campaign_id=world.campaign_id)
    game_id = await game(world, prize_id)
    shown = await prize(world, prize_id)
    answers = [started := await world.start(game_id), await world.play(game_id, started.data["session_id"])]
    reads = [f"/games/{game_id}/render", f"/games/{game_id}/history/me", f"/revisions/{started.data['revision_hash']}"]
    for path in (*reads, f"/public/campaigns/{world.campaign_id}"):
        answers.append(await stack.consumer("GET", path, player="ann"))
    assert [answer.code for answer in answers] == ["OK"] * 6
    texts = [json.dumps([shown, *(answer.envelope for answer in answers)])]
    await append(stack)
    size = (await stack.admin("GET", "/admin/log")).data["checkpoint_size"]
    tiles = [Tile(0, at // 256, min(256, size - at), entries=True) for at in range(0, size, 256)]
    paths = ["/prizes", "/audit", f"/games/{game_id}", f"/games/{game_id}/forecast?plays=9"]
    paths += [*(f"/log/{one.path}" for one in tiles), *(f"/exports/{name}?format=jsonl" for name in EXPORTS)]
    urls = [f"{stack.process.admin_url}/api/v1/admin{path}" for path in paths]
    urls += [
        f"{stack.process.consumer_url}/p/{game_id}?tenant_id={stack.tenant_id}",
        stack.process.metrics_url + "/metrics",
    ]
    headers = {"Authorization": f"Bearer {stack.token('staff', ('admin',))}"}
    for url in urls:
        async with stack.http.get(url, headers=headers) as answer:
            texts.append(await answer.text(errors="replace"))
            assert answer.status == 200, url
    for words in (("export",), ("dossier", "--consumer-url", stack.process.consumer_url)):
        ran = await operator("campaigns", words[0], world.campaign_id, words[0], *words[1:])
        texts += [ran.out, ran.err, (tmp_path / words[0]).read_text()]
    for row in await world.database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        found = await world.database.fetch(f"SELECT t::text AS line FROM {row['tablename']} AS t")
        texts += [one["line"] for one in found]
    async with redis.asyncio.Redis.from_url(stack.process.settings.redis_url) as valkey:
        texts += [*(await everything_in(valkey)).values(), capsys.readouterr().out]  # With the published events.
    column = await world.database.fetchval("SELECT release FROM prizes WHERE prize_id = $1", prize_id)
    opened = json.loads(opened_at(stack.engine.keyring.server, stack.tenant_id, prize_id, column, 2**40))
    secrets = [opened["seed"]]
    for instant in release.sealed_instants(column["terms"], bytes.fromhex(opened["seed"])):
        secrets += [f"{instant:.3f}", str(int(instant * 1000)), str(int(instant))]
        secrets.append(datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")[:19])
    assert [secret for secret in secrets if any(secret in text for text in texts)] == []
    keys = [one.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode() for one in (notary, other)]
    copy, *files = [operator.file(text, f"{n}") for n, text in enumerate((shown["release"]["notary_copy"], *keys))]
    read, wrong = [await operator("keys", "open", copy, "--key", file) for file in files]
    assert (json.loads(read.out), shown["release"]["commitment"] in read.err) == (opened, True)
    assert "not for this key" in wrong.err


async def test_release_that_was_replaced_is_opened_too(world: World) -> None:
    ends = int(time.time()) + 2
    sealed = {"kind": "SEALED", "units": 3, "starts_at": ends - 100, "ends_at": ends}
    prize_id = await world.prize(total=3, release=sealed)
    first = (await world.start(await game(world, prize_id))).data["revision_hash"]
    path = f"/admin/prizes/{prize_id}"
    for body in ({"unlimited": True}, {"total": 1}, {"change": -1}):
        assert fields_of(await world.stack.admin("POST", f"{path}/stock", {**body, "reason": "x"})) == [*body]
    await world.database.execute("UPDATE stock SET total = 1, remaining = 1 WHERE prize_id = $1", prize_id)
    assert (await world.stack.admin("POST", f"{path}/stock", {"change": 1, "reason": "x"})).code == "OK"
    undo = "WITH gone AS (DELETE FROM stock_moves WHERE prize_id = $1) UPDATE stock SET total = 3, remaining = 3"
    await world.database.execute(f"{undo} WHERE prize_id = $1", prize_id)
    assert (await world.stack.admin("PUT", path, {"release": {"kind": "NONE"}})).code == "OK"
    await until(lambda: world.stack.admin("GET", f"/admin/revisions/{first}"), lambda it: len(it.data["openings"]) == 1)


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        *(({"kind": "LATER"}, ["release.kind"]), ({"kind": "TIMES"}, ["release.times", "release.units"])),
        ({"kind": "TIMES", "times": [{"at": 5, "units": 6}]}, ["release.units"]),
        ({"kind": "EVEN", "starts_at": 10, "ends_at": 10}, ["release.ends_at"]),
        ({"kind": "EVEN", "starts_at": 10, "ends_at": 20, "timezone": "Mars"}, ["release.timezone"]),
        (
            {"kind": "EVEN", "starts_at": 10, "ends_at": 20, "hours": [{"weekdays": [8], "to_hour": 25}]},
            ["release.hours[0].to_hour", "release.hours[0].weekdays"],
        ),
        (
            {"kind": "SEALED", "starts_at": 10, "ends_at": 20, "hours": [{"weekdays": [6], "to_hour": 3}]},
            ["release.hours"],
        ),
    ],
)
async def test_impossible_release_is_refused(world: World, schedule: dict[str, Any], fields: list[str]) -> None:
    body = {"name": "Mug", "stock": {"total": 5}, "release": schedule}
    answer = await world.stack.admin("POST", "/admin/prizes", body)
    assert refused(answer)[0] == 400
    assert sorted(violation["field"] for violation in answer.envelope["data"]["violations"]) == fields


async def test_game_has_a_bounded_number_of_released_prizes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "RELEASED_MAX", 1)
    first, second, other = [await world.prize(total=5, release=one) for one in (listed((1, 5)), None, listed((1, 5)))]
    game_id = await world.wheel(first, second)
    answer = await world.stack.admin("PUT", f"/admin/prizes/{second}", {"release": listed((1, 5))})
    assert "at most 1 prizes with a release" in str(answer.envelope["data"]["violations"])
    config = {"prizes": [{"prize_id": one, "probability": 0.5} for one in (first, other)]}
    answer = await world.stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})
    assert answer.envelope["data"]["violations"][0]["field"] == "handler_config"


async def test_release_can_be_changed_and_removed(world: World) -> None:
    prize_id = await world.prize(total=5, release=listed((1, 2), (2**31, 3)))
    first = (await prize(world, prize_id))["release"]
    path = f"/admin/prizes/{prize_id}"
    same = (await world.stack.admin("PUT", path, {"name": "Cup", "release": listed((1, 2), (2**31, 3))})).data
    assert same["release"]["commitment"] == first["commitment"]
    other = (await world.stack.admin("PUT", path, {"release": listed((1, 3), (2**31, 2))})).data
    assert other["release"]["commitment"] != first["commitment"]
    assert (await world.stack.admin("PUT", path, {"release": {"kind": "NONE"}})).data["release"] is None
