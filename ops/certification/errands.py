"""Errands: what the load has no deed of its own for is asked by the operations' own examples, so that every operation
is under way while things go wrong. They are about things that they make, and that they delete again where that can be.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ops.certification.affairs import OWN, Affairs, Step, forgiven
from ops.certification.catalogue import GAMES, STAFF, World
from ops.history.record import Asked
from runtime.operations import BY_NAME, OPERATIONS, samples
from runtime.operations.row import PLATFORM_ALONE, Operation
from runtime.operations.staff.tokens import hash_of

PAUSE_SECONDS: Final = 0.3
READER, LONER = "reader", "loner"
"""Players of errands. The loner is signed out, linked and suspended: nobody else's answers are others by that."""

_ORDERED: Final = (
    (
        *("CreateCampaign", "UpdateCampaign", "DuplicateCampaign", "ImportCampaign", "CreatePrize", "UpdatePrize"),
        *("MoveStock", "ImportCodes", "ExpireCodes", "WithdrawCodes"),
        *("CreateGame", "UpdateGame", "MakeTestPlays", "CreateLeaderboard", "UpdateLeaderboard", "AdjustScore"),
        *("DisqualifyPlayer", "FinalizeLeaderboard", "DeleteLeaderboard", "DeleteGame", "DeletePrize"),
    ),
    (
        *("UpdatePlayer", "SetPlayerStatus", "CreateIntegration", "EmitEvent", "TestIntegration", "UpdateIntegration"),
        *("DeleteIntegration", "CreateQuest", "UpdateQuest", "DeleteQuest", "ReplayPlay", "RetryTask"),
        *("CreateMerchant", "UpdateMerchant", "UpdateTenant", "RevokeStaff", "CreateToken", "OpenToken"),
        "DeleteToken",
    ),
    (
        *("ResolvePlayer", "LinkContact", "IssueChallenge", "AnswerChallenge", "WithdrawChallenge", "BeginLogin"),
        *("TurnLogin", "EndLogins", "NoteSignIn", "NoteRefusal", "ListOrigins", "FindOrigin", "ListRevocations"),
    ),
)
"""Who goes about what, in which order: what is made is there for what follows."""

LOADED: Final = frozenset(
    (
        *("Start", "Play", "ClaimReward", "Redeem", "CompleteQuest"),
        *("AdjustBalance", "UpdatePrize", "RevokeReward", "FulfillReward"),
    )
)
"""What the load's players and staff do."""

JUDGED: Final = frozenset(("ListBalances", "GetEligibility", "ListMilestones", "ListRankings", "ListRewards"))
"""Reads that the judge understands: the load asks them, about what it knows."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "CreateTenant": "each row has a tenant of its own",
    "CompleteTask": "the receiver of workflows calls back",
    "VerifyCallback": "by the edge that is called back",
    "CloseViolation": "there is none to close, unless the row fails",
    **dict.fromkeys(
        ("GetApproval", "ApproveApproval", "RejectApproval", "WithdrawApproval"),
        "there is none, unless a setting says so",
    ),
}
"""Operations that neither the load nor an errand asks, and who does."""


READS: Final = tuple(row.name for row in OPERATIONS if row.verb == "GET" and row.name not in JUDGED | ELSEWHERE.keys())

_NAMED: Final = frozenset((*(name for tour in _ORDERED for name in tour), *READS, *OWN, *JUDGED, *LOADED, *ELSEWHERE))
_OTHERS: Final = tuple(row.name for row in OPERATIONS if row.name not in _NAMED)
TOURS: Final = (*_ORDERED, *([_OTHERS] if _OTHERS else []))
"""An operation that no list names is asked whenever there is what it is about."""

REFUSED: Final[Mapping[str, str]] = {"RetryTask": "no delivery of the load is given up"}
"""Operations that are asked, and never done."""

QUERIES: Final[Mapping[str, str]] = {"ReadExport": "name=plays", "GetLive": "stock=true"}
"""What a read is asked with, beside the tenant."""

EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "RetryTask": ("ILLEGAL_TRANSITION",),
    **dict.fromkeys(("AdjustScore", "DisqualifyPlayer", "SetPlayerStatus"), ("UNKNOWN_PLAYER", "DISQUALIFIED")),
}
"""What an example may be refused for. And what it is about may be gone: somebody else's errand is to delete it."""

AT_FIRST: Final[Mapping[str, tuple[str, ...]]] = {"IssueChallenge": ("CHALLENGE_EXISTS",)}
"""What an example may be refused for the first time that a load asks it: the load before ended in the middle of a tour,
and left what the tour would have taken away."""


@dataclass
class Errands:
    """Everybody who is about some, of one load.

    known: what there is, by its kind, for examples and paths. rounds: how often each tour was gone, whole.
    """

    world: World
    dice: random.Random
    prefix: str
    pause_seconds: float = PAUSE_SECONDS
    known: dict[str, str] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)
    _affairs: Affairs = field(init=False)
    _asked: set[str] = field(default_factory=set)
    _secret: str = ""
    _number: int = 0
    _login: str = ""
    _twice: bool = False
    """Whether something was perhaps made twice since the tour began: nobody answered, and a creation has no key."""

    def __post_init__(self) -> None:
        self._affairs = Affairs(self.world, f"{self.prefix}-own")

    def all(self, stopping: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Each goes round until it is told to stop."""
        tours = [(tour[0], [self._errand(name) for name in tour]) for tour in (*TOURS, READS)]
        tours.append((OWN[0], self._affairs.steps()))
        return [self._go(name, steps, stopping) for name, steps in tours]

    @property
    def rounds_least(self) -> int:
        """How often every tour was gone at least."""
        return min(self.rounds[tour[0]] for tour in (*TOURS, READS, OWN))

    def _errand(self, name: str) -> Step:
        return lambda: self._ask(BY_NAME[name])

    async def _go(self, name: str, steps: Sequence[Step], stopping: asyncio.Event) -> None:
        while True:
            for step in steps:
                if stopping.is_set():
                    return
                await step()
                await asyncio.sleep(self.dice.expovariate(1 / self.pause_seconds))
            self.rounds[name] += 1

    async def _ask(self, row: Operation) -> None:
        known = self._about(row)
        if any(kind not in known for kind in _names(row)) or (row.name == "OpenToken" and "token" not in known):
            return  # It is not there yet, or not any more.
        surface = _surface(row)
        path = ("/admin" if surface == "admin" else "") + row.path.replace("{id}", known.get(row.subject, ""))
        if surface == "core" and row.scoped and not row.has_body:
            path += f"?scope.tenant_id={self.world.tenant_id}&{QUERIES.get(row.name, '')}".removesuffix("&")
        body = self._body(row, known, surface)
        self._number += 1
        asked = await self.world.client.ask(
            row.name,
            {"admin": STAFF, "consumer": READER}.get(surface, LONER),
            row.verb,
            path,
            body,
            surface=surface,
            key=f"{self.prefix}-errand-{self._number}" if row.keyed and row.has_effect else "",
            of_player=row.of_player,
            refusals=(
                *EXPECTED.get(row.name, ()),
                *(AT_FIRST.get(row.name, ()) if row.name not in self._asked else ()),
                *([f"UNKNOWN_{row.subject.upper()}"] if row.subject else []),
                *(["IN_USE"] if row.verb == "DELETE" and self._twice else []),
            ),
        )
        forgiven(row, asked)
        self._asked.add(row.name)
        self._note(row, asked)

    def _about(self, row: Operation) -> dict[str, str]:
        """What it may name: of what staff reads and acts on, its own; else what the load plays."""
        ids, theirs = self.world.ids, row.consumer is not None
        common = {
            "receiver": self.world.receiver_url,
            "player": READER,
            "session": "",
            "milestone": "first",
            "tenant": self.world.tenant_id,
        }
        lasting = {} if row.has_effect else self._affairs.known
        load = {"campaign": self.world.campaign, "game": ids[self.dice.choice(GAMES)], "leaderboard": ids["board"]}
        return {**load, **common, **lasting, **({**self.known, **load} if theirs else self.known)}

    def _body(self, row: Operation, known: Mapping[str, str], surface: str) -> Any:
        if not row.has_body:
            return None
        body = _with(row.example, known)
        if row.name == "BeginLogin":
            self._login = f"login_{hashlib.sha256(f'{self.prefix} {self._number}'.encode()).hexdigest()[:32]}"
        if "login_id" in body:
            body |= {"login_id": self._login}
        match row.name:
            case "ImportCodes":
                body |= {"codes": [f"{self.prefix}-{self._number}-{nth}" for nth in range(3)]}
            case "WithdrawCodes":
                body = {"all_free": True}
            case "TurnLogin":
                body |= {"generation": 0}
            case "OpenToken":
                body = {"token_hash": hash_of(self._secret.rpartition(".")[0])}  # After the dot is the edge's own.
        return {row.resource: body} if surface == "core" and row.resource else body

    def _note(self, row: Operation, asked: Asked) -> None:
        """Keeps the ids of what there is now."""
        if row.makes:
            self._twice = len(asked.attempts) > 1 or (self._twice and row.name != TOURS[0][0])
        if row.verb == "DELETE":
            self.known.pop(row.subject, None)
        if not asked.ok or not isinstance(asked.data, dict):
            return
        if row.makes and "id" in asked.data:
            self.known[row.resource] = str(asked.data["id"])
        if row.name == "CreateToken":
            self._secret = str(asked.data["secret"])
        if row.name == "ListTasks" and asked.data["items"]:
            self.known["task"] = str(asked.data["items"][0]["id"])


def never_done(asked: Iterable[Asked]) -> list[str]:
    """The operations that somebody of these was to ask, and that nobody was ever answered as done.

    Of one who asks what cannot be done, that nobody asked it.
    """
    done = {one.operation for one in asked if one.ok or one.operation in REFUSED}
    return sorted(BY_NAME.keys() - ELSEWHERE.keys() - done)


def _surface(row: Operation) -> str:
    """Where it is asked: of Core itself what no edge serves, or an edge to the platform alone."""
    if row.consumer and not row.consumer.setting:
        return "consumer"
    return "admin" if row.admin and row.admin is not PLATFORM_ALONE else "core"


def _names(row: Operation) -> set[str]:
    """The kinds of things that its path and its example name."""
    text = str(row.example)
    return {kind for sample, kind in samples.STAND_FOR.items() if sample in text} | ({row.subject} - {""})


def _with(value: Any, known: Mapping[str, str]) -> Any:
    """A copy of an example that names what there is in place of what it made up."""
    if isinstance(value, Mapping):
        return {name: _with(item, known) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with(item, known) for item in value]
    return known[samples.STAND_FOR[value]] if isinstance(value, str) and value in samples.STAND_FOR else value
