"""The chances that a configuration declares while every prize is in stock. Observed plays are compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from runtime.rules.base import GameRule
from runtime.rules.chances import Chances, slot_of_loss, slot_of_prize
from runtime.rules.draw import scaled
from runtime.rules.handlers import lucky_item, probability, score_to_tier


class Result(NamedTuple):
    """One possible result of a play: a prize, a wallet item, or (both empty) a loss."""

    prize_id: str
    item: str
    slot_index: int


Declared: TypeAlias = dict[Result, float]


def declared(config: Any, game: GameRule, payload: Mapping[str, Any]) -> Declared:
    """The chance of each result of a play with this payload; {} if the configuration declares none.

    collect_items declares none, as the caught items decide. Plugin handlers declare none either.
    """
    if isinstance(config, probability.Config):
        return _drawn(config.chances, game, len(config.prizes))
    if isinstance(config, score_to_tier.Config):
        tier = config.tier_of(int(payload["score"]))
        if tier is None:
            return {Result("", "", slot_of_loss(game, config.longest)): 1.0}
        return _drawn(config.chances[config.tiers[tier].prize_group], game, config.longest)
    if isinstance(config, lucky_item.Config):
        shares = scaled([item.weight for item in config.items])
        return _summed(
            (Result("", item.item, item.slot_index), share) for item, share in zip(config.items, shares, strict=True)
        )
    return {}


def _drawn(chances: Chances, game: GameRule, prize_count: int) -> Declared:
    pairs = zip(chances.prize_ids, chances.probabilities, strict=True)
    found = _summed((Result(id_, "", slot_of_prize(game, id_, at)), chance) for at, (id_, chance) in enumerate(pairs))
    lost = Result("", "", slot_of_loss(game, prize_count))
    return {**found, lost: max(0.0, 1.0 - (chances.sums[-1] if chances.sums else 0.0))}


def _summed(pairs: Iterable[tuple[Result, float]]) -> Declared:
    found: Declared = {}
    for result, share in pairs:
        found[result] = found.get(result, 0.0) + share
    return found
