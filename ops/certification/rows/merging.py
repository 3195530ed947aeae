"""Guests who log in while they play, redeem and claim."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import jwt

from ops.certification.catalogue import CAP, COINS, STAFF, THRESHOLDS, World
from ops.certification.row import row
from ops.certification.run import Run
from ops.history.record import Asked
from ops.history.tables import connected, read

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
    # Together guests may have more than one player's cap, by design (operations/players/merging.py), but nothing is
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
