"""The words that rules share: what goes into a decision, what comes out, and what each registry holds.

A rule is a pure function of these (design.md, section 1): it has no clock, no I/O and no randomness of
its own. Whoever calls it answers the one question that it cannot: is this prize available?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from runtime.rules.draw import Words
from runtime.rules.reading import Part

OnUnavailable: TypeAlias = Literal["lose", "redraw", "fallback"]

Available: TypeAlias = Callable[[str, int], bool]
"""(prize_id, quantity) -> may this play take `quantity` units of the prize in all?

Within one decision the answers must not change, and a yes for n must be a yes for fewer than n.
"""


@dataclass(frozen=True, slots=True)
class Award:
    """`quantity` units of a prize."""

    prize_id: str
    quantity: int


@dataclass(frozen=True, slots=True)
class Credit:
    """`quantity` units of the wallet currency `item`."""

    item: str
    quantity: int


Worth: TypeAlias = Callable[[Award | Credit], float]
"""How much what a play gives is worth, by some measure: as many points, or turns."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One item of a drop plan; it appears `at_ms` milliseconds after the start."""

    id: str
    type: str
    at_ms: int


@dataclass(slots=True)
class Outcome:
    """What a play won.

    `metadata` is shown to the player (`slot_index` ...). `path` is the decision path: JSON values that
    hold every word used and every availability question with its answer, so that a play can be
    replayed. `score` is what leaderboards count: the score of score_to_tier, the counted items of
    collect_items, else 0.
    """

    awards: list[Award]
    credits: list[Credit]
    metadata: dict[str, Any]
    path: list[Any]
    score: int


@dataclass(frozen=True, slots=True)
class GameRule:
    """What a decision needs of the game beside its handler_config.

    `segments` has the prize_id of each entry of `ui.wheel.segments`, None for a segment that names no
    prize; it is None itself when the ui has no segments.
    """

    on_unavailable: OnUnavailable = "lose"
    fallback_prize_id: str = ""
    segments: tuple[str | None, ...] | None = None


@dataclass(slots=True)
class Attempt:
    """One play, ready to be decided: `config` is of the handler's own type, `payload` has passed the validator.

    Never changed once made; not `frozen`, because making one would then take four times as long.
    """

    config: Any
    game: GameRule
    words: Words
    payload: Mapping[str, Any]
    plan: tuple[Drop, ...]
    available: Available


class SeedGenerator(Protocol):
    """Makes what a session shows before its play."""

    def check_config(self, config: Any) -> None:
        """Raise INVALID_ARGUMENT on field `seed_generator` when this generator does not fit the handler's config."""

    def plan(self, config: Any, seed: bytes) -> tuple[Drop, ...]:
        """The drop plan of the session with this seed; the same on every call. () when there is none."""


class RewardHandler(Protocol):
    """Decides what a play wins. A module can be one: see `probability.py`.

    Where a play may win more than one unit of one prize, or credits, it has also `most(config, worth: Worth) -> float`:
    the most that one play may give. See `collect_items.py`.
    """

    @property
    def Config(self) -> type[Part]:
        """The type of `handler_config`."""

    @property
    def Payload(self) -> type[Part]:
        """The type of a play's payload."""

    def parse(self, raw: Mapping[str, Any]) -> Any:
        """A `Config`; raises INVALID_ARGUMENT with every violation, each naming its path under `handler_config`."""

    def prizes(self, config: Any) -> Iterable[tuple[str, str]]:
        """(path, prize_id) of every prize that the config names."""

    def currencies(self, config: Any) -> Iterable[str]:
        """The wallet currencies that the handler itself may credit."""

    def decide(self, attempt: Attempt) -> Outcome:
        """What the play wins; the same for the same attempt, always."""


class Validator(Protocol):
    """Judges a play's payload before it is decided."""

    def check_config(self, config: Any) -> None:
        """Raise INVALID_ARGUMENT on field `validator` when this validator does not fit the handler's config."""

    def check(
        self, handler: RewardHandler, config: Any, payload: Mapping[str, Any], plan: tuple[Drop, ...], elapsed_ms: int
    ) -> int:
        """Raise INVALID_ARGUMENT when the payload is malformed or impossible `elapsed_ms` milliseconds after start.

        `elapsed_ms` is UNTIMED_MS where the game does not verify timing (`rules.verify_timing`).

        Returns how many of them the play took up, where they are what it is paid for: they pay for no other play of
        the player in this game, and count in no other's `elapsed_ms`. 0: time pays for nothing.
        """


@runtime_checkable
class DropSource(Protocol):
    """A handler's config from which a drop plan can be made (collect_items, or a plugin's own)."""

    @property
    def total_items(self) -> int:
        """How many items drop."""

    @property
    def interval_ms(self) -> int:
        """Milliseconds from one item to the next."""

    def drop_type(self, word: float) -> str:
        """The type of the item that drew this word."""
