"""A replica of Valkey that had fallen behind, promoted beside players: what it never knew is not done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.servers.base import write_private
from ops.servers.valkey import Valkey
from tests.support.address import Address
from tests.support.stack import new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import new_world

PLAYERS = [f"p{nth}" for nth in range(12)]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Valkey, Valkey]]:
    primary, replica = Valkey(tmp_path / "one" / "valkey"), Valkey(tmp_path / "two" / "valkey")
    for server in (primary, replica):
        server.data_dir.parent.mkdir()
    write_private(tmp_path / "two" / "valkey.password", primary.password)
    for server in (primary, replica):
        server.start()
    replica.command("CONFIG", "SET", "masterauth", primary.password)
    replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
    yield primary, replica
    for server in (primary, replica):
        server.stop()


@pytest.mark.fault(
    "Stale Valkey replica promoted, cluster slot moved", size="12 players", figure="same answers, 2 plays a player"
)
async def test_promoted_stale_replica_repeats_no_play(database_url: str, servers: tuple[Valkey, Valkey]) -> None:
    primary, replica = servers

    async def follows() -> bool:
        return b"master_link_status:up" in replica.command("INFO", "replication")

    await until(follows)
    address = Address(primary.port)
    async with address.serving() as port:
        url = primary.url.replace(f":{primary.port}/", f":{port}/")
        async with new_stack(settings_of(database_url, url)) as stack, new_world(stack) as world:
            prize_id = await world.prize(total=10, fulfillment={"redemption_mode": "on_claim"})
            game_id = await world.wheel(prize_id, rules={"max_plays_per_user": 2})
            sessions = {player: await world.session(game_id, player) for player in PLAYERS}
            replica.command("REPLICAOF", "NO", "ONE")  # What happens from here on it does not know of.
            plays = {
                player: await world.play(game_id, session, player, key=f"play {player}")
                for player, session in sessions.items()
            }
            assert {answer.http for answer in plays.values()} == {200}
            won = {player: answer.data["rewards"][0] for player, answer in plays.items() if answer.data["rewards"]}
            assert len(won) == 10

            async def claim(player: str) -> Any:
                headers = {"Idempotency-Key": f"claim {player}"}
                path = f"/rewards/{won[player]['reward_id']}/claim"
                return (await stack.consumer("POST", path, {}, player=player, headers=headers)).data

            claims = {player: await claim(player) for player in won}
            await asyncio.to_thread(primary.kill)
            address.point_to(replica.port)
            for player, session in sessions.items():
                again = await world.play(game_id, session, player, key=f"play {player}")
                assert again.data == plays[player].data
                assert (await world.play(game_id, session, player, key="another")).reason == "SESSION_PLAYED"
            for player, told in claims.items():
                assert await claim(player) == told
            rounds = await asyncio.gather(*(world.round(game_id, player) for player in PLAYERS))
            assert {answer.http for answer in rounds} == {200}
            assert {(await world.start(game_id, player)).reason for player in PLAYERS} == {"CAP_USER"}
            assert await world.stock(prize_id) == (0, 10)
            assert len(await world.plays()) == 2 * len(PLAYERS)
