"""A rule that breaks, as a plugin's may: what becomes of the plays that are decided with the one it breaks over."""

import asyncio

import pytest

from runtime import messages as m
from runtime.actors.game.batch import process_batch
from runtime.actors.game.cache import GameCache
from runtime.actors.game.sessions import open_session
from runtime.actors.mailbox import Work
from runtime.rules import Attempt, Outcome, Words
from runtime.rules.handlers import probability
from tests.support.world import World


async def decided(actor: GameCache, *requests: m.StartRequest | m.PlayRequest) -> list[object]:
    works = [Work(request, asyncio.get_running_loop().create_future()) for request in requests]
    await process_batch(actor, works)
    return await asyncio.gather(*(work.future for work in works), return_exceptions=True)


def first_word(world: World, game_id: str, play: m.PlayRequest) -> float:
    engine = world.stack.engine
    opened = open_session(engine.keyring.server, world.stack.tenant_id, game_id, play.session_id)
    return Words(opened.seed, "").word(0)


async def test_rule_error_fails_only_its_own_play(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's rule may raise. Plays decided before it are not committed and must not stay in the cache."""
    prize_id, decide = await world.prize(total=9), probability.decide
    game_id = await world.wheel(prize_id, rules={"max_plays_per_user": 1})
    actor = GameCache(world.stack.engine, (world.stack.tenant_id, game_id))
    who = {"scope": m.Scope(tenant_id=world.stack.tenant_id), "id": game_id}
    players = [f"p{nth}" for nth in range(5)]
    opened = await decided(actor, *(m.StartRequest(**who, player_id=one) for one in players))
    plays = [
        m.PlayRequest(**who, player_id=one, session_id=start.session_id)
        for one, start in zip(players, opened, strict=True)
        if isinstance(start, m.StartReply)
    ]
    broken = first_word(world, game_id, plays[2])

    def breaks(attempt: Attempt) -> Outcome:
        if attempt.words.word(0) == broken:
            raise ZeroDivisionError("a plugin's mistake")
        return decide(attempt)

    monkeypatch.setattr(probability, "decide", breaks)
    done = await decided(actor, *plays)
    assert [type(one) for one in done] == [m.PlayReply, m.PlayReply, ZeroDivisionError, m.PlayReply, m.PlayReply]
    assert all(one.rewards for one in done if isinstance(one, m.PlayReply))
    assert await world.stock(prize_id) == (5, 4)
    monkeypatch.undo()
    (again,) = await decided(actor, plays[2])
    assert isinstance(again, m.PlayReply) and again.rewards  # It used up nothing.
