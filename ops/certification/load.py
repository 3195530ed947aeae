"""The load: players with several requests in flight each, and staff.

A player acts at random and leaves after LIFE actions. New ones replace it, so that caps and quests are reached again
and again, and each player's history stays short enough for the checker.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ops.certification.site import GAMES, STAFF, THRESHOLDS, Site

FLIGHTS: Final = 3
"""Concurrent requests of a player."""

LIFE: Final = 40
"""Actions of a player before it leaves."""

THINK_SECONDS: Final = 0.05
"""Mean pause between two actions, which leaves the machine enough idle time for measurements."""

LOAD_SECONDS_MAX: Final = 180.0
"""How long a scenario waits for further plays."""

AGAIN: Final = 0.05
"""Share of requests that are sent once more with the same key."""


@dataclass
class Player:
    """A player and the rewards it knows. known: the service has a row for it."""

    name: str
    rewards: list[str] = field(default_factory=list)
    deeds: int = 0
    known: bool = False


@dataclass
class Load:
    """The load on a site. players: concurrent ones. staff: whether staff acts too."""

    site: Site
    dice: random.Random
    players: int = 8
    staff: bool = True
    think_seconds: float = THINK_SECONDS
    prefix: str = "p"
    plays: int = 0
    people: list[Player] = field(default_factory=list)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _keys: int = 0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self) -> None:
        self._tasks = [asyncio.ensure_future(self._live()) for _ in range(self.players)]
        if self.staff:
            self._tasks.append(asyncio.ensure_future(self._manage()))

    async def end(self) -> None:
        """Waits for all responses. Raises the first failure."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def more(self, plays: int) -> None:
        """Waits for further plays. TimeoutError after LOAD_SECONDS_MAX."""
        wanted = self.plays + plays
        async with asyncio.timeout(LOAD_SECONDS_MAX):
            while self.plays < wanted:
                for task in self._tasks:
                    if task.done():
                        await task  # It failed.
                await asyncio.sleep(0.005)

    async def for_seconds(self, seconds: float) -> float:
        """Runs for some seconds; returns the plays per second."""
        before, began = self.plays, time.monotonic()
        await asyncio.sleep(seconds)
        return (self.plays - before) / (time.monotonic() - began)

    def key(self) -> str:
        """A new idempotency key."""
        self._keys += 1
        return f"{self.prefix}-key-{self._keys}"

    # -- players ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        while not self._stopping.is_set():
            player = Player(f"{self.prefix}{len(self.people)}")
            self.people.append(player)
            await asyncio.gather(*(self._fly(player) for _ in range(FLIGHTS)))

    async def _fly(self, player: Player) -> None:
        while not self._stopping.is_set() and player.deeds < LIFE:
            player.deeds += 1
            deed = self.dice.choices(DEEDS, WEIGHTS)[0]
            await deed(self, player)
            await asyncio.sleep(self.dice.expovariate(1 / self.think_seconds) if self.think_seconds else 0)

    async def ask(self, player: Player, operation: str, verb: str, path: str, body: Any = None, **more: Any) -> Any:
        """A player's request, with a new key if it writes. Returns the response's data, None if refused."""
        key = self.key() if verb == "POST" else ""
        again = bool(key) and self.dice.random() < AGAIN
        request = await self.site.client.ask(operation, player.name, verb, path, body, key=key, again=again, **more)
        return request.data

    async def round(self, player: Player, game: str = "") -> None:
        """Starts a game and plays it; sometimes submits the session twice concurrently."""
        game = game or self.dice.choice(GAMES)
        path = f"/games/{self.site.ids[game]}"
        started = await self.ask(player, "Start", "POST", f"{path}/start", {}, of=game)
        if started is None:
            return
        player.known = True
        session = started["session_id"]
        body = {"session_id": session, "payload": _payload(game, started, self.dice)}
        if self.dice.random() < 0.3:
            body["client_seed"] = f"luck {self.dice.randrange(1000)}"
        twins = 2 if self.dice.random() < AGAIN else 1
        await asyncio.gather(*(self._play(player, game, body) for _ in range(twins)))

    async def _play(self, player: Player, game: str, body: dict[str, Any]) -> None:
        path = f"/games/{self.site.ids[game]}/play"
        played = await self.ask(player, "Play", "POST", path, body, of=game)
        if played is not None:
            self.plays += 1
            player.rewards += [one["reward_id"] for one in played["rewards"] if one.get("reward_id")]

    async def _claim(self, player: Player) -> None:
        if player.rewards:
            reward = self.dice.choice(player.rewards)
            await self.ask(player, "ClaimReward", "POST", f"/rewards/{reward}/claim", {}, of=reward)

    async def _redeem(self, player: Player) -> None:
        body = {"milestone_id": self.dice.choice(list(THRESHOLDS))}
        path = f"/games/{self.site.ids['exchange']}/redeem"
        await self.ask(player, "Redeem", "POST", path, body, of="exchange")

    async def _quest(self, player: Player) -> None:
        quest = self.dice.choice(("once", "daily quest"))
        await self.ask(player, "CompleteQuest", "POST", f"/quests/{self.site.ids[quest]}/complete", {}, of=quest)

    # -- staff -----------------------------------------------------------------------------------

    async def _manage(self) -> None:
        while not self._stopping.is_set():
            if self.people:
                await self.dice.choice(CHORES)(self)
            await asyncio.sleep(self.dice.expovariate(1 / (4 * THINK_SECONDS)))

    async def manage(self, operation: str, verb: str, path: str, body: Any, **more: Any) -> Any:
        """A staff request with a new key. Returns the response's data, None if refused."""
        key = self.key() if verb == "POST" else ""
        again = bool(key) and self.dice.random() < AGAIN
        client = self.site.client
        request = await client.ask(operation, STAFF, verb, path, body, surface="admin", key=key, again=again, **more)
        return request.data

    async def _adjust(self) -> None:
        known = [player for player in self.people[-2 * self.players :] if player.known]
        if not known:
            return
        player = self.dice.choice(known)
        body = {
            "player_id": player.name,
            "scope_key": self.site.campaign,
            "currency": self.dice.choice(("coin", "points")),
            "amount": self.dice.choice((1, 5, -1, -3)),
            "reference_id": f"ref {self._keys}",
        }
        await self.manage("AdjustBalance", "POST", "/admin/wallet/adjustments", body, of=player.name)

    async def _restock(self) -> None:
        name = self.dice.choice(("mug", "trophy", "parcel"))
        total = self.site.stock[name] = self.site.stock[name] + 10
        body = {"stock": {"total": total}}
        await self.manage("UpdatePrize", "PUT", f"/admin/prizes/{self.site.ids[name]}", body, of=name)


def _payload(game: str, started: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    if game == "gift":
        return {"caught_items": [one["id"] for one in started.get("drop_plan", ()) if one["type"] == "apple"][:1]}
    return {"score": dice.randrange(100), "duration_ms": 1000} if game == "eggs" else {}


Deed = Callable[[Load, Player], Awaitable[None]]
Chore = Callable[[Load], Awaitable[None]]


def _reads(operation: str, path: str, *named: str) -> Deed:
    """A read of the campaign, or of one of the things of these names."""

    async def read(load: Load, player: Player) -> None:
        of = load.dice.choice(named) if named else ""
        about = path.format(load.site.ids[of] if of else load.site.campaign)
        await load.ask(player, operation, "GET", about, of=of)

    return read


def _ends(operation: str, verb: str) -> Chore:
    """Staff ends a reward of a recent player."""

    async def end(load: Load) -> None:
        rewards = [reward for player in load.people[-2 * load.players :] for reward in player.rewards]
        if rewards:
            reward = load.dice.choice(rewards)
            await load.manage(operation, "POST", f"/admin/rewards/{reward}/{verb}", {}, of=reward)

    return end


_DEEDS: Final[dict[Deed, int]] = {
    Load.round: 12,
    Load._claim: 3,
    Load._redeem: 2,
    Load._quest: 2,
    _reads("ListBalances", "/wallet?scope_key={}"): 2,
    _reads("ListRewards", "/rewards/me?campaign_id={}&limit=100"): 2,
    _reads("GetEligibility", "/games/{}/eligibility", *GAMES): 1,
    _reads("ListMilestones", "/games/{}/milestones", "unlock", "exchange"): 1,
    _reads("ListRankings", "/leaderboards/{}/rankings", "board"): 1,
}
DEEDS: Final = list(_DEEDS)
WEIGHTS: Final = list(_DEEDS.values())
CHORES: Final[tuple[Chore, ...]] = (
    *(Load._adjust, Load._restock, _ends("RevokeReward", "revoke"), _ends("FulfillReward", "fulfill")),
)


@asynccontextmanager
async def loaded(site: Site, dice: random.Random, **more: Any) -> AsyncIterator[Load]:
    """Runs the load for the length of the block, then waits for all responses."""
    load = Load(site, dice, **more)
    load.begin()
    try:
        yield load
    except BaseException:
        load.cancel()
        raise
    await load.end()


Begin = Callable[..., AbstractAsyncContextManager[Load]]
"""Starts the load of a site for the length of a block. Takes the fields of Load."""
