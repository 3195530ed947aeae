"""A crowd: players, guests and staff of one tenant who do things at once, each as a seed drew it beforehand.

`draw` makes a plan of rounds. In a round every lane does its acts one after another, all lanes at once; a person has
several. Nothing waits between lanes, so a seed says who does what and beside whom, and the machine says in which order
it comes about. What an act needs of earlier ones (a session, a reward) it takes from what is known when it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

ROUNDS: Final = 6
ACTS_A_LANE: Final = 4

PLAYERS: Final = ("ann", "bob", "cem")
"""Known from the beginning, and nobody's guests."""
GUESTS: Final = {"guest 1": "dora", "guest 2": "dora", "guest 3": "emil"}
"""Whom each guest logs in as; a guest that has logged in is another guest from then on."""

GAMES: Final = ("wheel", "capped", "daily", "paid", "unlock", "exchange", "gift")
PUBLIC: Final = ("wheel", "unlock", "gift")
RUNGS: Final = {"unlock": ("first",), "exchange": ("one", "two")}
QUESTS: Final = ("once", "daily")
ZONES: Final = ("UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago")
STOCKED: Final = ("scarce", "rung", "fruit", "parcel", "errand")
CAPS: Final = {
    "capped": ("game", "rules", "max_plays_per_user"),
    "daily": ("game", "rules", "max_plays_per_day"),
    "dear": ("prize", "constraints", "max_per_user"),
    "rare": ("prize", "constraints", "max_per_day"),
}
"""Where each of the caps that change stands."""
FAULTS: Final = ("flush", "cut", "valkey", "core 0", "core 1")

_OF_PLAYERS: Final = {
    "start": 3,
    "play": 10,
    "burst": 4,
    "again": 2,
    "claim": 4,
    "redeem": 4,
    "quest": 2,
    "eligibility": 1,
    "milestones": 1,
    "name": 2,
}
_OF_GUESTS: Final = {
    "start": 2,
    "play": 6,
    "burst": 2,
    "again": 1,
    "merge": 3,
    "claim": 2,
    "redeem": 2,
    "quest": 1,
    "name": 1,
}
_OF_STAFF: Final = {
    "revoke": 4,
    "fulfill": 2,
    "bulk": 4,
    "adjust": 4,
    "give": 3,
    "restock": 3,
    "move": 3,
    "cap": 4,
    "join": 3,
    "erase": 2,
    "codes": 1,
    "chance": 1,
    "pause": 1,
    "close": 1,
    "zone": 1,
    "suspend": 1,
    "shut": 1,
    "board": 1,
    "finalize": 2,
    "score": 1,
    "disqualify": 1,
    "spare": 2,
    "remove": 2,
    "integration": 1,
    "emit": 1,
}
_OF_MACHINES: Final = {"callback": 5, "retry": 3, "expire": 2, "overdue": 1}

LANES: Final = (
    *(("ann", _OF_PLAYERS),) * 3,
    *(("bob", _OF_PLAYERS),) * 2,
    *(("cem", _OF_PLAYERS),) * 2,
    *(("dora", _OF_PLAYERS),) * 2,
    *(("guest 1", _OF_GUESTS),) * 2,
    ("guest 2", _OF_GUESTS),
    ("guest 3", _OF_GUESTS),
    *(("staff", _OF_STAFF),) * 4,
    *(("machine", _OF_MACHINES),) * 2,
)
"""Who is there, and how often each does what."""


@dataclass(frozen=True)
class Act:
    """What somebody is to do. which: a number by which to choose among what is known then. core: through which of the
    two. beside: with what at the same time through the other one: "twin", the same request under its key, or "rival",
    under a key of its own; empty: nothing."""

    number: int
    who: str
    kind: str
    which: int
    game: str
    amount: int
    core: int
    beside: str = ""

    @property
    def key(self) -> str:
        return f"key_{self.number}"

    def of(self, known: Any) -> Any:
        """One of a sequence that is not empty."""
        return known[self.which % len(known)]

    def __str__(self) -> str:
        return f"#{self.number} {self.who}: {self.kind}"


@dataclass(frozen=True)
class Round:
    """fault: what breaks once so many acts of the round are over (`after`); empty: nothing."""

    lanes: tuple[tuple[Act, ...], ...]
    fault: str
    after: int


@dataclass(frozen=True)
class Plan:
    """world: how much there is of everything."""

    seed: int
    world: Mapping[str, int]
    rounds: tuple[Round, ...]


def draw(seed: int) -> Plan:
    """The plan of a seed: the same each time."""
    dice = Random(seed)
    world = {
        "scarce": dice.choice((1, 2, 4, 8)),
        "codes": dice.choice((1, 2, 4)),
        "rung": dice.choice((1, 3, 6)),
        "fruit": dice.choice((2, 6)),
        "parcel": dice.choice((2, 5)),
        "errand": dice.choice((2, 5)),
        "dear": dice.choice((1, 2)),
        "rare": dice.choice((1, 3)),
        "capped": dice.choice((3, 5, 8)),
        "daily": dice.choice((2, 4)),
        "wheel": dice.choice((0, 0, 4)),
    }
    numbers = iter(range(1_000_000))
    return Plan(seed, world, tuple(_round(dice, numbers) for _ in range(ROUNDS)))


def _round(dice: Random, numbers: Iterator[int]) -> Round:
    # All at one game, now and then: else rivals seldom meet.
    hot = dice.choice((*GAMES, "capped", "wheel", ""))
    lanes = tuple(
        tuple(_act(dice, next(numbers), who, weights, hot) for _ in range(ACTS_A_LANE)) for who, weights in LANES
    )
    fault = dice.choice(FAULTS) if dice.random() < 0.4 else ""
    return Round(lanes, fault, dice.randrange(len(LANES) * ACTS_A_LANE // 2))


def _act(dice: Random, number: int, who: str, weights: Mapping[str, int], hot: str) -> Act:
    return Act(
        number,
        who,
        dice.choices(list(weights), list(weights.values()))[0],
        which=dice.randrange(1_000),
        game=hot if hot and dice.random() < 0.8 else dice.choice((*GAMES, "spare")),
        amount=dice.choice((-7, -2, 1, 3, 5)),
        core=dice.randrange(2),
        beside=dice.choice(("twin", "rival", "", "", "")),
    )


@dataclass
class Attempt:
    """A request as it was sent to one Core, and what came back. began, ended: places in the order of all that
    happened; outcome: "ok", a refusal's reason, or empty while nothing came back."""

    act: Act
    operation: str
    fields: Mapping[str, Any]
    core: int
    began: int
    ended: int = 0
    outcome: str = ""
    reply: Any = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def key(self) -> str:
        return str(self.fields.get("idempotency_key", ""))

    def __str__(self) -> str:
        asked = {name: value for name, value in self.fields.items() if name not in ("idempotency_key", "session_id")}
        return (
            f"{self.began:5}-{self.ended or '':5} {self.act!s:28} core {self.core} {self.operation} {asked}"
            f" {self.key} -> {self.outcome or 'no answer'}"
        )


@dataclass
class History:
    """All that was asked and what came back, in the order of its beginning, and what was broken in between."""

    attempts: list[Attempt] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    moment: int = 0

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    def begin(self, act: Act, operation: str, fields: Mapping[str, Any], core: int) -> Attempt:
        attempt = Attempt(act, operation, fields, core, self.tick())
        self.attempts.append(attempt)
        return attempt

    def note(self, text: str) -> None:
        self.notes.append((self.tick(), text))

    def of(self, operation: str) -> list[Attempt]:
        """Those of an operation that were done."""
        return [attempt for attempt in self.asked(operation) if attempt.ok]

    def asked(self, *operations: str) -> list[Attempt]:
        """Those of some operations, whatever came back."""
        return [attempt for attempt in self.attempts if attempt.operation in operations]

    def told(self) -> str:
        """A line for each."""
        lines = [(attempt.began, str(attempt)) for attempt in self.attempts]
        lines += [(moment, f"{moment:5}       -- {text}") for moment, text in self.notes]
        return "\n".join(line for _, line in sorted(lines))
