import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.rules import REWARD_HANDLERS
from runtime.rules.handlers import probability
from tests.support.stack import Stack
from tests.support.world import COINS, WHEEL, World


async def put(world: World, path: str, **fields: Any) -> None:
    answer = await world.stack.admin("PUT", f"/admin{path}", fields)
    assert answer.http == 200, answer.envelope


Change = Callable[[World, str, str, str], Awaitable[None]]
"""(world, the game, the prize that it draws, another prize)"""


def game(**fields: Any) -> Change:
    async def change(world: World, game_id: str, prize_id: str, other_id: str) -> None:
        await put(world, f"/games/{game_id}", **fields)

    return change


def prize(**fields: Any) -> Change:
    async def change(world: World, game_id: str, prize_id: str, other_id: str) -> None:
        await put(world, f"/prizes/{prize_id}", **fields)

    return change


async def odds(world: World, game_id: str, prize_id: str, other_id: str) -> None:
    await put(world, f"/games/{game_id}", handler_config={"prizes": [{"prize_id": prize_id, "probability": 0.999999}]})


async def other_prize(world: World, game_id: str, prize_id: str, other_id: str) -> None:
    await put(world, f"/games/{game_id}", handler_config={"prizes": [{"prize_id": other_id, "probability": 1}]})


async def fallback(world: World, game_id: str, prize_id: str, other_id: str) -> None:
    await put(world, f"/games/{game_id}", on_unavailable="fallback", fallback_prize_id=other_id)


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(odds, id="odds"), pytest.param(other_prize, id="another prize")),
        *(pytest.param(prize(value=4), id="its value"), pytest.param(prize(name="A picture of a mug"), id="its name")),
        pytest.param(prize(type="voucher"), id="its type"),
        pytest.param(prize(type="points", value=1), id="points in its place"),
        pytest.param(game(on_unavailable="redraw"), id="what becomes of a prize that is gone"),
        pytest.param(fallback, id="what stands in for it"),
        pytest.param(game(reward_handler="lucky_item", handler_config=COINS), id="another handler"),
    ],
)
async def test_play_is_decided_only_by_the_promised_terms(world: World, change: Change) -> None:
    prize_id, other_id = await world.prize(total=5), await world.prize(total=5)
    game_id = await world.wheel(prize_id)
    session = await world.session(game_id)
    await change(world, game_id, prize_id, other_id)
    assert (await world.play(game_id, session)).reason == "GAME_CHANGED"
    assert [await world.stock(one) for one in (prize_id, other_id)] == [(5, 0), (5, 0)]


async def test_frozen_campaign_refuses_other_odds_and_less_stock(world: World) -> None:
    prize_id, codes_id = await world.prize(total=5), await world.prize(type="voucher", total=5)
    game_id = await world.wheel(prize_id, fallback_prize_id=codes_id, on_unavailable="fallback")
    draft = await world.wheel(prize_id, status="draft")
    await world.stack.admin("POST", f"/admin/prizes/{codes_id}/codes", {"codes": ["A-0001", "A-0002"]})
    await put(world, f"/campaigns/{world.campaign_id}", frozen=True)
    refused = [
        ("PUT", f"/games/{game_id}", {"handler_config": {"prizes": [{"prize_id": prize_id, "probability": 0.1}]}}),
        ("PUT", f"/games/{game_id}", {"rules": {"max_plays_per_day": 1}}),
        *(("PUT", f"/games/{game_id}", {"status": "draft"}), ("PUT", f"/games/{game_id}", {"status": "archived"})),
        *(("DELETE", f"/games/{game_id}", None), ("PUT", f"/prizes/{prize_id}", {"value": 4})),
        ("PUT", f"/prizes/{prize_id}", {"name": "A sticker"}),
        ("PUT", f"/prizes/{prize_id}", {"fulfillment": {"redemption_mode": "on_win", "channel": "voucher_code"}}),
        *(("PUT", f"/prizes/{prize_id}", {"terms": "none"}), ("PUT", f"/prizes/{prize_id}", {"stock": {"total": 4}})),
        ("PUT", f"/prizes/{prize_id}", {"constraints": {"max_per_user": 1}}),
        ("POST", f"/prizes/{prize_id}/stock", {"change": -1, "reason": "theirs"}),
        ("POST", f"/prizes/{codes_id}/codes/withdraw", {"all_free": True}),
        ("POST", f"/prizes/{codes_id}/codes/expiry", {"all_free": True, "expires_at": 4_000_000_000}),
        ("PUT", f"/campaigns/{world.campaign_id}", {"status": "draft"}),
        ("PUT", f"/campaigns/{world.campaign_id}", {"frozen": False}),
    ]
    answers = [(path, await world.stack.admin(verb, f"/admin{path}", body)) for verb, path, body in refused]
    assert [(path, one.reason) for path, one in answers if one.reason != "FROZEN"] == []
    assert await world.stock(prize_id) == (5, 0)
    await put(world, f"/games/{game_id}", name="Another name", status="paused")
    assert (await world.stack.admin("DELETE", f"/admin/prizes/{prize_id}")).reason == "FROZEN"
    await put(world, f"/games/{draft}", rules={"max_plays_per_day": 1})
    await put(world, f"/prizes/{prize_id}", stock={"total": 6}, description="A mug")
    await put(world, f"/campaigns/{world.campaign_id}", status="ended")
    await put(world, f"/prizes/{prize_id}", stock={"total": 1})


async def test_session_outlives_looks_stock_and_an_undone_change_of_terms(world: World) -> None:
    """So a change that was undone has decided nothing, and a session outlives it with the seed that it had."""
    prize_id = await world.prize(total=5)
    game_id = await world.wheel(prize_id)
    started = (await world.start(game_id)).data
    await put(world, f"/prizes/{prize_id}", value=4)
    assert (await world.play(game_id, started["session_id"])).reason == "GAME_CHANGED"
    await put(world, f"/prizes/{prize_id}", value=5, stock={"total": 9})
    await put(world, f"/games/{game_id}", ui={"theme": {"primary": "red"}})
    played = (await world.play(game_id, started["session_id"])).data
    assert hashlib.sha256(bytes.fromhex(played["seed"])).hexdigest() == started["seed_hash"]
    assert [won["value"] for won in played["rewards"]] == [5]


async def test_change_of_terms_is_in_the_audit_log_with_its_actor(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    await put(world, f"/games/{game_id}", on_unavailable="redraw")
    entries = (await world.stack.admin("GET", "/admin/audit", subject_id=game_id)).data["items"]
    (entry,) = [one for one in entries if one["action"] == "game.update"]
    assert entry["actor"] == "staff_test"
    assert [entry[side]["definition"]["on_unavailable"] for side in ("before", "after")] == ["lose", "redraw"]


@pytest.mark.parametrize("limit", [{"stock": {"total": 1}}, {"constraints": {"max_per_day": 1}}])
async def test_history_names_a_withheld_prize(world: World, limit: dict[str, Any]) -> None:
    """The promise excludes stock and caps: if they run out after the start, the published policy decides."""
    prize_id = await world.prize(total=5)
    game_id = await world.wheel(prize_id)
    await world.round(game_id, "bob")
    session = await world.session(game_id)
    await put(world, f"/prizes/{prize_id}", **limit)
    assert (await world.play(game_id, session)).data["rewards"] == []
    (play,) = (await world.history(game_id))["items"]
    assert play["unavailable"] == [prize_id]
    entries = (await world.stack.admin("GET", "/admin/audit", subject_id=prize_id)).data["items"]
    assert "prize.update" in {entry["action"] for entry in entries}


@pytest.mark.parametrize(("path", "status"), [("/games/{}", "paused"), ("/players/ann", "suspended")])
async def test_refused_play_keeps_its_draw_on_retry(world: World, path: str, status: str) -> None:
    """Refusing a winning draw does not redraw: the session keeps its seed."""
    game_id = await world.wheel(await world.prize(total=5), await world.prize(total=5))
    started = (await world.start(game_id)).data
    await put(world, path.format(game_id), status=status)
    refused = await world.play(game_id, started["session_id"], client_seed="mine")
    assert refused.reason in ("GAME_INACTIVE", "SUSPENDED") and "seed" not in refused.envelope["data"]
    await put(world, path.format(game_id), status="active")
    played = (await world.play(game_id, started["session_id"], client_seed="mine")).data
    assert hashlib.sha256(bytes.fromhex(played["seed"])).hexdigest() == started["seed_hash"]


async def test_replay_detects_a_handler_whose_code_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terms name the handler but exclude its code, so only a replay detects a change."""
    play_id = (await world.round(await world.wheel(await world.prize()))).data["play_id"]
    decide = probability.decide

    def cheat(attempt: Any) -> Any:
        outcome = decide(attempt)
        outcome.awards.clear()
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(probability, "decide", cheat)
        assert not (await world.replay(play_id)).matches
    assert (await world.replay(play_id)).matches


async def test_replay_of_a_removed_handler_is_refused_as_such(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    play_id = (await world.round(await world.game(WHEEL, {"prizes": []}))).data["play_id"]
    with monkeypatch.context() as patched:
        patched.delitem(REWARD_HANDLERS._things, "probability")
        reply = await world.replay(play_id)
    assert not reply.matches and "reward_handler" in reply.replayed["mismatch"]


async def test_replay_ignores_the_current_configuration_rows(world: World, module_stack: Stack) -> None:
    """A replay uses the promised terms, so later changes of the game do not affect it."""
    prize_id = await world.prize()
    game_id = await world.wheel(prize_id)
    started = (await world.start(game_id)).data
    play_id = (await world.play(game_id, started["session_id"], client_seed="mine")).data["play_id"]
    await put(world, f"/games/{game_id}", handler_config={"prizes": [{"prize_id": prize_id, "probability": 0}]})
    await put(world, f"/prizes/{prize_id}", value=1, name="Less")
    await module_stack.database.execute(
        "UPDATE game_revisions SET definition = jsonb_set(definition, '{handler_config,prizes}', '[]')"
        " WHERE game_id = $1",
        game_id,
    )
    reply = await world.replay(play_id)
    assert reply.matches
    assert hashlib.sha256(reply.terms.encode()).hexdigest() == started["revision_hash"] == reply.play.revision_hash
    assert reply.commitment == started["commitment"]
