import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.rules import (
    REWARD_HANDLERS,
    Attempt,
    Award,
    Credit,
    Drop,
    GameRule,
    Outcome,
    ReplayMismatch,
    Words,
    drop_sequence,
    replay,
)

PRIZE_IDS = ["prize_a", "prize_b", "prize_c", "prize_d", "prize_f"]


@st.composite
def _chances(draw: st.DrawFn) -> list[dict[str, Any]]:
    weights = draw(st.lists(st.integers(0, 1000), max_size=8))
    whole = sum(weights) + draw(st.integers(0, 1000)) or 1
    return [{"prize_id": draw(st.sampled_from(PRIZE_IDS)), "probability": weight / whole} for weight in weights]


@st.composite
def _games(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    handler = draw(st.sampled_from(REWARD_HANDLERS.names()))
    if handler == "probability":
        return handler, {"prizes": draw(_chances())}
    if handler == "moments":
        prize_ids = draw(st.lists(st.sampled_from(PRIZE_IDS), min_size=1, max_size=8))
        return handler, {"prizes": [{"prize_id": prize_id} for prize_id in prize_ids]}
    if handler == "score_to_tier":
        ends = sorted(draw(st.sets(st.integers(0, 100), min_size=2, max_size=6)))
        tiers = [
            {"min": low, "max": high, "prize_group": draw(st.sampled_from(["gold", "silver"]))}
            for low, high in zip(ends[::2], ends[1::2], strict=False)
        ]
        return handler, {"tiers": tiers, "prize_groups": {"gold": draw(_chances()), "silver": draw(_chances())}}
    if handler == "lucky_item":
        weights = draw(st.lists(st.floats(0, 1e12), min_size=1, max_size=8).filter(any))
        items = [{"item": f"item_{i}", "weight": w, "quantity": i + 1, "slot_index": i} for i, w in enumerate(weights)]
        return handler, {"items": items}
    frequencies = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any))
    ids, most = st.sampled_from(["", *PRIZE_IDS]), st.integers(0, 9)
    drops = [
        {"type": f"type_{i}", "prize_id": draw(ids), "frequency": frequency, "max_catchable": draw(most)}
        for i, frequency in enumerate(frequencies)
    ]
    return handler, {"drops": drops, "total_items": draw(st.integers(1, 40)), "interval_ms": 100}


_RULES = st.builds(
    GameRule,
    on_unavailable=st.sampled_from(["lose", "redraw", "fallback"]),
    fallback_prize_id=st.sampled_from(["", *PRIZE_IDS]),
    segments=st.none() | st.lists(st.none() | st.sampled_from(PRIZE_IDS), max_size=8).map(tuple),
)
_STOCKS = st.dictionaries(st.sampled_from(PRIZE_IDS), st.integers(0, 6))


def _payload(handler: str, plan: tuple[Drop, ...], word: float) -> dict[str, Any]:
    if handler == "score_to_tier":
        return {"score": int(word * 101), "duration_ms": 1000}
    if handler == "collect_items":
        return {"caught_items": [drop.id for drop in plan[: int(word * (len(plan) + 1))]]}
    return {}


def _decide(
    handler: str,
    config: Any,
    game: GameRule,
    words: Words,
    payload: Mapping[str, Any],
    plan: Any,
    stock: dict[str, int],
) -> Outcome:
    attempt = Attempt(config, game, words, payload, plan, lambda prize_id, n: stock.get(prize_id, n) >= n)
    return REWARD_HANDLERS.require(handler, "").decide(attempt)


@given(_games(), _RULES, _STOCKS, st.binary(min_size=32, max_size=32), st.text(max_size=10), st.floats(0, 1))
def test_play_replays_byte_for_byte(
    named: tuple[str, dict[str, Any]], game: GameRule, stock: dict[str, int], seed: bytes, client_seed: str, luck: float
) -> None:
    handler, raw = named
    rules = REWARD_HANDLERS.require(handler, "")
    config = rules.parse(raw)
    plan = drop_sequence.plan(config, seed) if handler == "collect_items" else ()
    payload = _payload(handler, plan, luck)
    first = _decide(handler, config, game, Words(seed, client_seed), payload, plan, stock)
    again = _decide(handler, rules.parse(raw), game, Words(seed, client_seed), payload, plan, stock)
    kept_path = json.loads(msgspec.json.encode(first.path))
    replayed = replay(
        rules, rules.parse(raw), game, seed=seed, client_seed=client_seed, payload=payload, plan=plan, path=kept_path
    )
    assert msgspec.json.encode(first) == msgspec.json.encode(again) == msgspec.json.encode(replayed)
    taken = Counter[str]()
    for award in first.awards:
        assert award.quantity > 0
        taken[award.prize_id] += award.quantity
    assert len(taken) == len(first.awards)
    assert all(taken[prize_id] <= stock.get(prize_id, taken[prize_id]) for prize_id in taken)
    assert set(taken) <= {prize_id for _, prize_id in rules.prizes(config)} | {game.fallback_prize_id}
    assert {credit.item for credit in first.credits} <= set(rules.currencies(config))


@given(_games(), _RULES, _STOCKS, st.binary(min_size=32, max_size=32), st.floats(0, 1), st.permutations(range(5)))
def test_play_gives_no_more_than_the_most_of_its_handler(
    named: tuple[str, dict[str, Any]],
    game: GameRule,
    stock: dict[str, int],
    seed: bytes,
    luck: float,
    values: list[int],
) -> None:
    handler, raw = named
    rules = REWARD_HANDLERS.require(handler, "")
    config = rules.parse(raw)
    plan = drop_sequence.plan(config, seed) if handler == "collect_items" else ()
    won = _decide(handler, config, game, Words(seed, ""), _payload(handler, plan, luck), plan, stock)
    value = dict(zip(PRIZE_IDS, values, strict=True))
    instead = value.get(game.fallback_prize_id, 0) if game.on_unavailable == "fallback" else 0

    def worth(given: Award | Credit) -> float:
        return given.quantity * (max(value[given.prize_id], instead) if isinstance(given, Award) else 1)

    if hasattr(rules, "most"):
        given = sum(award.quantity * value[award.prize_id] for award in won.awards)
        assert given + sum(credit.quantity for credit in won.credits) <= rules.most(config, worth)
    else:
        assert sum(award.quantity for award in won.awards) <= 1 and not won.credits


def test_replay_refuses_an_outcome_that_the_play_did_not_decide() -> None:
    rules = REWARD_HANDLERS.require("probability", "")
    config = rules.parse({"prizes": [{"prize_id": "prize_a", "probability": 1}]})
    path = _decide("probability", config, GameRule(), Words(b"seed"), {}, (), {}).path
    replay(rules, config, GameRule(), seed=b"seed", client_seed="", payload={}, plan=(), path=path)
    for seed, tampered, reason in [
        *((b"other", path, "another path"), (b"seed", path[:1], "does not record")),
        (b"seed", [*path, ["word", 1, 0.5]], "another path"),
        (b"seed", [path[0], ["available", "prize_b", 1, True]], "does not record"),
    ]:
        with pytest.raises(ReplayMismatch, match=reason):
            replay(rules, config, GameRule(), seed=seed, client_seed="", payload={}, plan=(), path=tampered)
