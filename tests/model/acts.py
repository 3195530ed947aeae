"""How each act of a crowd is done: as a client's app, an admin's page or a workflow would do it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from runtime import ids
from runtime.errors import Fault, Status
from runtime.http.docs.refusals import REFUSALS
from runtime.streams import expiry
from tests.model.crowd import CAPS, GAMES, GUESTS, PLAYERS, PUBLIC, QUESTS, RUNGS, STOCKED, ZONES, Act
from tests.model.tenant import COLLECT, WORKER, Tenant

LATER: Final = frozenset(reason for reason, refusal in REFUSALS.items() if refusal.status is Status.UNAVAILABLE)

# -------------------------------------------------------------------- what players do


async def _player(tenant: Tenant, act: Act) -> str:
    """Who acts, made where it is nobody yet; empty where that is refused."""
    if not tenant.people.get(act.who) and act.who in GUESTS.values():
        await _log_in(tenant, act, act.who, "")
    return tenant.people.get(act.who, "")


def _game(tenant: Tenant, act: Act) -> str:
    return act.game if act.game in tenant.ids else "wheel"


async def start(tenant: Tenant, act: Act) -> None:
    """Opens a session, to be played some time."""
    game, player_id = _game(tenant, act), await _player(tenant, act)
    if player_id or game in PUBLIC:
        reply = await tenant.ask(act, "Start", id=tenant.ids[game], player_id=player_id)
        if reply is None:
            return
        if not player_id and not tenant.people.get(act.who):
            tenant.people[act.who] = reply.guest_player_id  # Else another lane's guest is who goes on.
        tenant.sessions[act.who, game].append((reply.session_id, [drop.id for drop in reply.drop_plan]))


async def play(tenant: Tenant, act: Act) -> None:
    """Plays a session that is open, or one of now."""
    game = _game(tenant, act)
    if not tenant.sessions[act.who, game]:
        await start(tenant, act)
    if not tenant.sessions[act.who, game]:
        return
    await _play(tenant, act, game, *tenant.sessions[act.who, game].pop())


async def burst(tenant: Tenant, act: Act) -> None:
    """Opens several sessions, which no cap forbids, and plays them all at once, through both Cores."""
    game = _game(tenant, act)
    for _ in range(2 + act.which % 5):
        await start(tenant, act)
    sessions, tenant.sessions[act.who, game] = tenant.sessions[act.who, game], []
    plays = []
    for nth, session in enumerate(sessions):
        one = replace(act, number=1_000_000 + 1_000 * act.number + nth, core=(act.core + nth) % 2, beside="")
        plays.append(_play(tenant, one, game, *session))
    await asyncio.gather(*plays)


async def _play(tenant: Tenant, act: Act, game: str, session_id: str, caught: list[str]) -> None:
    # Without a name, as whoever has a guest's session may play it: a player's wants its player.
    owner = session_id.rpartition(".")[2]
    bare = game in PUBLIC and act.which % 4 == 0 and ids.is_guest(owner)
    asked = {
        "id": tenant.ids[game],
        "player_id": "" if bare else tenant.people.get(act.who) or owner,
        "session_id": session_id,
        "client_seed": f"luck_{act.number}",
        "payload": {"caught_items": caught} if game == "gift" else {},
        "next": act.which % 3 == 0,
        "idempotency_key": act.key,
    }
    tenant.played.append(asked)
    reply = await tenant.ask(act, "Play", **asked)
    if reply is not None:
        tenant.note_rewards(act.who, *reply.rewards, *reply.milestones_granted)
        if reply.next is not None:
            drops = [drop.id for drop in reply.next.drop_plan]
            tenant.sessions[act.who, game].append((reply.next.session_id, drops))


async def again(tenant: Tenant, act: Act) -> None:
    """Long after it was asked for, or while it is, a play is asked for again, under its key or another."""
    if tenant.played:
        asked = act.of(tenant.played)
        await tenant.ask(act, "Play", **(asked if act.which % 2 else {**asked, "idempotency_key": act.key}))


async def claim(tenant: Tenant, act: Act) -> None:
    own = [reward_id for who, reward_id in tenant.rewards if who == act.who]
    if own:
        player_id = tenant.people.get(act.who, "") or "nobody"
        await tenant.ask(act, "ClaimReward", id=act.of(own), player_id=player_id, idempotency_key=act.key)


async def redeem(tenant: Tenant, act: Act) -> None:
    game, player_id = act.of(sorted(RUNGS)), await _player(tenant, act)
    if player_id:
        asked = {"id": tenant.ids[game], "player_id": player_id, "milestone_id": act.of(RUNGS[game])}
        reply = await tenant.ask(act, "Redeem", **asked, idempotency_key=act.key)
        if reply is not None and reply.reward is not None:
            tenant.rewards.append((act.who, reply.reward.id))


async def quest(tenant: Tenant, act: Act) -> None:
    if player_id := await _player(tenant, act):
        quest_id = tenant.ids[f"quest {act.of(QUESTS)}"]
        await tenant.ask(act, "CompleteQuest", id=quest_id, player_id=player_id, idempotency_key=act.key)


def _looks(operation: str) -> Callable[[Tenant, Act], Awaitable[None]]:
    async def look(tenant: Tenant, act: Act) -> None:
        if player_id := await _player(tenant, act):
            await tenant.ask(act, operation, id=tenant.ids[act.of(GAMES)], player_id=player_id)

    return look


async def name(tenant: Tenant, act: Act) -> None:
    """Says who it is, in words of its own that nobody else has."""
    if player_id := await _player(tenant, act):
        said = f"name_{act.number}"
        about = {"display_name": said, "attributes": {"pet": said}}
        await tenant.ask(act, "UpdatePlayer", player_id=player_id, player=about)


async def merge(tenant: Tenant, act: Act) -> None:
    """The guest logs in; whoever goes on in its name is another guest."""
    if guest_id := tenant.people.get(act.who, ""):
        await _log_in(tenant, act, GUESTS[act.who], guest_id)
        if tenant.people.get(act.who) == guest_id:
            tenant.people[act.who] = ""


async def _log_in(tenant: Tenant, act: Act, name: str, guest_id: str) -> None:
    contact = {"type": "email", "value": f"{name}@example.com"}
    reply = await tenant.ask(act, "ResolvePlayer", contact=contact, guest_player_id=guest_id)
    if reply is not None:
        tenant.people[name] = reply.player.id


# -------------------------------------------------------------------- what staff does


def _ends(operation: str) -> Callable[[Tenant, Act], Awaitable[None]]:
    async def end(tenant: Tenant, act: Act) -> None:
        if tenant.rewards:
            await tenant.ask(act, operation, id=act.of(tenant.rewards)[1], idempotency_key=act.key)

    return end


async def bulk(tenant: Tenant, act: Act) -> None:
    """Some rewards at once, and under the same key again where some of them could not be moved just now."""
    known = list(dict.fromkeys(reward_id for _, reward_id in tenant.rewards))
    first = act.which % max(1, len(known))
    if some := known[first : first + 4]:
        asked = {
            "act": act.of(("fulfill", "revoke", "retry")),
            "ids": some,
            "reason": "staff",
            "idempotency_key": act.key,
        }
        while reply := await tenant.ask(act, "BulkRewards", **asked):
            if not any(part.reason in LATER for part in reply.results):
                break


def _anybody(tenant: Tenant, act: Act) -> str:
    """The id that somebody has by now; one of nobody where it has none."""
    who = act.of((*PLAYERS, *GUESTS.values(), *GUESTS))
    return tenant.people.get(who) or "nobody"


async def give(tenant: Tenant, act: Act) -> None:
    about = {"campaign_id": tenant.ids["campaign"], "amount": abs(act.amount), "reason": act.key}
    await tenant.ask(act, "GrantTurns", id=_anybody(tenant, act), **about, idempotency_key=act.key)


async def join(tenant: Tenant, act: Act) -> None:
    """A guest is a player's, say staff, who may only look; not always the one whom it would log in as."""
    player = act.of(sorted({*GUESTS.values()}))
    if not tenant.people.get(player):
        await _log_in(tenant, act, player, "")
    guests = [tenant.people[who] for who in sorted(GUESTS) if tenant.people.get(who)] or ["nobody"]
    asked = {"id": tenant.people.get(player) or "nobody", "guest_id": act.of(guests)}
    await tenant.ask(act, "MergePlayer", **asked, preview=act.which % 3 == 0)


async def erase(tenant: Tenant, act: Act) -> None:
    """Who is known by a contact, or is a guest, is another from then on; who has a name of an app's own is not."""
    player_id = _anybody(tenant, act)
    if await tenant.ask(act, "ErasePlayer", id=player_id, reason="asked for") is not None:
        tenant.people |= {who: "" for who, at in tenant.people.items() if at == player_id and who not in PLAYERS}


async def adjust(tenant: Tenant, act: Act) -> None:
    name = act.of((*PLAYERS, *GUESTS.values()))
    asked = {"player_id": tenant.people.get(name) or name, "scope_key": tenant.ids["campaign"]}
    more = {"currency": "coin", "amount": act.amount, "reference_id": act.key, "idempotency_key": act.key}
    await tenant.ask(act, "AdjustBalance", **asked, **more)


async def restock(tenant: Tenant, act: Act) -> None:
    prize_id = tenant.ids[act.of(STOCKED)]
    reply = await tenant.ask(act, "GetPrize", id=prize_id)
    total = max(1, reply.prize.stock.total + act.amount)
    await tenant.ask(act, "UpdatePrize", id=prize_id, prize={"stock": {"total": total}})


async def move(tenant: Tenant, act: Act) -> None:
    """Some more of a prize, or so many in all."""
    asked = {"change": act.amount} if act.amount > 0 else {"total": 1 + act.which % 8}
    prize_id = tenant.ids[act.of(STOCKED)]
    await tenant.ask(act, "MoveStock", id=prize_id, **asked, reason=act.key, idempotency_key=act.key)


async def cap(tenant: Tenant, act: Act) -> None:
    """More plays or wins than before, or fewer than there were already."""
    capped = act.of(sorted(CAPS))
    kind, part, limit = CAPS[capped]
    most = {part: {limit: 1 + act.which // len(CAPS) % 4}}
    await tenant.ask(act, f"Update{kind.title()}", id=tenant.ids[capped], **{kind: most})


async def codes(tenant: Tenant, act: Act) -> None:
    await tenant.ask(
        act, "ImportCodes", id=tenant.ids["coded"], codes=[f"MORE-{act.which % 20}"], idempotency_key=act.key
    )


async def chance(tenant: Tenant, act: Act) -> None:
    """Another revision: sessions that are open are of the one before."""
    config = {"prizes": [{"prize_id": tenant.ids["points"], "probability": act.which / 1_000}]}
    await tenant.ask(act, "UpdateGame", id=tenant.ids[act.of(("capped", "paid"))], game={"handler_config": config})


def _for_a_while(change: Callable[[Tenant, Act, str], Awaitable[Any]], off: str) -> Callable[..., Awaitable[None]]:
    async def work(tenant: Tenant, act: Act) -> None:
        await change(tenant, act, off)
        await tenant.ask(act, "GetCampaign", id=tenant.ids["campaign"])
        await change(tenant, act, "active")

    return work


def _game_is(tenant: Tenant, act: Act, status: str) -> Awaitable[Any]:
    return tenant.ask(act, "UpdateGame", id=tenant.ids[act.of(GAMES)], game={"status": status})


def _campaign_is(tenant: Tenant, act: Act, status: str) -> Awaitable[Any]:
    return tenant.ask(act, "UpdateCampaign", id=tenant.ids["campaign"], campaign={"status": status})


def _player_is(tenant: Tenant, act: Act, status: str) -> Awaitable[Any]:
    name = act.of((*PLAYERS, *GUESTS.values()))
    return tenant.ask(act, "SetPlayerStatus", id=tenant.people.get(name) or name, status=status)


def _tenant_is(tenant: Tenant, act: Act, status: str) -> Awaitable[Any]:
    return tenant.ask(act, "UpdateTenant", id=tenant.tenant_id, tenant={"status": status})


async def zone(tenant: Tenant, act: Act) -> None:
    await tenant.ask(act, "UpdateCampaign", id=tenant.ids["campaign"], campaign={"timezone": act.of(ZONES)})


async def finalize(tenant: Tenant, act: Act) -> None:
    await tenant.ask(act, "FinalizeLeaderboard", id=act.of(tenant.boards))


async def score(tenant: Tenant, act: Act) -> None:
    asked = {"id": tenant.boards[-1], "player_id": act.of(PLAYERS), "delta": act.amount, "reason": "a correction"}
    await tenant.ask(act, "AdjustScore", **asked, idempotency_key=act.key)


async def disqualify(tenant: Tenant, act: Act) -> None:
    await tenant.ask(act, "DisqualifyPlayer", id=tenant.boards[-1], player_id=act.of(PLAYERS), reason="a cheat")


async def spare(tenant: Tenant, act: Act) -> None:
    """Something that is there to be taken away again, while it is used: a game, a quest, a board, a prize."""
    campaign = {"campaign_id": tenant.ids["campaign"]}
    match act.which % 4:
        case 0:
            made = await tenant.make(act, "game", name="Spare", **campaign, **COLLECT, status="active")
            tenant.ids |= {"spare": made} if made else {}
        case 1:
            made = await tenant.make(act, "quest", name="Spare", **campaign, type="daily", turns=1, status="active")
            tenant.ids |= {"quest daily": made} if made else {}
        case 2:
            await tenant.make_board(act)
            made = tenant.boards[-1]
        case _:
            made = await tenant.make(act, "prize", name="Spare", type="goods")
    if made:
        tenant.spares.append((("DeleteGame", "DeleteQuest", "DeleteLeaderboard", "DeletePrize")[act.which % 4], made))


async def remove(tenant: Tenant, act: Act) -> None:
    if tenant.spares:
        operation, identifier = act.of(tenant.spares)
        if operation == "DeleteGame":
            await tenant.ask(act, "UpdateGame", id=identifier, game={"status": "paused"})
        await tenant.ask(act, operation, id=identifier)


async def integration(tenant: Tenant, act: Act) -> None:
    for status in ("paused", "active"):
        await tenant.ask(act, "UpdateIntegration", id=tenant.ids["hook"], integration={"status": status})


async def emit(tenant: Tenant, act: Act) -> None:
    await tenant.ask(act, "EmitEvent", type="play_completed", data={"n": act.number}, idempotency_key=act.key)


# -------------------------------------------------------------------- what machines and time do


async def callback(tenant: Tenant, act: Act) -> None:
    """Some workflow is over, twice as often well as not."""
    if task := await _a_task(tenant, act, "awaiting"):
        await tenant.ask(act, "CompleteTask", id=task, status="delivered" if act.which % 3 else "failed")


async def retry(tenant: Tenant, act: Act) -> None:
    if task := await _a_task(tenant, act, ""):
        await tenant.ask(act, "RetryTask", id=task)


async def _a_task(tenant: Tenant, act: Act, status: str) -> str:
    reply = await tenant.ask(act, "ListTasks", limit=100, **({"status": status} if status else {}))
    return str(act.of(reply.items).id) if reply is not None and reply.items else ""


async def expire(tenant: Tenant, act: Act) -> None:
    """What was won first and not claimed is late, all at once."""
    await _later(
        tenant,
        "UPDATE rewards SET expires_at = now() WHERE (tenant_id, reward_id) IN (SELECT tenant_id, reward_id FROM"
        " rewards WHERE tenant_id = $1 AND status = 'won' AND expires_at > now() ORDER BY reward_id LIMIT 3)",
        expiry.expire,
    )


async def overdue(tenant: Tenant, act: Act) -> None:
    """No callback came."""
    await _later(
        tenant,
        "UPDATE tasks SET lease_until = now() WHERE (tenant_id, task_id) IN (SELECT tenant_id, task_id FROM tasks"
        " WHERE tenant_id = $1 AND status = 'awaiting' ORDER BY task_id LIMIT 2)",
        expiry.give_up_awaited,
    )


async def _later(tenant: Tenant, passes: str, work: Callable[[Any], Awaitable[int]]) -> None:
    engine = tenant.stage.cores[WORKER].engine
    try:
        await engine.database.execute(passes, tenant.tenant_id)
        await work(engine)
    except Fault as fault:
        assert fault.status is Status.UNAVAILABLE, fault


PERFORM: Final[Mapping[str, Callable[[Tenant, Act], Awaitable[None]]]] = {
    **{work.__name__: work for work in (start, play, burst, again, claim, redeem, quest, merge, name)},
    **{work.__name__: work for work in (bulk, give, join, erase, move, cap)},
    **{work.__name__: work for work in (adjust, restock, codes, chance, zone, finalize, score, disqualify)},
    **{work.__name__: work for work in (spare, remove, integration, emit, callback, retry, expire, overdue)},
    "eligibility": _looks("GetEligibility"),
    "milestones": _looks("ListMilestones"),
    "revoke": _ends("RevokeReward"),
    "fulfill": _ends("FulfillReward"),
    "pause": _for_a_while(_game_is, "paused"),
    "close": _for_a_while(_campaign_is, "paused"),
    "suspend": _for_a_while(_player_is, "suspended"),
    "shut": _for_a_while(_tenant_is, "suspended"),
    "board": Tenant.make_board,
}
