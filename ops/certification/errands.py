"""Errands: what the load has no deed of its own for is asked by the operations' own examples, so that every operation
is under way while things go wrong. They are about things that they make, and that they delete again where that can be.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ops.certification.catalogue import GAMES, STAFF, World
from ops.certification.history import Asked
from runtime.operations import BY_NAME, OPERATIONS, samples
from runtime.operations.row import PLATFORM_ALONE, Operation

PAUSE_SECONDS: Final = 0.3
READER, LONER = "reader", "loner"
"""Players of errands. The loner is signed out, linked and suspended: nobody else's answers are others by that."""

TOURS: Final = (
    (
        *("CreateCampaign", "UpdateCampaign", "DuplicateCampaign", "ImportCampaign", "CreatePrize", "UpdatePrize"),
        *("MoveStock", "ImportCodes", "ExpireCodes", "WithdrawCodes"),
        *("CreateGame", "UpdateGame", "MakeTestPlays", "CreateLeaderboard", "UpdateLeaderboard", "AdjustScore"),
        *("DisqualifyPlayer", "FinalizeLeaderboard", "DeleteLeaderboard", "DeleteGame", "DeletePrize"),
    ),
    (
        *("UpdatePlayer", "SetPlayerStatus", "CreateIntegration", "EmitEvent", "TestIntegration", "UpdateIntegration"),
        *("DeleteIntegration", "CreateQuest", "UpdateQuest", "DeleteQuest", "ReplayPlay", "RetryTask"),
        *("CreateMerchant", "UpdateMerchant", "UpdateTenant", "RevokeStaff", "CreateToken", "DeleteToken"),
    ),
    (
        *("ResolvePlayer", "LinkContact", "IssueChallenge", "AnswerChallenge", "WithdrawChallenge", "BeginLogin"),
        *("TurnLogin", "EndLogins", "NoteSignIn", "NoteRefusal", "ListOrigins", "FindOrigin", "ListRevocations"),
    ),
)
"""Who goes about what, in which order: what is made is there for what follows."""

JUDGED: Final = frozenset(("ListBalances", "GetEligibility", "ListMilestones", "ListRankings"))
"""Reads that the judge understands: the load asks them, about what it knows."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "CreateTenant": "each row has a tenant of its own",
    "CompleteTask": "the receiver of workflows calls back",
    "VerifyCallback": "by the edge that is called back",
    "TellQuestEvent": "the judge knows quests by what is played alone",
    "VerifyQuestEvent": "by the edge that is told",
    "RotateQuestSecret": "no quest of the load takes events",
    "ReadExport": "by the edge, for who downloads it",
    "GetLive": "by the edge, for who watches",
    "OpenToken": "by the edge, which is shown one",
    "CloseViolation": "there is none to close, unless the row fails",
    "GrantTurns": "the judge knows turns of quests alone",
    "MergePlayer": "logins merge guests, by the same code",
    "BulkRewards": "it fulfills and revokes, one by one, as staff does",
    "ResendDelivery": "the judge counts how often each event was told",
    "RotateSecret": "the receiver would no more know who sends",
    **dict.fromkeys(
        ("ApproveApproval", "RejectApproval", "WithdrawApproval"), "there is none, unless a setting says so"
    ),
    **dict.fromkeys(("UnlinkContact", "SignOutPlayer", "ErasePlayer"), "the reader would be signed out"),
}
"""Operations that neither the load nor an errand asks, and who does."""


READS: Final = tuple(
    row.name for row in OPERATIONS if row.verb == "GET" and (row.consumer or row.admin) and row.name not in JUDGED
)

EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "RetryTask": ("ILLEGAL_TRANSITION",),
    "IssueChallenge": ("CHALLENGE_EXISTS",),
    **dict.fromkeys(("AdjustScore", "DisqualifyPlayer", "SetPlayerStatus"), ("UNKNOWN_PLAYER", "DISQUALIFIED")),
}
"""What an example may be refused for: a tour that ended with its load left a challenge, say. And what it is about may
be gone: somebody else's errand is to delete it."""


@dataclass
class Errands:
    """Everybody who is about some, of one load. known: what there is, by its kind, for examples and paths."""

    world: World
    dice: random.Random
    prefix: str
    known: dict[str, str] = field(default_factory=dict)
    _number: int = 0
    _login: str = ""
    _twice: bool = False
    """Whether something was perhaps made twice since the tour began: nobody answered, and a creation has no key."""

    def all(self, stopping: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Each goes round until it is told to stop."""
        return [self._go(tour, stopping) for tour in (*TOURS, READS)]

    async def _go(self, tour: Sequence[str], stopping: asyncio.Event) -> None:
        for name in itertools.cycle(tour):
            if stopping.is_set():
                return
            await self._ask(BY_NAME[name])
            await asyncio.sleep(self.dice.expovariate(1 / PAUSE_SECONDS))

    async def _ask(self, row: Operation) -> None:
        known = self._about(row)
        if any(kind not in known for kind in _names(row)):
            return  # It is not there yet, or not any more.
        surface = _surface(row)
        path = ("/admin" if surface == "admin" else "") + row.path.replace("{id}", known.get(row.subject, ""))
        if surface == "core" and row.scoped and not row.has_body:
            path += f"?scope.tenant_id={self.world.tenant_id}"
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
                *([f"UNKNOWN_{row.subject.upper()}"] if row.subject else []),
                *(["IN_USE"] if row.verb == "DELETE" and self._twice else []),
            ),
        )
        if len(asked.attempts) > 1:
            # What was done and not answered is refused the second time, for what it did.
            asked.facts["refusals"] = (*asked.facts["refusals"], *row.refusals)
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
        load = {"campaign": self.world.campaign, "game": ids[self.dice.choice(GAMES)], "leaderboard": ids["board"]}
        return {**load, **common, **({**self.known, **load} if theirs else self.known)}

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
        if row.name == "ListTasks" and asked.data["items"]:
            self.known["task"] = str(asked.data["items"][0]["id"])


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
