"""The types that rules share: the inputs and the outcome of a decision, and the protocol of each registry.

A rule is a pure function of these types: no clock, no I/O, no source of randomness. The caller supplies
`Available`, which answers whether a prize is in stock and within its caps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from runtime.rules.draw import Words
from runtime.rules.reading import Part

OnUnavailable: TypeAlias = Literal["lose", "redraw", "fallback"]

Available: TypeAlias = Callable[[str, int], bool]
"""(prize_id, quantity) -> may this play take `quantity` units of the prize in total?

Within one decision the answers must not change, and a yes for n implies a yes for every smaller quantity.
"""


class Award(msgspec.Struct, frozen=True):
    prize_id: str
    quantity: int


class Credit(msgspec.Struct, frozen=True):
    item: str
    quantity: int


Odds: TypeAlias = tuple[float, Sequence[Award | Credit]]
"""What a play wins with this probability while all is in stock. The rest up to 1 is a loss."""

Worth: TypeAlias = Callable[[Award | Credit], float]
"""The value of one award or credit in some unit, such as points or turns."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One item of a drop plan; it appears `at_ms` milliseconds after the start."""

    id: str
    type: str
    at_ms: int


class Outcome(msgspec.Struct):
    """What a play won.

    `metadata` is shown to the player (`slot_index` ...). `path` is the decision path: JSON values that
    record every word used and every availability answer, so that the play can be replayed. `score`
    feeds leaderboards: the score of score_to_tier, the counted items of collect_items, else 0.
    """

    awards: list[Award]
    credits: list[Credit]
    metadata: dict[str, Any]
    path: list[Any]
    score: int


@dataclass(frozen=True, slots=True)
class GameRule:
    """The game fields that a decision needs besides handler_config.

    `segments` lists the prize_id of each entry of `ui.wheel.segments`, None for a segment without a
    prize. `segments` is None when the ui has no segments.
    """

    on_unavailable: OnUnavailable = "lose"
    fallback_prize_id: str = ""
    segments: tuple[str | None, ...] | None = None


class Attempt(msgspec.Struct, frozen=True):
    """One play, ready to be decided: `config` has the handler's type, `payload` has passed the validator."""

    config: Any
    game: GameRule
    words: Words
    payload: Mapping[str, Any]
    plan: tuple[Drop, ...]
    available: Available


class SeedGenerator(Protocol):
    """Generates the data that a session shows before its play."""

    def check_config(self, config: Any) -> None:
        """Raise INVALID_ARGUMENT on field `seed_generator` when this generator does not fit the handler's config."""

    def plan(self, config: Any, seed: bytes) -> tuple[Drop, ...]:
        """The drop plan of the session with this seed; the same on every call. () when there is none."""


class RewardHandler(Protocol):
    """Decides what a play wins. A module can be one: see `probability.py`.

    A handler whose play may win several units of one prize, or credits, also has
    `most(config, worth: Worth) -> float`: the maximum that one play may give. See `collect_items.py`.

    A handler whose plays win by odds that do not depend on the player has `odds(config) -> Iterable[Odds]`, which makes
    forecasts possible. See `probability.py`.

    A handler has `winnable(config) -> Iterable[str]` if its config may name prizes that a play cannot win, for example
    with a chance of 0: it returns the prizes that a play can win. See `collect_items.py`.
    """

    @property
    def Config(self) -> type[Part]:
        """The type of `handler_config`."""

    @property
    def Payload(self) -> type[Part]:
        """The type of a play's payload."""

    def parse(self, raw: Mapping[str, Any]) -> Any:
        """A `Config`; raises INVALID_ARGUMENT with every violation and its path under `handler_config`."""

    def prizes(self, config: Any) -> Iterable[tuple[str, str]]:
        """(path, prize_id) of every prize in the config."""

    def currencies(self, config: Any) -> Iterable[str]:
        """The wallet currencies that the handler may credit."""

    def decide(self, attempt: Attempt) -> Outcome:
        """What the play wins. Deterministic: the same attempt always gives the same outcome."""


def winnable(handler: RewardHandler, config: Any) -> set[str]:
    """The prizes that a play may win while all are in stock, apart from the game's fallback prize."""
    if hasattr(handler, "winnable"):
        return set(handler.winnable(config))
    return {prize_id for _, prize_id in handler.prizes(config)}


class Validator(Protocol):
    """Checks a play's payload before it is decided."""

    def check_config(self, config: Any) -> None:
        """Raise INVALID_ARGUMENT on field `validator` when this validator does not fit the handler's config."""

    def check(
        self, handler: RewardHandler, config: Any, payload: Mapping[str, Any], plan: tuple[Drop, ...], elapsed_ms: int
    ) -> int:
        """Raise INVALID_ARGUMENT when the payload is malformed or impossible `elapsed_ms` milliseconds after start.

        `elapsed_ms` is UNTIMED_MS where the game does not verify timing (`rules.verify_timing`).

        Returns the milliseconds that this play consumes, when a longer play may score more. They are deducted from
        the `elapsed_ms` of the player's other plays in this game, so that no time is claimed twice. 0: none.
        """


@runtime_checkable
class DropSource(Protocol):
    """A handler config that can generate a drop plan (collect_items, or a plugin's handler)."""

    @property
    def total_items(self) -> int:
        """How many items drop."""

    @property
    def interval_ms(self) -> int:
        """Milliseconds from one item to the next."""

    def drop_type(self, word: float) -> str:
        """The type of the item that drew this word."""
