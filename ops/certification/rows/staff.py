"""What staff does, and guests who log in, while players play."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import jwt

from ops.certification.catalogue import CAP, COINS, STAFF, THRESHOLDS, World, found, furnish
from ops.certification.errands import ELSEWHERE, never_done
from ops.certification.history import Asked, History
from ops.certification.judging import judge
from ops.certification.judging.tables import connected, read
from ops.certification.load import LOAD_SECONDS_MAX, Load, Player, running
from ops.certification.row import row
from ops.certification.run import Run
from runtime.operations import BY_NAME

Act = Callable[[Run, Load, int], Awaitable[object]]

DONE_SECONDS: Final = 60.0
"""How long what the dice have not chosen yet is waited for."""

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


class Visitor:
    """Somebody at the fair: plays, redeems, claims. name: as it asks."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.sessions: list[tuple[str, str]] = []
        self.cup = ""
        self._keys = 0

    async def start(self, game: str, sessions: int = 1) -> None:
        """Takes so many sessions in hand; none where the game's cap is reached."""
        path = f"/games/{self.world.ids[game]}/start"
        for _ in range(sessions):
            more = await self.ask("Start", path, {}, of=game)
            if more.ok:
                self.sessions.append((game, more.data["session_id"]))

    async def play(self) -> None:
        if self.sessions:
            game, session = self.sessions.pop()
            body = {"session_id": session, "payload": {}}
            await self.ask("Play", f"/games/{self.world.ids[game]}/play", body, of=game)

    async def redeem(self) -> None:
        path = f"/games/{self.world.ids['fair']}/redeem"
        refusals = (*ENDED, "THRESHOLD_NOT_REACHED", "ALREADY_GRANTED")
        redeemed = await self.ask("Redeem", path, {"milestone_id": "first"}, refusals, of="fair")
        if redeemed.ok:
            self.cup = redeemed.data["reward"]["id"]

    async def claim(self, reward: str = "") -> None:
        """The cup, unless told otherwise."""
        if reward := reward or self.cup:
            refusals = (*ENDED, "UNKNOWN_REWARD")
            await self.ask("ClaimReward", f"/rewards/{reward}/claim", {}, refusals, of=reward)

    async def ask(
        self, operation: str, path: str, body: dict[str, Any], refusals: tuple[str, ...] = ENDED, of: str = ""
    ) -> Asked:
        self._keys += 1
        key, ask = f"{self.name} {self._keys}", self.world.client.ask
        return await ask(operation, self.name, "POST", path, body, of=of, key=key, refusals=refusals)


class Guest(Visitor):
    """A guest of the fair, with some sessions in hand, who will log in with a contact. person: who has that."""

    def __init__(self, world: World, nth: int) -> None:
        super().__init__(world, f"guest {nth}")
        self.contact, self.player_id, self.person = f"guest{nth // 2}@example.com", "", ""

    async def arrive(self, sessions: int) -> None:
        path, client = f"/games/{self.world.ids['fair']}/start", self.world.client
        first = await client.ask("Start", "", "POST", path, {}, of="fair")
        client.bearers[self.name] = token = first.data["guest_token"]
        self.player_id = str(jwt.decode(token, options={"verify_signature": False})["sub"])
        self.sessions = [("fair", first.data["session_id"])]
        await self.start("fair", sessions - 1)

    async def log_in(self) -> str:
        """Becomes whoever has the contact; the player's id."""
        return await self.resolve({"guest_player_id": self.player_id})

    async def resolve(self, guest: dict[str, str]) -> str:
        body = {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": self.contact}, **guest}
        ask = self.world.client.ask
        told = await ask("ResolvePlayer", STAFF, "POST", "/players/resolve", body, surface="core", of_player=False)
        if told.ok:
            self.person = str(told.data["player"]["id"])
        return self.person if told.ok else ""


@row("merging", fault="Merge under load", quick=12, full=200, unit="guests", furnished=False)
async def merging(run: Run) -> None:
    """Guests log in, two by two as one player, with plays, redeems and claims in flight; a Core is killed meanwhile.

    The player plays, redeems and claims beside them, all of them a game with a cap too, and a board ends in the middle.
    """
    world, dice = run.world, run.dice
    await fair(world)
    sure = {"prizes": world.chances(cup=0.0)}
    await world.game("few", access="GAME_ACCESS_PUBLIC", handler_config=sure, rules={"max_plays_per_user": CAP})
    boards = [await _board(world, name) for name in ("middle", "last")]
    guests = [Guest(world, nth) for nth in range(run.size)]
    for guest in guests:
        await guest.arrive(5)
        await guest.start("few", 2)
    people: dict[str, Visitor] = {}
    for guest in guests[::4]:
        # Of every other pair the player is there before, with plays of its own, and plays on beside the merges.
        people[guest.contact] = person = Visitor(world, await guest.resolve({}))
        await person.start("fair", 4)
        await person.start("few", 3)
        await person.play()

    standings: dict[str, Any] = {}
    for nth in range(0, run.size, 6):
        batch = guests[nth : nth + 6]
        own = [people[contact] for contact in {guest.contact for guest in batch} if contact in people]
        ends = [_finalize_at(world, boards[0], standings)] if nth == run.size // 12 * 6 else []
        merged = asyncio.gather(*(_become(guest, dice) for guest in batch), *map(_go_on, own), *ends)
        if nth % 12 == 0:
            core = dice.choice(run.stack.cores)
            await asyncio.sleep(dice.random() * 0.1)
            core.kill()
            run.note(f"{core.name} killed")
            await core.start(run.stack.http)
        await merged
        for guest in batch:
            if guest.person:
                await guest.log_in()  # Once more: nothing is to come of it.
    for guest in guests:
        people.setdefault(guest.contact, Visitor(world, guest.person))
    before = {person.name: count for person, count in await _counted(run, people.values())}
    for person in people.values():
        # As many as there is room for, and one more.
        await person.start("few", CAP + 1)
        while person.sessions:
            await person.play()
        await person.claim()
    for guest in guests:
        # What it had no time to claim: it is the player's now, or was surplus.
        if guest.cup:
            await people[guest.contact].claim(guest.cup)
    await _finalize_at(world, boards[1], standings)
    await _merged(run, guests, people, before)
    await _stand_once(run, guests, boards, standings)


async def _become(guest: Guest, dice: random.Random) -> None:
    """Plays, redeems and claims, and logs in meanwhile."""
    if dice.random() < 0.7:
        # It has its cup before, so that the claim is under way while it logs in.
        guest.sessions.sort()
        await guest.play()
        await guest.play()
        await guest.play()
        await guest.redeem()
        deeds = [guest.claim()]
    else:
        deeds = [_redeem_and_claim(guest)]
    dice.shuffle(guest.sessions)
    deeds += [guest.play() for _ in guest.sessions[1:]]
    dice.shuffle(deeds)
    await deeds.pop()
    await asyncio.gather(*deeds, guest.log_in())
    while guest.sessions:
        await guest.play()


async def _redeem_and_claim(who: Visitor) -> None:
    await who.redeem()
    await who.claim()


async def _go_on(person: Visitor) -> None:
    """What the player itself does while guests become it."""
    await asyncio.gather(*(person.play() for _ in person.sessions[1:]), _redeem_and_claim(person))
    while person.sessions:
        await person.play()


async def _board(world: World, name: str) -> str:
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM"}
    prizes = [{"from_rank": 1, "to_rank": 3, "prize_id": world.ids["cup"]}]
    return await world.make("leaderboard", name, campaign_id=world.campaign, prizes=prizes, **board)


async def _finalize_at(world: World, board: str, standings: dict[str, Any]) -> None:
    """Ends the board; what it was answered."""
    path = f"/admin/leaderboards/{board}/finalize"
    asked = await world.client.ask("FinalizeLeaderboard", STAFF, "POST", path, {}, surface="admin", of=board)
    standings[board] = asked.data["standings"] if asked.ok else []


async def _counted(run: Run, people: Iterable[Visitor]) -> list[tuple[Visitor, int]]:
    """How many plays of the game with a cap each has by now, guests' and all."""
    async with connected(run.stack.settings) as database:
        rows = await database.fetch(
            "SELECT player_id, count(*) AS plays FROM plays WHERE tenant_id = $1 AND game_id = $2 GROUP BY player_id",
            *(run.world.tenant_id, run.world.ids["few"]),
        )
    plays = {row["player_id"]: row["plays"] for row in rows}
    return [(person, plays.get(person.name, 0)) for person in people]


async def _merged(run: Run, guests: list[Guest], people: dict[str, Visitor], before: dict[str, int]) -> None:
    """What must be true of who was somebody else before: by the answers of each, and the rows of all."""
    world, history = run.world, run.history
    async with connected(run.stack.settings) as database:
        tables = await read(database, world.tenant_id)
        turns = await database.fetchval(
            "SELECT count(*) FROM turn_balances WHERE tenant_id = $1 AND player_id = ANY($2)",
            *(world.tenant_id, [guest.player_id for guest in guests]),
        )
    ended = {guest.player_id for guest in guests}
    became = {guest.name: guest.person for guest in guests} | {one.name: one.name for one in people.values()}
    plays, rewards = tables.by("plays", "session_id"), tables.by("rewards", "reward_id")
    answered = [asked for asked in history.of("Play") if asked.ok]
    run.figure("plays", len(tables["plays"]), least=len(answered))
    # What is beyond a cap of the player's stays with the guest: delivered before, or taken back.
    final = ("fulfilled", "revoked", "expired")
    open_ones = [one for one in tables["rewards"] if one["player_id"] in ended and one["status"] not in final]
    left = turns + len(open_ones) + sum(one["player_id"] in ended for one in tables["plays"])
    run.figure("plays, turns and open rewards that an ended guest still has", left, exactly=0)
    astray = [
        asked.told()
        for asked in answered
        if plays.get((asked.body or {})["session_id"], {"player_id": ""})["player_id"] != became[asked.who]
    ]
    run.figure("answered plays that are not their person's", len(astray), f"of {len(answered)}", exactly=0)

    # Two coins a play, and a cup for four, unless it was taken back with its price.
    owner = {guest.player_id: guest.person for guest in guests}
    coins: Counter[str] = Counter()
    for one in tables["plays"]:
        coins[one["player_id"]] += COINS if world.names[one["game_id"]] == "fair" else 0
    for one in tables["rewards"]:
        if one["milestone_id"] and one["status"] != "revoked":
            coins[owner.get(one["player_id"], one["player_id"])] -= THRESHOLDS["first"]
    kept = {one["player_id"]: one["balance"] for one in tables["balances"] if one["currency"] == "coin"}
    unlike = [name for name in {one.name for one in people.values()} if kept.get(name, 0) != coins[name]]
    run.figure("people whose coins are not what they won less what they paid", len(unlike), exactly=0)

    claims, lost = 0, []
    for asked in history.of("ClaimReward"):
        if asked.ok:
            claims += 1
            reward = rewards[asked.of]
            surplus = reward["player_id"] in ended
            mine = owner.get(reward["player_id"], reward["player_id"]) == became[asked.who]
            # What a claim did not deliver yet may be surplus later, and is taken back then.
            waits = not asked.data.get("reward", asked.data).get("fulfilled_at")
            held = ("claimed", "fulfilled", *(("revoked",) if surplus and waits else ()))
            if not mine or reward["status"] not in held or reward["claimed_at"] is None:
                lost.append(asked.told())
    # Each was asked for once more by whose it is now.
    waiting = [one["reward_id"] for one in tables["rewards"] if one["milestone_id"] and one["status"] == "won"]
    run.figure("cups that nobody could claim", len(waiting), exactly=0)
    run.figure("claims that were answered", claims, least=1)
    run.figure("claims that were answered and are not there", len(lost), exactly=0)

    alone = Counter(asked.who for asked in answered if asked.of == "few")
    over = [who for who, count in alone.items() if who not in before and count > CAP]
    counts = {person.name: count for person, count in await _counted(run, people.values())}
    # Together guests may have more than one player's cap, by design (runtime/operations/merging.py), but nothing is
    # played beyond it once they are one.
    over += [name for name, count in counts.items() if count != max(CAP, before[name])]
    run.figure("people who played beyond a cap, or not up to it, once they were one", len(over), exactly=0)
    run.figure("people who had more than the cap by becoming one", sum(count > CAP for count in before.values()))
    for line in (*astray, *unlike, *waiting, *lost, *over):
        run.note(line)


async def _stand_once(run: Run, guests: list[Guest], boards: list[str], standings: dict[str, Any]) -> None:
    """The boards' ends: nobody twice, and no guest beside the place of whom it became."""
    owner = {guest.player_id: guest.person for guest in guests}
    twice = strays = 0
    for board in boards:
        first = [one["player_id"] for one in standings[board]]
        path = f"/admin/leaderboards/{board}/finalize"
        asked = await run.world.client.ask("FinalizeLeaderboard", STAFF, "POST", path, {}, surface="admin", of=board)
        last = [one["player_id"] for one in asked.data["standings"]]
        twice += len(first) - len(set(first)) + len(last) - len(set(last))
        # Of a board that ended before they were one, both keep their places.
        strays += sum(one in owner and (board == boards[1] or owner[one] not in last) for one in last)
        strays += first != last if board == boards[1] else 0
    run.figure("people twice in a board's standings", twice, exactly=0)
    run.figure("guests in standings where the player could stand", strays, exactly=0)


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


@row("all-operations", fault="", quick=1, full=2, unit="rounds of every errand")
async def all_operations(run: Run) -> None:
    """Every operation is asked beside the load until each errand was gone; each is answered as done at least once."""
    load = Load(run.world, run.dice)
    load.errands.pause_seconds = 0.05
    async with running(load):
        await run.until(lambda: _gone(load, run.size), LOAD_SECONDS_MAX * run.size)
        with suppress(TimeoutError):  # Then the figure says so.
            await run.until(lambda: _all_done(run, load), DONE_SECONDS)
    never = never_done(run.history.asked)
    run.note(f"never answered as done: {', '.join(never)}")
    run.figure("operations that were answered as done", len(BY_NAME) - len(ELSEWHERE) - len(never))
    run.figure("operations never answered as done", len(never), exactly=0)


async def _all_done(run: Run, load: Load) -> bool:
    await load.look()
    return not never_done(run.history.asked)


async def _gone(load: Load, rounds: int) -> bool:
    await load.look()
    return load.errands.rounds_least >= rounds


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
