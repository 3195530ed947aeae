"""How people do what they do: each step as a client's app or an admin's page would do it.

`perform` carries a step out: it asks, and asks again under the same key where it was not answered. What it needs of
earlier steps it takes from what its player knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from ops.simulation.catalogue import PUBLIC
from ops.simulation.history import Attempt
from ops.simulation.plan import Step
from ops.simulation.world import Person, World
from runtime import ids

PLAYERS: Final = ("ann", "bob", "cem")
GUESTS: Final = ("guest 1", "guest 2")
CONTACTS: Final = {"guest 1": "dora", "guest 2": "dora"}
"""Whom each guest logs in as: both the same player."""


async def perform(world: World, step: Step) -> bool | None:
    """Carries a step out. False: what it needs was not there."""
    passed: bool | None = await PERFORM[step.kind](world, step)
    return passed


def person(world: World, name: str) -> Person:
    """Who that is; a player of an app is known by its name from the beginning."""
    found = world.people.get(name)
    if found is None:
        found = world.people[name] = Person(name, name if name in PLAYERS else "")
    return found


def _key(step: Step) -> dict[str, str]:
    return {"idempotency_key": f"key-{step.number}"} if step.get("key") else {}


async def _start(world: World, step: Step) -> bool | None:
    who, game = person(world, step.who), step["game"]
    if not who.player_id and step.who in CONTACTS.values():
        await _log_in(world, step, who, {})
    if not who.player_id and game not in PUBLIC:
        return False
    was = who.player_id
    if not was and step.who not in GUESTS:
        return None
    made = await world.ask(step, "Start", {"id": world.ids[game], "player_id": was})
    return _note_session(world, who, game, was, made)


def _note_session(world: World, who: Person, game: str, was: str, made: list[Attempt]) -> bool | None:
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is None:
        return None
    if not was:
        if who.player_id:
            return None  # A second guest of the same browser, which nobody goes on as.
        who.player_id = reply.guest_player_id
        world.names[who.player_id] = who.name
    who.sessions.setdefault(game, []).append((reply.session_id, _caught(reply.drop_plan)))
    return None


def _caught(drop_plan: Any) -> list[str]:
    return [drop.id for drop in drop_plan]


async def _plays(world: World, step: Step) -> bool | None:
    who, game = person(world, step.who), step["game"]
    if not who.player_id and game not in PUBLIC and step.who in GUESTS:
        return False
    played = who.played.setdefault(game, [])
    if step.get("again") and played:
        session, caught = played[-1]
    else:
        if not who.sessions.get(game):
            await _start(world, step)
        if not who.sessions.get(game):
            return None
        session, caught = who.sessions[game].pop(0)
    await asyncio.sleep(0.003 if caught else 0.0)
    # Without a name, as whoever has a guest's session may play it: a player's wants its player.
    bare = step.get("bare") and game in PUBLIC and ids.is_guest(session.rpartition(".")[2])
    request = {
        "id": world.ids[game],
        "player_id": "" if bare else who.player_id,
        "session_id": session,
        "client_seed": step.get("luck", ""),
        "payload": {"caught_items": caught} if game == "gift" else {},
        **({"next": True} if step.get("next") else {}),
        **_key(step),
    }
    made = await world.ask(step, "Play", request, twins=step.get("twins", 1))
    played.append((session, caught))
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is not None:
        who.rewards += [reward.reward_id for reward in reply.rewards if reward.reward_id]
        who.rewards += [rung.reward_id for rung in reply.milestones_granted if rung.reward_id]
        if reply.next is not None:
            who.sessions.setdefault(game, []).append((reply.next.session_id, _caught(reply.next.drop_plan)))
    return None


async def _claim(world: World, step: Step) -> bool | None:
    who = person(world, step.who)
    if not who.rewards:
        return False
    reward = who.rewards[step["which"] % len(who.rewards)]
    await world.ask(step, "ClaimReward", {"id": reward, "player_id": who.player_id, **_key(step)})
    return None


async def _redeem(world: World, step: Step) -> bool | None:
    who = person(world, step.who)
    if not who.player_id:
        return False
    request = {"id": world.ids[step["game"]], "player_id": who.player_id, "milestone_id": step["rung"], **_key(step)}
    made = await world.ask(step, "Redeem", request)
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is not None:
        who.rewards.append(reply.reward.id)
    return None


async def _quest(world: World, step: Step) -> bool | None:
    who = person(world, step.who)
    if not who.player_id:
        return False
    request = {"id": world.ids[f"quest {step['quest']}"], "player_id": who.player_id, **_key(step)}
    await world.ask(step, "CompleteQuest", request)
    return None


async def _merges(world: World, step: Step) -> bool | None:
    who = person(world, step.who)
    if not who.player_id:
        return False
    await _log_in(world, step, person(world, CONTACTS[step.who]), {"guest_player_id": who.player_id})
    return None


async def _log_in(world: World, step: Step, player: Person, guest: Mapping[str, str]) -> None:
    contact = {"type": "email", "value": f"{player.name}@example.com"}
    made = await world.ask(step, "ResolvePlayer", {"contact": contact, **guest})
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is not None:
        player.player_id = reply.player.id
        world.names[player.player_id] = player.name


def _reads(operation: str) -> Callable[[World, Step], Any]:
    async def work(world: World, step: Step) -> bool | None:
        who = person(world, step.who)
        if not who.player_id:
            return False
        about = "board" if operation == "ListRankings" else step["game"]
        named = {} if operation == "ListBalances" else {"id": world.ids[about]}
        await world.ask(step, operation, {**named, "player_id": who.player_id})
        return None

    return work


def _of_staff(world: World, step: Step) -> list[str]:
    """Every reward that anybody told of, in the order of their telling."""
    return [reward for name in sorted(world.people) for reward in world.people[name].rewards]


def _ends_reward(operation: str) -> Callable[[World, Step], Any]:
    async def work(world: World, step: Step) -> bool | None:
        rewards = _of_staff(world, step)
        if not rewards:
            return False
        reward = rewards[step["which"] % len(rewards)]
        await world.ask(step, operation, {"id": reward, "idempotency_key": f"key-{step.number}"})
        return None

    return work


async def _adjust(world: World, step: Step) -> bool | None:
    who = person(world, step["of"])
    if not who.player_id:
        return False
    request = {
        "player_id": who.player_id,
        "scope_key": world.ids["campaign"],
        "currency": step["currency"],
        "amount": step["amount"],
        "reference_id": f"step-{step.number}",
        "idempotency_key": f"key-{step.number}",
    }
    await world.ask(step, "AdjustBalance", request)
    return None


async def _restock(world: World, step: Step) -> bool | None:
    prize = world.ids[step["prize"]]
    made = await world.ask(step, "GetPrize", {"id": prize})
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is None or not reply.prize.stock.total:
        return False
    total = reply.prize.stock.total + step["more"]
    if total <= 0:
        return False  # 0 would be no end of them
    await world.ask(step, "UpdatePrize", {"id": prize, "prize": {"stock": {"total": total}}})
    return None


async def _retry(world: World, step: Step) -> bool | None:
    """An operator looks at what was given up, or at whatever there is, and has it tried again."""
    about = {"status": "dead"} if step["dead"] else {}
    made = await world.ask(step, "ListTasks", about)
    reply = next((world.answers[one.number] for one in made if one.ok), None)
    if reply is None or not reply.items:
        return False
    await world.ask(step, "RetryTask", {"id": reply.items[step["which"] % len(reply.items)].id})
    return None


async def _chance(world: World, step: Step) -> bool | None:
    prizes = [{"prize_id": world.ids["points"], "probability": step["chance"]}]
    await world.ask(step, "UpdateGame", {"id": world.ids[step["game"]], "game": {"handler_config": {"prizes": prizes}}})
    return None


async def _pause(world: World, step: Step) -> bool | None:
    for status in ("paused", "active"):
        await world.ask(step, "UpdateGame", {"id": world.ids[step["game"]], "game": {"status": status}}, tries=8)
        await asyncio.sleep(0.02)
    return None


async def _suspend(world: World, step: Step) -> bool | None:
    who = person(world, step["of"])
    for status in ("suspended", "active"):
        await world.ask(step, "SetPlayerStatus", {"id": who.player_id, "status": status}, tries=8)
        await asyncio.sleep(0.02)
    return None


async def _zones(world: World, step: Step) -> bool | None:
    request = {"id": world.ids["campaign"], "campaign": {"timezone": step["zone"]}}
    await world.ask(step, "UpdateCampaign", request)
    return None


async def _finalize(world: World, step: Step) -> bool | None:
    await world.ask(step, "FinalizeLeaderboard", {"id": world.ids["board"]})
    return None


async def _correct(world: World, step: Step) -> bool | None:
    """Staff add to a player's score on the board, or take the player off it."""
    who = person(world, step["of"])
    if not who.player_id:
        return False
    request = {"id": world.ids["board"], "player_id": who.player_id, "reason": "as staff say"}
    if step["delta"]:
        request |= {"delta": step["delta"], "idempotency_key": f"key-{step.number}"}
        await world.ask(step, "AdjustScore", request)
    else:
        await world.ask(step, "DisqualifyPlayer", request)
    return None


PERFORM: Final[Mapping[str, Callable[[World, Step], Any]]] = {
    "start": _start,
    "play": _plays,
    "claim": _claim,
    "redeem": _redeem,
    "quest": _quest,
    "merge": _merges,
    "eligibility": _reads("GetEligibility"),
    "milestones": _reads("ListMilestones"),
    "wallet": _reads("ListBalances"),
    "revoke": _ends_reward("RevokeReward"),
    "fulfill": _ends_reward("FulfillReward"),
    "adjust": _adjust,
    "restock": _restock,
    "retry": _retry,
    "chance": _chance,
    "pause": _pause,
    "suspend": _suspend,
    "zone": _zones,
    "finalize": _finalize,
    "correct": _correct,
    "rankings": _reads("ListRankings"),
}
