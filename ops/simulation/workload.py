"""The workload: scenes drawn from a seed, and the steps, carried out as a client app would.

A scene is a few milliseconds with several requests in flight. Minutes or hours pass between scenes, often up to a
midnight. A step takes what it needs of earlier ones from its player's state.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

from ops.history.record import Attempt, Request
from ops.simulation import catalogue
from ops.simulation.catalogue import CAMPAIGN, COINS, GAMES, PUBLIC, RUNGS, STOCKED, TENANT, ZONES, id_of
from ops.simulation.machine import EPOCH
from ops.simulation.plan import Step
from ops.simulation.postgres import Transaction
from ops.simulation.world import Person, World

PLAYERS: Final = ("ann", "bob", "cem")
GUESTS: Final = ("guest 1", "guest 2")
STAFF: Final = "staff"
DAY_SECONDS: Final = 86_400.0

PROBE: Final = 1_000_000
"""Steps from this number on are probes, outside the plan."""

Action = tuple[str, str, dict[str, Any]]
"""A step: player, kind, args."""


# -- scenes ------------------------------------------------------------------------------------


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


def _claims(dice: Random) -> dict[str, Any]:
    return {"which": dice.randrange(8), "key": dice.random() < 0.7, "twins": dice.choice((1, 1, 2))}


def _rush(dice: Random) -> Iterator[Action]:
    """One player plays one game many times concurrently, while others keep the commits busy."""
    person, game = dice.choice(PLAYERS), dice.choice(("capped", "capped", "daily", "daily", "wheel", "paid"))
    for _ in range(dice.randint(4, 10)):
        yield person, "play", _play(dice, game)
    for _ in range(dice.randint(2, 8)):
        yield dice.choice(PLAYERS), "play", _play(dice, dice.choice(GAMES))


def _race(dice: Random) -> Iterator[Action]:
    """All players compete for the same few prizes."""
    for _ in range(dice.randint(6, 16)):
        yield dice.choice(PLAYERS + GUESTS), "play", _play(dice, "wheel")
    for _ in range(dice.randint(0, 4)):
        yield dice.choice(PLAYERS), "claim", _claims(dice)


def _mixed(dice: Random) -> Iterator[Action]:
    for _ in range(dice.randint(4, 14)):
        person = dice.choice(PLAYERS + GUESTS)
        game = dice.choice(PUBLIC if person in GUESTS else GAMES)
        kind = dice.choices(("play", "claim", "redeem", "eligibility", "milestones", "adjust"), (10, 4, 3, 1, 1, 2))[0]
        match kind:
            case "play":
                yield person, kind, _play(dice, game)
            case "claim":
                yield person, kind, _claims(dice)
            case "redeem":
                game = dice.choice(("unlock", "exchange"))
                yield person, kind, {"game": game, "rung": dice.choice(RUNGS), "key": dice.random() < 0.7}
            case "adjust":
                amount, currency = dice.choice((1, 5, 4, -COINS, -7)), dice.choice(("coin", "points"))
                yield STAFF, kind, {"of": person, "amount": amount, "currency": currency, "twins": dice.choice((1, 2))}
            case _:
                yield person, kind, {"game": game}


def _staff(dice: Random) -> Iterator[Action]:
    """Staff changes totals while everybody plays for the prizes."""
    yield from _race(dice)
    for _ in range(dice.randint(1, 4)):
        yield STAFF, "restock", {"prize": dice.choice(STOCKED), "more": dice.choice((1, 2, -1, -2))}


def _zone(dice: Random) -> Iterator[Action]:
    """The campaign's time zone changes while players are near their daily caps."""
    person = dice.choice(PLAYERS)
    for _ in range(dice.randint(1, 3)):
        yield person, "play", _play(dice, "daily")
    yield STAFF, "zone", {"zone": dice.choice(ZONES)}
    for _ in range(dice.randint(1, 4)):
        yield person, "play", _play(dice, "daily")
    for _ in range(dice.randint(0, 2)):
        yield person, "play", _play(dice, "wheel")


SCENES: Final[tuple[tuple[Callable[[Random], Iterator[Action]], int], ...]] = (
    (_rush, 5),
    (_race, 3),
    (_mixed, 6),
    (_staff, 2),
    (_zone, 3),
)


def draw(dice: Random, world: Mapping[str, Any], cores: int) -> tuple[Step, ...]:
    """Draws the steps of a seed."""
    steps: list[Step] = []
    at, zone = 30.0, world["zone"]
    for _ in range(dice.randint(3, 9)):
        scene = dice.choices([scene for scene, _ in SCENES], [weight for _, weight in SCENES])[0]
        within = dice.choice((0.004, 0.015, 0.06, 1.0))
        for person, kind, args in scene(dice):
            zone = args.get("zone", zone)
            steps.append(Step(len(steps), at + dice.random() * within, person, dice.randrange(cores), kind, args))
        at += dice.choice((60.0, 600.0, 3 * 3600.0, 0.0))
        at = _to_midnight(at, zone) - dice.uniform(-0.05, 0.1) if dice.random() < 0.3 else at + 60.0
    return tuple(sorted(steps, key=lambda step: (step.at, step.number)))


def _to_midnight(at: float, zone: str) -> float:
    """The virtual time of the next local midnight at least a minute away."""
    own = ZoneInfo(zone)
    today = datetime.fromtimestamp(EPOCH + at + 60.0, own)
    tomorrow = datetime(today.year, today.month, today.day, tzinfo=own) + timedelta(days=1)
    return tomorrow.timestamp() - EPOCH


def probes(world: World) -> list[Step]:
    """Final probes: everybody plays two games, in rotation over all."""
    steps: list[Step] = []
    for nth, person in enumerate(sorted(world.people)):
        games = GAMES if person in PLAYERS else PUBLIC
        for more in (0, 3):
            game = games[(world.plan.seed + nth + more) % len(games)]
            number = PROBE + len(steps)
            steps.append(Step(number, 0.0, person, number % len(world.nodes), "play", {"game": game, "key": True}))
    return steps


# -- steps -------------------------------------------------------------------------------------


async def perform(world: World, step: Step) -> None:
    """Carries out a step. A step without its prerequisites is skipped."""
    await PERFORM[step.kind](world, step)


def _person(world: World, name: str) -> Person:
    """A registered player is known by name from the start; a guest after its first start."""
    return world.people.setdefault(name, Person(name, name if name in PLAYERS else ""))


def _key(step: Step) -> dict[str, str]:
    return {"idempotency_key": f"key-{step.number}"} if step.get("key") else {}


async def _start(world: World, step: Step, person: Person) -> None:
    game = step["game"]
    if not person.player_id and game not in PUBLIC:
        return
    was = person.player_id
    request = {"id": id_of(game), "player_id": was}
    result = await world.ask(step, "Start", request, who=was or person.name, of=game)
    if not result.ok or (not was and person.player_id):
        return  # A second guest of the same browser, which is discarded.
    if not was:
        person.player_id = result.data["guest_player_id"]
        world.names[person.player_id] = person.name.replace(" ", "-")
    _record_session(person, game, result.data)


def _record_session(person: Person, game: str, session: Mapping[str, Any]) -> None:
    caught = [drop["id"] for drop in session.get("drop_plan") or ()]
    person.sessions.setdefault(game, []).append((session["session_id"], caught))


async def _plays(world: World, step: Step) -> None:
    person, game = _person(world, step.who), step["game"]
    played = person.played.setdefault(game, [])
    if step.get("again") and played:
        session, caught = played[-1]
    else:
        if not person.sessions.get(game):
            await _start(world, step, person)
        if not person.sessions.get(game):
            return
        session, caught = person.sessions[game].pop(0)
    await asyncio.sleep(0.003 if caught else 0.0)
    # Without a player id, as anybody with a guest's session may play it.
    is_bare = step.get("bare") and game in PUBLIC and person.name in GUESTS
    request = {
        "id": id_of(game),
        "player_id": "" if is_bare else person.player_id,
        "session_id": session,
        "client_seed": step.get("luck", ""),
        "payload": {"caught_items": caught} if game == "gift" else {},
        **({"next": True} if step.get("next") else {}),
        **_key(step),
    }
    result = await world.ask(step, "Play", request, who=person.player_id, duplicates=step.get("twins", 1), of=game)
    played.append((session, caught))
    if result.ok:
        won = [*result.data["rewards"], *result.data["milestones_granted"]]
        person.rewards += [one["reward_id"] for one in won if one.get("reward_id")]
        if result.data.get("next"):
            _record_session(person, game, result.data["next"])


async def _claim(world: World, step: Step) -> None:
    person = _person(world, step.who)
    if person.rewards:
        reward = person.rewards[step["which"] % len(person.rewards)]
        request = {"id": reward, "player_id": person.player_id, **_key(step)}
        await world.ask(step, "ClaimReward", request, who=person.player_id, of=reward, duplicates=step["twins"])


async def _redeem(world: World, step: Step) -> None:
    person, game = _person(world, step.who), step["game"]
    if person.player_id and (person.name in PLAYERS or game in PUBLIC):
        request = {"id": id_of(game), "player_id": person.player_id, "milestone_id": step["rung"], **_key(step)}
        result = await world.ask(step, "Redeem", request, who=person.player_id, of=game)
        if result.ok:
            person.rewards.append(result.data["reward"]["id"])


async def _adjust(world: World, step: Step) -> None:
    person = _person(world, step["of"])
    if person.player_id:
        request = {
            "player_id": person.player_id,
            "scope_key": CAMPAIGN,
            "currency": step["currency"],
            "amount": step["amount"],
            "reference_id": f"step-{step.number}",
            "idempotency_key": f"key-{step.number}",
        }
        subject, duplicates = person.player_id, step["twins"]
        result = await world.ask(step, "AdjustBalance", request, who=STAFF, of=subject, duplicates=duplicates)
        result.facts["refusals"] = ["UNKNOWN_PLAYER"]  # If the player has not played yet.


def _reads(operation: str) -> Callable[[World, Step], Any]:
    async def read(world: World, step: Step) -> None:
        person, game = _person(world, step.who), step["game"]
        if person.player_id:
            request = {"id": id_of(game), "player_id": person.player_id}
            await world.ask(step, operation, request, who=person.player_id, of=game)

    return read


# -- staff: instantaneous writes by another process ----------------------------------------------


async def _restock(world: World, step: Step) -> None:
    prize_id = id_of(step["prize"])

    def write(tx: Transaction) -> int | None:
        row = tx.get("stock", prize_id)
        assert row is not None
        total, left = row["total"] + step["more"], row["remaining"] + step["more"]
        if not row["total"] or total <= 0 or left < 0:
            return None
        tx.update("stock", row, total=total, remaining=left)
        before = {"total_before": row["total"], "remaining_before": row["remaining"]}
        after = {"total_after": total, "remaining_after": left, "actor": STAFF, "reason": "", "seq": tx.began}
        tx.insert("stock_moves", tenant_id=TENANT, prize_id=prize_id, **before, **after)
        return int(total)

    total = world.server.do(write)
    if total is not None:
        _record_completed(world, "UpdatePrize", step["prize"], {"stock": {"total": total}})


async def _zone_moves(world: World, step: Step) -> None:
    def write(tx: Transaction) -> None:
        campaign, tenant = tx.get("campaigns", CAMPAIGN), tx.get("tenants", TENANT)
        assert campaign is not None and tenant is not None
        tx.update("campaigns", campaign, timezone=step["zone"], updated_at=tx.began)
        tx.update("tenants", tenant, catalog_version=tenant["catalog_version"] + 1)
        change = {"before": {"timezone": campaign["timezone"]}, "after": {"timezone": step["zone"]}}
        about = {"actor": STAFF, "action": "campaign.update", "subject_type": "campaign", "subject_id": CAMPAIGN}
        kept = {"entry_id": f"audit_{step.number}", "trace_id": "", "merchant_id": ""}
        tx.insert("audit_entries", tenant_id=TENANT, **about, **change, **kept)

    world.server.do(write)
    _record_completed(world, "UpdateCampaign", "campaign", {"timezone": step["zone"]})


def _record_completed(world: World, operation: str, of: str, body: dict[str, Any]) -> Request:
    result = world.history.new(operation, STAFF, of=of, body=body)
    now = world.loop.now
    result.attempts.append(Attempt("staff", now, now, 200, "OK", data={}))
    return result


def furnish(world: World) -> None:
    """Creates the catalogue, and records its codes for the checker."""
    world.server.do(lambda tx: catalogue.furnish(tx, world.plan.world))
    _record_completed(world, "ImportCodes", "coded", {"codes": catalogue.codes_of(world.plan.world)})


PERFORM: Final[Mapping[str, Callable[[World, Step], Any]]] = {
    "play": _plays,
    "claim": _claim,
    "redeem": _redeem,
    "eligibility": _reads("GetEligibility"),
    "milestones": _reads("ListMilestones"),
    "adjust": _adjust,
    "restock": _restock,
    "zone": _zone_moves,
}
