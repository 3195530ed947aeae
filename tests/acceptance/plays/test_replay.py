"""ReplayPlay: a play decided again from its row alone, byte for byte; and one that was tampered with shows."""

from __future__ import annotations

from typing import Any

from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World


async def shapes(world: World) -> list[tuple[str, Any]]:
    """(game, payload) of one game of every shape, each with a prize that runs out on the way."""
    scarce = [await world.prize(total=2) for _ in range(3)]
    stand_in = await world.prize()
    pool = [{"prize_id": prize_id, "probability": 0.3} for prize_id in scarce]
    drops = [{"type": "gold", "prize_id": scarce[0], "frequency": 1, "max_catchable": 2}]
    tiers = {"tiers": [{"min": 0, "max": 9, "prize_group": "all"}], "prize_groups": {"all": pool}}
    return [
        (await world.game(WHEEL, {"prizes": pool}), {}),
        (await world.game(WHEEL, {"prizes": pool}, on_unavailable="redraw"), {}),
        (await world.game(WHEEL, {"prizes": pool}, on_unavailable="fallback", fallback_prize_id=stand_in), {}),
        (await world.game(EGGS, tiers), {"score": 5, "duration_ms": 10}),
        (
            await world.game(GIFTS, {"drops": drops, "total_items": 3, "interval_ms": 1}),
            {"caught_items": ["item_2", "item_0"]},
        ),
        (await world.game(COLLECTION, COINS), {}),
    ]


async def test_replay_of_every_shape_matches(world: World) -> None:
    for game_id, payload in await shapes(world):
        for nth in range(6):
            told = (await world.round(game_id, payload=payload, client_seed=f"s{nth}")).data
            reply = await world.replay(told["play_id"])
            assert (reply.matches, reply.player_id, reply.payload) == (True, "ann", payload)
            assert reply.play.seed == told["seed"]


TAMPERINGS = (
    "outcome = replace(outcome::text, 'prize_0', 'prize_9')::json",
    "seed = sha256(seed)",
    "client_seed = client_seed || 'x'",
    # In the text: jsonb would turn the order of names, which alone is another outcome.
    """outcome = replace(outcome::text, '"score":0', '"score":7')::json""",
    """outcome = replace(outcome::text, '"value":5.0', '"value":9.0')::json""",
    """outcome = replace(outcome::text, '"quantity":1,"value"', '"quantity":2,"value"')::json""",
    """outcome = regexp_replace(outcome::text, '"rewards":\\[.*?\\]', '"rewards":[]')::json""",
    "session_id = overlay(session_id placing repeat('0', 32) from strpos(session_id, '.') + 3)",
)


async def test_replay_of_a_tampered_play_does_not_match(world: World) -> None:
    play_id = (await world.round(await world.wheel(await world.prize()))).data["play_id"]
    columns = "outcome, seed, client_seed, session_id"
    read = f"SELECT {columns} FROM plays WHERE play_id = $1"
    row = await world.database.fetchrow(read, play_id)
    assert row is not None
    missed = []
    for tampering in TAMPERINGS:
        await world.database.execute(f"UPDATE plays SET {tampering} WHERE play_id = $1", play_id)
        if await world.database.fetchrow(read, play_id) == row or (await world.replay(play_id)).matches:
            missed.append(tampering)
        restore = f"UPDATE plays SET ({columns}) = ($2, $3, $4, $5) WHERE play_id = $1"
        await world.database.execute(restore, play_id, *row.values())
    assert missed == []
