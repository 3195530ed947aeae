"""What staff does, and guests who log in, while players play."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import jwt

from ops.certification.catalogue import COINS, STAFF, THRESHOLDS, World
from ops.certification.judging.tables import connected
from ops.certification.load import Load
from ops.certification.row import row
from ops.certification.run import Run

WINDOW_SECONDS: Final = 8.0
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


@row("admin-against-play", fault="Admin against play", quick=2, full=8, unit="pairs of windows")
async def admin_against_play(run: Run) -> None:
    """Revokes, prizes, campaign, finalize and merges in loops beside plays; the rate with them and without in turn."""
    await fair(run.world)
    deadlocks = len(run.stack.postgres.deadlocks())
    alone: list[float] = []
    beside: list[float] = []
    acts = 0
    async with run.loaded(staff=False, think_seconds=0.0) as load:
        await load.for_seconds(3)
        for _ in range(run.size):
            alone.append(await load.for_seconds(WINDOW_SECONDS))
            run.note("staff begins")
            stop = asyncio.Event()
            loops = [asyncio.ensure_future(_loop(act, run, load, stop)) for act in ACTS]
            beside.append(await load.for_seconds(WINDOW_SECONDS))
            stop.set()
            acts += sum(await asyncio.gather(*loops))
            run.note("staff has ended")
    ratio = sum(beside) / sum(alone)
    run.figure("plays a second alone", sum(alone) / run.size, slowness=await run.slowness.read())
    run.figure("acts of staff", acts, least=run.size * len(ACTS))
    run.figure("part of that rate beside staff", ratio, least=0.5)
    run.figure("deadlocks", len(run.stack.postgres.deadlocks()) - deadlocks, exactly=0)


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


async def _loop(act: Callable[[Run, Load, int], Awaitable[object]], run: Run, load: Load, stop: asyncio.Event) -> int:
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
    world = run.world
    total = world.stock["trophy"] = world.stock["trophy"] + 1
    path = f"/admin/prizes/{world.ids['trophy']}"
    await load.manage("UpdatePrize", "PUT", path, {"stock": {"total": total}}, of="trophy")


async def _campaign(run: Run, load: Load, nth: int) -> None:
    path = f"/admin/campaigns/{run.world.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": nth}})


async def _finalize(run: Run, load: Load, nth: int) -> None:
    name = f"board {run.dice.random()}"
    prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": run.world.ids["trophy"]}]
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM", "prizes": prizes}
    made = await run.world.make("leaderboard", name, campaign_id=run.world.campaign, **board)
    await load.manage("FinalizeLeaderboard", "POST", f"/admin/leaderboards/{made}/finalize", {}, of=made)


async def _merge(run: Run, load: Load, nth: int) -> None:
    guest = Guest(run.world, run.dice.randrange(1 << 30))
    await guest.arrive(1)
    await guest.play()
    await guest.log_in()


ACTS: Final = (_revoke, _prize, _campaign, _finalize, _merge)
