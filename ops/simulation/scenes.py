"""What a seed draws that people do: scenes, some milliseconds in which several things are under way at once.

Between scenes minutes or hours pass, often up to a midnight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

from ops.simulation.catalogue import COINS, GAMES, PUBLIC, RUNGS, THRESHOLD, ZONES
from ops.simulation.machine import EPOCH
from ops.simulation.plan import Step
from ops.simulation.workload import CONTACTS, GUESTS, PLAYERS
from ops.simulation.world import World

STAFF: Final = "staff"

DAY_SECONDS: Final = 86_400.0

PROBE: Final = 1_000_000
"""Steps from this number on are probes, of no plan."""

Told = tuple[str, str, dict[str, Any]]
"""A step: who, kind, args."""

Draw = Callable[[Random, Mapping[str, Any]], Iterator[Told]]
"""A scene."""


def _spins(dice: Random, who: str, game: str, count: int) -> Iterator[Told]:
    for _ in range(count):
        yield who, "play", _play(dice, game)


def _play(dice: Random, game: str) -> dict[str, Any]:
    return {
        "game": game,
        "luck": dice.choice(("", "a", "b", "c")),
        "twins": dice.choice((1, 1, 2)),
        "key": dice.random() < 0.7,
        "again": dice.random() < 0.1,
        "next": dice.random() < 0.2,
        "bare": dice.random() < 0.3,
    }


def _rush(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """One player plays one game many times at once, while others keep the commits busy."""
    who, game = dice.choice(PLAYERS), dice.choice(("capped", "capped", "daily", "daily", "wheel", "paid"))
    if dice.random() < 0.4:
        yield who, "quest", {"quest": dice.choice(("once", "daily")), "key": True}
    yield from _spins(dice, who, game, dice.randint(4, 10))
    for _ in range(dice.randint(2, 8)):
        yield dice.choice(PLAYERS), "play", _play(dice, dice.choice(GAMES))


def _race(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """Everybody wants the same few prizes."""
    for _ in range(dice.randint(6, 16)):
        yield dice.choice(PLAYERS + GUESTS), "play", _play(dice, "wheel")


def _mixed(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    for _ in range(dice.randint(4, 14)):
        who = dice.choice(PLAYERS + GUESTS)
        game = dice.choice(PUBLIC if who in GUESTS else GAMES)
        kind = dice.choices(
            ("play", "claim", "redeem", "quest", "eligibility", "milestones", "wallet", "start"),
            (10, 3, 3, 3, 1, 1, 1, 1),
        )[0]
        match kind:
            case "play" | "start":
                yield who, kind, _play(dice, game)
            case "claim":
                yield who, kind, {"which": dice.randrange(8), "key": dice.random() < 0.7}
            case "redeem":
                games = RUNGS if who in PLAYERS else RUNGS.keys() & set(PUBLIC)
                rungs = [(name, rung) for name in sorted(games) for rung in RUNGS[name]]
                name, rung = dice.choice(rungs)
                yield who, kind, {"game": name, "rung": rung, "key": dice.random() < 0.7}
            case "quest":
                yield who, kind, {"quest": dice.choice(("once", "daily")), "key": dice.random() < 0.7}
            case _:
                yield who, kind, {"game": game}


def _merge(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """A guest plays, claims and redeems while it logs in."""
    guest = dice.choice(GUESTS)
    steps: list[Told] = [(guest, "merge", {})]
    for who in (guest, CONTACTS[guest]):
        steps += _spins(dice, who, dice.choice(PUBLIC), dice.randint(1, 3))
        steps += _spins(dice, who, "unlock", dice.randint(0, 3))
    steps.append((guest, "redeem", {"game": "unlock", "rung": "first", "key": True}))
    steps.append((CONTACTS[guest], "redeem", {"game": "unlock", "rung": "first", "key": True}))
    steps.append((guest, "claim", {"which": dice.randrange(4), "key": True}))
    steps.append((guest, "quest", {"quest": "once", "key": True}))
    steps.append((STAFF, "adjust", {"of": guest, "amount": dice.choice((1, 5, -1)), "currency": "coin"}))
    dice.shuffle(steps)
    yield from steps


def _staff(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """Staff revoke, fulfill, adjust and change the catalogue beside plays."""
    for _ in range(dice.randint(3, 9)):
        game = dice.choice(GAMES)
        yield dice.choice(PLAYERS), "play", _play(dice, game)
    for _ in range(dice.randint(1, 5)):
        kind = dice.choices(
            ("revoke", "fulfill", "adjust", "restock", "chance", "pause", "zone", "suspend", "retry"),
            (4, 3, 3, 2, 2, 1, 2, 1, 2),
        )[0]
        yield STAFF, kind, _staffs(dice, kind)


def _staffs(dice: Random, kind: str) -> dict[str, Any]:
    match kind:
        case "revoke" | "fulfill":
            return {"which": dice.randrange(16)}
        case "adjust":
            currency = dice.choice(("coin", "points"))
            amount = dice.choice((1, 5, THRESHOLD, -COINS, -7))
            return {"of": dice.choice(PLAYERS), "amount": amount, "currency": currency}
        case "restock":
            return {"prize": dice.choice(("scarce", "rung", "fruit")), "more": dice.choice((0, 1, 2, -1, -2))}
        case "chance":
            return {"game": dice.choice(("capped", "paid")), "chance": dice.choice((0.0, 0.3, 1.0))}
        case "pause":
            return {"game": dice.choice(GAMES)}
        case "retry":
            return {"which": dice.randrange(4), "dead": dice.random() < 0.7}
        case "suspend":
            return {"of": dice.choice(PLAYERS)}
        case _:
            return {"zone": dice.choice(ZONES)}


def _changed(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """A game is changed again and again while everybody plays it: what was decided by its old terms is refused."""
    game = dice.choice(("capped", "paid"))
    for _ in range(dice.randint(8, 16)):
        yield dice.choice(PLAYERS), "play", _play(dice, game)
    for _ in range(dice.randint(2, 6)):
        yield STAFF, "chance", {"game": game, "chance": dice.choice((0.0, 0.3, 1.0))}


def _parcels(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """Operators, owners and receivers are at the same deliveries."""
    for _ in range(dice.randint(0, 8)):
        yield dice.choice(PLAYERS), "play", _play(dice, "wheel")
    for _ in range(dice.randint(3, 10)):
        kind = dice.choices(("claim", "retry", "revoke", "fulfill", "restock"), (4, 5, 1, 2, 1))[0]
        if kind == "claim":
            yield dice.choice(PLAYERS), kind, {"which": dice.randrange(8), "key": dice.random() < 0.7}
        else:
            yield STAFF, kind, _staffs(dice, kind)


def _zone(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """The campaign's zone moves while players are near their caps of the day."""
    who = dice.choice(PLAYERS)
    yield from _spins(dice, who, "daily", dice.randint(1, 3))
    yield STAFF, "zone", {"zone": dice.choice(ZONES)}
    yield from _spins(dice, who, "daily", dice.randint(1, 4))
    yield from _spins(dice, who, "wheel", dice.randint(0, 2))


def _finals(dice: Random, world: Mapping[str, Any]) -> Iterator[Told]:
    """The board is corrected and finalized, perhaps twice at once, perhaps while a guest logs in."""
    if dice.random() < 0.8:
        yield STAFF, "finalize", {}
    for _ in range(dice.randint(0, 4)):
        who = dice.choice(PLAYERS + GUESTS)
        yield STAFF, "correct", {"of": who, "delta": dice.choice((0, 1, 3, -2))}
        yield who, "rankings", {"game": "wheel"}
    for _ in range(dice.randint(0, 4)):
        yield dice.choice(PLAYERS + GUESTS), "play", _play(dice, dice.choice(PUBLIC))
    if dice.random() < 0.5:
        yield STAFF, "finalize", {}
    if dice.random() < 0.4:
        yield dice.choice(GUESTS), "merge", {}


SCENES: Final[tuple[tuple[Draw, int], ...]] = (
    (_rush, 5),
    (_race, 3),
    (_mixed, 5),
    (_merge, 3),
    (_staff, 3),
    (_zone, 3),
    (_parcels, 3),
    (_finals, 2),
    (_changed, 3),
)


def draw(dice: Random, world: Mapping[str, Any], cores: int) -> tuple[Step, ...]:
    """The steps of a seed."""
    steps: list[Step] = []
    at = 30.0
    zone = world["zone"]
    number = 0
    for _ in range(dice.randint(3, 9)):
        began = at
        scene = dice.choices([scene for scene, _ in SCENES], [weight for _, weight in SCENES])[0]
        within = dice.choice((0.004, 0.015, 0.06, 1.0))
        for who, kind, args in scene(dice, world):
            if kind == "zone":
                zone = args["zone"]
            steps.append(Step(number, at + dice.random() * within, who, dice.randrange(cores), kind, args))
            number += 1
        at += dice.choice((60.0, 600.0, 3 * 3600.0, 0.0))
        drawn = dice.random()
        if drawn < 0.25:
            at = _to_midnight(at, zone) - dice.uniform(-0.05, 0.1)
        elif drawn < 0.4:
            at = max(at, began + DAY_SECONDS - dice.uniform(0.0, 0.05))  # what was won then expires
        else:
            at += 60.0
    steps.sort(key=lambda step: (step.at, step.number))
    return tuple(steps)


def _to_midnight(at: float, zone: str) -> float:
    """The virtual time of the next local midnight that is at least a minute away."""
    own = ZoneInfo(zone)
    today = datetime.fromtimestamp(EPOCH + at + 60.0, own)
    tomorrow = datetime(today.year, today.month, today.day, tzinfo=own) + timedelta(days=1)
    return tomorrow.timestamp() - EPOCH


def probes(world: World) -> list[Step]:
    """What is tried when all is over: everybody plays two games, of all that there are in turn."""
    steps: list[Step] = []
    for nth, who in enumerate(sorted(world.people)):
        games = GAMES if who in PLAYERS else PUBLIC
        for more in (0, 3):
            game = games[(world.plan.seed + nth + more) % len(games)]
            number = PROBE + len(steps)
            steps.append(Step(number, 0.0, who, number % len(world.nodes), "play", {"game": game, "key": True}))
    return steps
