"""Values that the arguments of statements are drawn from: ids of what the model's tables have by then, mostly.

Each method of `Draw` is a word that tests/support/arguments.py says of statements what they take in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

from ops.simulation.postgres import ModelServer

TENANT = "tenant_a"
TODAY = date(2026, 11, 21)
GUESTS = tuple(f"guest_{letter * 26}" for letter in "uvw")
PLAYERS = ("ann", "bob")
SCHEDULE = [5.0, 300.0]


class Draw:
    """Draws arguments, by what one server has. focus: the greater, the more often the same things are drawn."""

    def __init__(self, server: ModelServer, random: Random, *, focus: int = 3) -> None:
        self.server = server
        self.random = random
        self._focus = focus
        self._made = 0

    def rows(self, table: str) -> list[Any]:
        """The committed rows of the tenant."""
        found = []
        for slot in self.server.store.tables[table].slots:
            rows = [version.row for version in slot.versions if version.commit is not None]
            if rows and rows[-1] is not None and rows[-1].tenant_id == TENANT:
                found.append(rows[-1])
        return found

    def some(self, table: str, column: str, **equals: Any) -> Any:
        """A value of a column; now and then one that nothing has."""
        found = [
            getattr(row, column)
            for row in self.rows(table)
            if all(getattr(row, name) == value for name, value in equals.items())
        ]
        if not found or self.random.random() > 0.95:
            return f"no_{column}"
        return self.early(found)

    def early(self, found: Sequence[Any]) -> Any:
        """One of these, mostly of the first."""
        return found[int(len(found) * self.random.random() ** self._focus)]

    def mostly(self, usual: str, *others: str) -> str:
        return usual if self.random.random() < 0.7 else self.random.choice(others)

    def new(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}_{self._made:05d}"

    # -- the words of ARGUMENTS ------------------------------------------------------------------

    def tenant(self) -> str:
        return TENANT if self.random.random() < 0.97 else "tenant_b"

    def campaign(self) -> str:
        return str(self.some("campaigns", "campaign_id"))

    def game(self) -> str:
        return str(self.some("games", "game_id"))

    def prize(self) -> str:
        return str(self.some("prizes", "prize_id"))

    def quest(self) -> str:
        return str(self.some("quests", "quest_id"))

    def board(self) -> str:
        return str(self.some("leaderboards", "board_id"))

    def integration(self) -> str:
        return str(self.some("integrations", "integration_id"))

    def reward(self) -> str:
        return str(self.some("rewards", "reward_id"))

    def task(self) -> str:
        return str(self.some("tasks", "task_id"))

    def play(self) -> str:
        return str(self.some("plays", "play_id"))

    def somebody(self) -> str:
        return str(self.early((PLAYERS[0], GUESTS[0], *PLAYERS, *GUESTS)))

    def registered(self) -> str:
        return str(self.early(PLAYERS))

    def guest(self) -> str:
        return str(self.early(GUESTS))

    def merchant(self) -> str:
        return self.random.choice(["merchant_a", "merchant_b", "no_merchant"])

    def asking(self) -> str:
        return self.mostly("", "merchant_a", "merchant_b")

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def pattern(self) -> str:
        return self.random.choice(["%", "%A%", "%name 1%"])

    def none(self) -> None:
        return None

    def empty(self) -> str:
        return ""

    def few(self) -> int:
        return self.random.choice([1, 2, 100])

    def many(self) -> int:
        return 100

    def zero(self) -> int:
        return 0

    def seconds(self) -> float:
        return self.random.choice([-1.0, 0.5, 60.0])

    def past_seconds(self) -> float:
        return self.random.choice([-1.0, 0.0])

    def any_campaign(self) -> str:
        return self.mostly("", self.campaign())

    def any_prize(self) -> str:
        return self.mostly("", self.prize())

    def any_game(self) -> str:
        return self.mostly("", self.game())

    def any_status(self) -> str:
        return self.mostly("", *["active", "archived", "won", "fulfilled", "pending", "ended"])

    def scope_key(self) -> str:
        return self.random.choice(["", "campaign_a", TENANT, "merchant_a"])

    def wallet(self) -> str:
        return self.random.choice(["campaign_a", TENANT, "merchant_a"])

    def currency(self) -> str:
        return self.random.choice(["points", "coin"])

    def subject(self) -> str:
        return self.random.choice(["staff_a", "staff_b"])

    def key(self) -> str:
        return self.random.choice(["key_a", "key_b"])

    def hash(self) -> bytes:
        return sha256(self.key().encode()).digest()

    def name(self) -> str:
        return f"A name {self.random.randrange(3)}"

    def prizes(self) -> list[str]:
        return list({self.prize() for _ in range(4)})

    def rewards(self) -> list[str]:
        return list({self.reward() for _ in range(5)})

    def tasks(self) -> list[str]:
        return list({self.task() for _ in range(5)})

    def games(self) -> list[str]:
        return list({self.game() for _ in range(3)})

    def players(self) -> list[str]:
        return list({self.somebody() for _ in range(3)})

    def definition(self) -> dict[str, Any]:
        scope = self.random.choice(["campaign", "merchant"])
        return {"ui": {"color": self.name()}, "wallet_scope": scope, "prizes": [{"prize_id": self.prize()}]}

    def config(self) -> dict[str, Any]:
        key_id = self.random.choice(["1", "2", "old"])
        return self.random.choice([{}, {"url": "https://x.example"}, {"secret": f"sealed:{key_id}:zzz"}])

    def active(self) -> str:
        return self.random.choice(["active", "active", "paused"])

    def unix_time(self) -> int:
        return self.random.choice([0, 0, 1_700_000_000, 1_900_000_000])

    def zone(self) -> str:
        return self.random.choice(["UTC", "Europe/Berlin", "Asia/Tokyo"])

    def origins(self) -> list[str]:
        return self.random.choice([[], ["https://brand.example"], ["https://*.brand.example", "https://shop.example"]])

    def contact_type(self) -> str:
        return self.random.choice(["phone", "email"])

    def contact_value(self) -> str:
        return self.random.choice(["one", "two", "three", "four"])

    def open_states(self) -> list[str]:
        return ["won", "claimed", "fulfilling", "failed"]

    def schedule(self) -> list[float]:
        return SCHEDULE

    def event(self) -> str:
        return self.random.choice([f"event_{nth}" for nth in range(6)])

    def events(self) -> list[str]:
        return [f"event_{nth}" for nth in range(4)]

    def version(self) -> int:
        found = [row.catalog_version for row in self.rows("tenants")]
        return int(found[0]) - (self.random.random() < 0.1)

    def long_ago(self) -> datetime:
        return datetime(2020, 1, 1, tzinfo=UTC)

    def far_off(self) -> datetime:
        return datetime(2100, 1, 1, tzinfo=UTC)

    def day(self) -> date:
        return TODAY + timedelta(days=self.random.choice([-1, 0, 0, 0, 1]))

    def one_or_two(self) -> int:
        return self.random.choice([1, 2])

    def quest_type(self) -> str:
        return self.random.choice(["one_time", "daily"])

    def turn_count(self) -> int:
        return self.random.choice([0, 1, 2])

    def condition(self) -> dict[str, Any] | None:
        kind = self.random.choice(["plays", "wins", "points", "logins", "event"])
        named = self.random.choice(["", self.game(), "nothing"])
        return self.random.choice([None, {"kind": kind, "count": self.random.choice([1, 2]), "game_id": named}])

    def signing(self) -> dict[str, str] | None:
        return self.random.choice([None, {"secret": "sealed:1:zzz"}])

    def new_or_quest(self) -> str:
        return self.quest() if self.random.random() < 0.2 else "no_quest"

    def amount(self) -> int:
        return self.random.choice([-3, -1, 1, 2, 5])

    def positive(self) -> int:
        return self.random.choice([1, 2, 50])

    def active_or_suspended(self) -> str:
        return self.random.choice(["active", "active", "active", "suspended"])

    def any_tenant(self) -> str:
        return self.random.choice(["", TENANT])

    def player_or_new(self) -> str:
        return self.random.choice([self.somebody(), self.new("player")])

    def definition_or_none(self) -> Any:
        return self.random.choice([None, self.definition()])

    def coded_prize(self) -> str:
        return self.random.choice(["prize_c", "prize_d"])

    def code_state(self) -> str:
        return self.mostly("", "free", "assigned", "withdrawn", "expired")

    def one_reward(self) -> list[str]:
        return [self.reward()]

    def every_reward(self) -> list[str]:
        return [row.reward_id for row in self.rows("rewards")]

    def every_task(self) -> list[str]:
        return [row.task_id for row in self.rows("tasks")]

    def since(self) -> float:
        return 1_600_000_000.5

    def boards_or_none(self) -> list[str] | None:
        return self.random.choice([None, [self.board(), self.board()]])

    def games_or_none(self) -> list[str] | None:
        return self.random.choice([None, self.games()])

    def players_or_none(self) -> list[str] | None:
        return self.random.choice([None, [], self.players()])

    def outcome(self) -> str:
        return self.random.choice(["delivered", "failed"])

    def callback(self) -> str:
        return self.random.choice(["", "", "call_a", "call_b", self.new("call")])

    def half(self) -> float:
        return 0.5

    def long(self) -> float:
        return 900_000.0

    def unplayed_game(self) -> str:
        played = {row.game_id for row in self.rows("game_players")}
        found = [row.game_id for row in self.rows("games") if row.game_id not in played]
        return self.random.choice(found) if found else "no_game"

    def total(self) -> int:
        return self.random.choice([0, 3, 100])

    def spare_prize(self) -> str:
        found = [row.prize_id for row in self.rows("prizes") if len(row.prize_id) > len("prize_x")]
        return self.random.choice(found) if found else "no_prize"

    def lock_number(self) -> int:
        return self.random.choice([1, 2])

    def holder(self) -> str:
        return self.random.choice(["holder_a", "holder_b"])

    def __getattr__(self, word: str) -> Callable[[], str]:
        """`new_quest`: an id that nothing has yet."""
        if word.startswith("new_"):
            return lambda: self.new(word[4:])
        raise AttributeError(word)
