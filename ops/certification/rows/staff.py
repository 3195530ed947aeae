"""What staff does, and guests who log in, while players play."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import jwt

from ops.certification.catalogue import COINS, STAFF, THRESHOLDS, World, found, furnish
from ops.certification.history import History
from ops.certification.judging import judge
from ops.certification.judging.tables import connected
from ops.certification.load import Load, Player, running
from ops.certification.row import row
from ops.certification.run import Run

Act = Callable[[Run, Load, int], Awaitable[object]]

WINDOW_SECONDS: Final = 6.0
ACTS_PER_SECOND: Final = 20.0
"""Of staff, of all kinds together: more than any campaign's staff does, and time left to play."""

ENDED: Final = ("PLAYER_MERGED", "TOKEN_INVALID", "SESSION_INVALID", "SESSION_PLAYED", "LOGIN_REQUIRED")
"""What a guest may be told once it has become somebody else."""


async def fair(world: World) -> None:
    """A game that guests play too, whose coins are exchanged for a cup that is claimed, and a board."""
    cup = await world.prize("cup", mode="ON_CLAIM")
    rungs = [{"id": "first", "name": "first", "currency": "coin", "threshold": THRESHOLDS["first"], "prize_id": cup}]
    await world.game(
        "fair",
        type="collection",
        reward_handler="lucky_item",
        access="GAME_ACCESS_PUBLIC",
        handler_config={"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]},
        milestones={"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "auto_grant": False, "rungs": rungs},
    )


class Guest:
    """A guest of the fair, with some sessions in hand, who will log in with a contact."""

    def __init__(self, world: World, nth: int) -> None:
        self.world, self.name, self.contact = world, f"guest {nth}", f"guest{nth // 2}@example.com"
        self.player_id = ""
        self.sessions: list[str] = []
        self._keys = 0

    async def arrive(self, sessions: int) -> None:
        path = f"/games/{self.world.ids['fair']}/start"
        client = self.world.client
        first = await client.ask("Start", "", "POST", path, {}, of="fair")
        client.bearers[self.name] = token = first.data["guest_token"]
        self.player_id = str(jwt.decode(token, options={"verify_signature": False})["sub"])
        self.sessions = [first.data["session_id"]]
        for _ in range(sessions - 1):
            more = await client.ask("Start", self.name, "POST", path, {}, of="fair", key=self._key())
            self.sessions.append(more.data["session_id"])

    async def play(self) -> None:
        session = self.sessions.pop()
        path, body = f"/games/{self.world.ids['fair']}/play", {"session_id": session, "payload": {}}
        await self._ask("Play", path, body)

    async def redeem(self) -> None:
        path = f"/games/{self.world.ids['fair']}/redeem"
        refusals = (*ENDED, "THRESHOLD_NOT_REACHED", "ALREADY_GRANTED")
        await self._ask("Redeem", path, {"milestone_id": "first"}, refusals=refusals)

    async def log_in(self) -> str:
        """Becomes whoever has the contact; the player's id."""
        body = {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": self.contact}, "guest_player_id": self.player_id}
        ask = self.world.client.ask
        told = await ask("ResolvePlayer", STAFF, "POST", "/players/resolve", body, surface="core", of_player=False)
        return str(told.data["player"]["id"]) if told.ok else ""

    async def _ask(self, operation: str, path: str, body: dict[str, Any], refusals: tuple[str, ...] = ENDED) -> None:
        ask = self.world.client.ask
        await ask(operation, self.name, "POST", path, body, of="fair", key=self._key(), refusals=refusals)

    def _key(self) -> str:
        self._keys += 1
        return f"{self.name} {self._keys}"


@row("merging", fault="Merge under load", quick=12, full=200, unit="guests", furnished=False)
async def merging(run: Run) -> None:
    """Guests log in, two by two as one player, with plays and redeems in flight; a Core is killed meanwhile."""
    world = run.world
    await fair(world)
    guests = [Guest(world, nth) for nth in range(run.size)]
    for guest in guests:
        await guest.arrive(5)

    async def one(guest: Guest, dice: random.Random) -> str:
        deeds = [*(guest.play() for _ in range(4)), guest.redeem()]
        dice.shuffle(deeds)
        await deeds.pop()
        *_, player = await asyncio.gather(*deeds, guest.log_in())
        await asyncio.gather(*(guest.play() for _ in guest.sessions))
        return str(player)

    dice = run.dice
    for nth in range(0, run.size, 6):
        batch = guests[nth : nth + 6]
        merged = asyncio.gather(*(one(guest, dice) for guest in batch))
        if nth % 12 == 0:
            core = dice.choice(run.stack.cores)
            await asyncio.sleep(dice.random() * 0.1)
            core.kill()
            run.note(f"{core.name} killed")
            await core.start(run.stack.http)
        players = await merged
        for guest, player in zip(batch, players, strict=True):
            if player:
                await guest.log_in()  # Once more: nothing is to come of it.
    ended = [guest.player_id for guest in guests]
    async with connected(run.stack.settings) as database:
        owned = [
            await database.fetchval(
                f"SELECT count(*) FROM {table} WHERE tenant_id = $1 AND player_id = ANY($2)", world.tenant_id, ended
            )
            for table in ("plays", "turn_balances")
        ]
        # What is beyond a cap of the player's stays with the guest: delivered before, or taken back.
        owned.append(
            await database.fetchval(
                "SELECT count(*) FROM rewards WHERE tenant_id = $1 AND player_id = ANY($2)"
                " AND status NOT IN ('fulfilled', 'revoked', 'expired')",
                world.tenant_id,
                ended,
            )
        )
        plays = await database.fetchval("SELECT count(*) FROM plays WHERE tenant_id = $1", world.tenant_id)
    answered = sum(asked.ok for asked in run.history.of("Play"))
    run.figure("plays", plays, least=answered)
    run.figure("plays, turns and open rewards that an ended guest still has", sum(owned), exactly=0)


@dataclass
class Side:
    """A tenant that is played and managed. people: who has played; staff: who manages, and never plays."""

    world: World
    people: list[Player] = field(default_factory=list)
    staff: Load = field(init=False)

    def __post_init__(self) -> None:
        self.staff = Load(self.world, random.Random(), prefix="staff", people=self.people)

    async def played(self, run: Run, prefix: str, seconds: float, managed: Side | None = None) -> float:
        """The plays a second, as fast as they go, while ACTS_PER_SECOND are done on a side."""
        load = Load(self.world, run.dice, staff=False, think_seconds=0.0, prefix=prefix, people=self.people)
        async with running(load):
            await load.for_seconds(1)
            acts = (
                [] if managed is None else [asyncio.ensure_future(_paced(act, run, managed, seconds)) for act in ACTS]
            )
            rate = await load.for_seconds(seconds)
            await asyncio.gather(*acts)
        return rate


@row("admin-against-play", fault="Admin against play", quick=2, full=8, unit="rounds of three windows")
async def admin_against_play(run: Run) -> None:
    """Revokes, prizes, campaign, finalize and merges, 20 acts a second; how plays go beside as many on another tenant.

    Those take as much of the processors, and of the load's own, but hold no row and change no catalogue that the plays
    need: so the figure is what staff's locks and changes cost, and not how fast the machine is. Each tenant is played
    in its turn, so that both grow alike.
    """
    sides = [Side(run.world), Side(await found(run.stack, History()))]
    await furnish(sides[1].world, run.receiver.url)
    for side in sides:
        await fair(side.world)
        await side.played(run, "first", 2)
    deadlocks = len(run.stack.postgres.deadlocks())
    alone: list[float] = []
    beside: list[float] = []
    elsewhere: list[float] = []
    for nth in range(run.size):
        one, other = sides if nth % 2 == 0 else sides[::-1]
        alone.append(await one.played(run, f"a{nth}-", WINDOW_SECONDS))
        run.note("staff begins")
        beside.append(await one.played(run, f"b{nth}-", WINDOW_SECONDS, one))
        run.note("staff goes elsewhere")
        elsewhere.append(await one.played(run, f"e{nth}-", WINDOW_SECONDS, other))
        run.note("staff has ended")
    run.figure("plays a second without staff", sum(alone) / run.size, slowness=await run.slowness.read())
    run.figure("part of that rate beside staff", sum(beside) / sum(alone))
    run.figure("part of the rate beside acts elsewhere", sum(beside) / sum(elsewhere), least=0.5)
    run.figure("deadlocks", len(run.stack.postgres.deadlocks()) - deadlocks, exactly=0)
    await judge(replace(run, world=sides[1].world))


async def _paced(act: Act, run: Run, side: Side, seconds: float) -> None:
    """Does its part of the acts, each when it is due; one that comes late is not left out."""
    began, every = time.monotonic(), len(ACTS) / ACTS_PER_SECOND
    for nth in range(round(seconds / every)):
        await asyncio.sleep(began + nth * every - time.monotonic())
        await act(run, side.staff, nth)


@row("staff-and-kills", fault="Admin against play", quick=3, full=20, unit="kills")
async def staff_and_kills(run: Run) -> None:
    """The same acts beside plays, while either Core is killed at random moments; each board is finalized once."""
    await fair(run.world)
    stop = asyncio.Event()
    async with run.loaded(staff=False) as load:
        await load.more(10)
        loops = [asyncio.ensure_future(_loop(act, run, load, stop)) for act in ACTS]
        for _ in range(run.size):
            await load.more(run.dice.randrange(1, 30))
            core = run.dice.choice(run.stack.cores)
            core.kill()
            run.note(f"{core.name} killed")
            await core.start(run.stack.http)
        await load.more(10)
        stop.set()
        acts = sum(await asyncio.gather(*loops))
    finals = {asked.of: _standings(asked.data) for asked in run.history.of("FinalizeLeaderboard") if asked.ok}
    others = 0
    for board, standings in finals.items():
        path = f"/admin/leaderboards/{board}/finalize"
        again = await run.world.client.ask("FinalizeLeaderboard", STAFF, "POST", path, {}, surface="admin", of=board)
        others += _standings(again.data) != standings
    run.figure("acts of staff", acts, least=len(ACTS))
    run.figure("boards finalized", len(finals), least=1)
    run.figure("boards whose standings are others when asked again", others, exactly=0)


def _standings(board: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Ranks and prizes; not whose they are: a guest may have become somebody since."""
    return [(one["rank"], one["score"], one["prize_id"], one["reward_id"]) for one in board["standings"]]


async def _loop(act: Act, run: Run, load: Load, stop: asyncio.Event) -> int:
    done = 0
    while not stop.is_set():
        await act(run, load, done)
        done += 1
    return done


async def _revoke(run: Run, load: Load, nth: int) -> None:
    rewards = [reward for player in load.people[-20:] for reward in player.rewards]
    if not rewards:
        await asyncio.sleep(0.1)
        return
    reward = run.dice.choice(rewards)
    await load.manage("RevokeReward", "POST", f"/admin/rewards/{reward}/revoke", {}, of=reward)


async def _prize(run: Run, load: Load, nth: int) -> None:
    world = load.world
    total = world.stock["trophy"] = world.stock["trophy"] + 1
    path = f"/admin/prizes/{world.ids['trophy']}"
    await load.manage("UpdatePrize", "PUT", path, {"stock": {"total": total}}, of="trophy")


async def _campaign(run: Run, load: Load, nth: int) -> None:
    path = f"/admin/campaigns/{load.world.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": nth}})


async def _finalize(run: Run, load: Load, nth: int) -> None:
    world, name = load.world, f"board {run.dice.random()}"
    prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": world.ids["trophy"]}]
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM", "prizes": prizes}
    made = await world.make("leaderboard", name, campaign_id=world.campaign, **board)
    await load.manage("FinalizeLeaderboard", "POST", f"/admin/leaderboards/{made}/finalize", {}, of=made)


async def _merge(run: Run, load: Load, nth: int) -> None:
    guest = Guest(load.world, run.dice.randrange(1 << 30))
    await guest.arrive(1)
    await guest.play()
    await guest.log_in()


ACTS: Final[tuple[Act, ...]] = (_revoke, _prize, _campaign, _finalize, _merge)
