"""Errands: what the load has no deed of its own for is asked by the operations' own examples, so that every operation
is under way while things go wrong. They are about things that they make, and that they delete again where that can be.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from ops.certification.catalogue import GAMES, STAFF, Refused, World
from ops.certification.history import Asked
from runtime.operations import BY_NAME, OPERATIONS, samples
from runtime.operations.row import PLATFORM_ALONE, Operation
from runtime.operations.staff.tokens import hash_of
from runtime.outgoing.signing import ID, SIGNATURE, TIMESTAMP, sign

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
        *("CreateMerchant", "UpdateMerchant", "UpdateTenant", "RevokeStaff", "CreateToken", "OpenToken"),
        "DeleteToken",
    ),
    (
        *("ResolvePlayer", "LinkContact", "IssueChallenge", "AnswerChallenge", "WithdrawChallenge", "BeginLogin"),
        *("TurnLogin", "EndLogins", "NoteSignIn", "NoteRefusal", "ListOrigins", "FindOrigin", "ListRevocations"),
    ),
)
"""Who goes about what, in which order: what is made is there for what follows."""

OWN: Final = (
    *("MergePlayer", "BulkRewards", "GrantTurns", "LinkContact", "UnlinkContact", "SignOutPlayer", "ErasePlayer"),
    *("TestIntegration", "ResendDelivery", "RotateSecret", "RotateQuestSecret", "VerifyQuestEvent", "TellQuestEvent"),
)
"""What needs more than one thing that is its own alone (`Affairs`): a player whom it signs out and erases, say."""

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
        _forgiven(row, asked)
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


Step = Callable[[], Awaitable[object]]


@dataclass
class Affairs:
    """Errands that take several steps about the same things, none of which anybody else has: a campaign with a public
    game and a quest that takes events, an integration, and of each round a guest, and the player that it becomes.
    """

    world: World
    prefix: str
    _ids: dict[str, str] = field(default_factory=dict)
    _number: int = 0
    _guest: str = ""
    _reward: str = ""

    @property
    def known(self) -> dict[str, str]:
        """What is there to be read."""
        return {**self._ids, **({"reward": self._reward} if self._reward else {})}

    @property
    def _player(self) -> str:
        return f"{self.prefix}-{self._number}"

    def steps(self) -> list[Step]:
        return [
            *(self._furnish, self._play, self._preview, self._merge, self._fulfill, self._revoke, self._grant),
            *(self._unlink, self._resend, self._rotate, self._tell, self._sign_out, self._erase),
        ]

    async def _furnish(self) -> None:
        """Once of a load; what its things are, while they are there."""
        self._number += 1
        self._guest = ""
        if self._ids:
            return
        with suppress(Refused):  # Of which the judge hears; the next round makes them.
            self._ids = await self._made(f"{self.prefix} {self._number}")

    async def _made(self, name: str) -> dict[str, str]:
        world = self.world
        campaign = await world.make("campaign", f"{name} campaign", status="CAMPAIGN_STATUS_ACTIVE", timezone="UTC")
        token = await world.prize(f"{name} token", mode="ON_CLAIM", campaign_id=campaign)
        sure = {"prizes": [{"prize_id": token, "probability": 1.0}]}
        game = await world.game(f"{name} game", campaign_id=campaign, access="GAME_ACCESS_PUBLIC", handler_config=sure)
        terms = {
            "type": "QUEST_TYPE_ONE_TIME",
            "turns": 1,
            "condition": {"kind": "QUEST_CONDITION_KIND_EVENT", "count": 1},
        }
        quest = await world.make("quest", f"{name} quest", **terms, campaign_id=campaign, status="QUEST_STATUS_ACTIVE")
        # Where the receiver hears nobody: it counts what it is told of plays.
        hook = {"url": f"{world.receiver_url}-of-errands", "secret": SECRETS[0]}
        told = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["errand"], "config": hook, "campaign_id": campaign}
        made = await world.client.ask("CreateIntegration", STAFF, "POST", "/admin/integrations", told, surface="admin")
        if not made.ok:
            raise Refused(made.told())
        return {"campaign": campaign, "game": game, "quest": quest, "integration": str(made.data["id"])}

    async def _play(self) -> None:
        """A guest comes, and wins."""
        if not self._ids:
            return
        path = f"/games/{self._ids['game']}"
        came = await self.world.client.ask("Start", "", "POST", f"{path}/start", {}, of="errand")
        if not came.ok:
            self._ids, self._reward = {}, ""  # The database was restored to before it was made.
            return
        token, guest = came.data["guest_token"], f"{self._player}-guest"
        self.world.client.bearers[guest] = token
        body = {"session_id": came.data["session_id"], "payload": {}}
        key = f"{guest} plays"
        played = await self.world.client.ask("Play", guest, "POST", f"{path}/play", body, of="errand", key=key)
        # The guest ends when it is merged: whoever asks by its name after that is somebody new, and not turned away.
        del self.world.client.bearers[guest]
        if played.ok:
            self._guest = str(jwt.decode(token, options={"verify_signature": False})["sub"])
            self._reward = str(played.data["rewards"][0]["reward_id"])

    async def _preview(self) -> None:
        await self._link()  # Who has a contact is there.
        await self._of_guest(preview=True)

    async def _merge(self) -> None:
        await self._of_guest(preview=False)

    async def _of_guest(self, *, preview: bool) -> None:
        if self._guest:
            await self._ask("MergePlayer", self._player, {"guest_id": self._guest, "preview": preview})

    async def _fulfill(self) -> None:
        await self._bulk("FULFILL")

    async def _revoke(self) -> None:
        await self._bulk("REVOKE")

    async def _bulk(self, act: str) -> None:
        if self._guest:
            body = {"act": f"BULK_ACT_{act}", "ids": [self._reward], "reason": "handed over at the fair"}
            await self._ask("BulkRewards", "", body)

    async def _grant(self) -> None:
        if self._ids:
            body = {"campaign_id": self._ids["campaign"], "amount": 1, "reason": "the app broke off a play"}
            await self._ask("GrantTurns", self._player, body)

    async def _link(self) -> Asked:
        """A contact of the player's, who is made by this, or has it already."""
        contact = {"type": "CONTACT_TYPE_EMAIL", "value": f"{self._player}@example.com", "verified": True}
        body = {"contact": contact}
        return await self.world.client.ask(
            "LinkContact", self._player, "POST", "/players/me/contacts", body, surface="core"
        )

    async def _unlink(self) -> None:
        linked = await self._link()
        if linked.ok:
            path = f"/admin/players/{self._player}/contacts?contact_id={linked.data['contact']['id']}"
            await self._admin("UnlinkContact", "DELETE", path, None, self._player)

    async def _sign_out(self) -> None:
        await self._ask("SignOutPlayer", self._player, {"reason": "the phone was stolen"})

    async def _erase(self) -> None:
        await self._ask("ErasePlayer", self._player, {"reason": "asked for on the phone, ticket 4711"})

    async def _resend(self) -> None:
        """What the integration was told to try it out, once more."""
        if not self._ids:
            return
        integration = self._ids["integration"]
        await self._ask("TestIntegration", integration, {})
        # What the log has: it is written after the answer, and so may lack what was told just now.
        path = f"/admin/integrations/{integration}/deliveries"
        listed = await self._admin("ListIntegrationDeliveries", "GET", path, None, integration)
        if listed.ok and listed.data["items"]:
            await self._ask("ResendDelivery", integration, {"delivery_id": listed.data["items"][0]["id"]})

    async def _rotate(self) -> None:
        if self._ids:
            await self._ask("RotateSecret", self._ids["integration"], {"secret": SECRETS[self._number % 2]})

    async def _tell(self) -> None:
        """An event of the quest, signed with its new secret; the edge's part is done here: it asks whether that is so,
        and passes it on.
        """
        if not self._ids:
            return
        quest = self._ids["quest"]
        rotated = await self._ask("RotateQuestSecret", quest, {})
        if not rotated.ok:
            return
        event = {"event_id": f"event of {self._player}", "player_id": self._player}
        body = json.dumps(event)
        headers = sign([rotated.data["secret"]], f"message of {self._player}", int(time.time()), body.encode())
        signed = {
            "webhook_id": headers[ID],
            "webhook_timestamp": headers[TIMESTAMP],
            "webhook_signature": headers[SIGNATURE],
            "body": body,
        }
        await self._core("VerifyQuestEvent", quest, signed)
        await self._core("TellQuestEvent", quest, event)

    async def _ask(self, name: str, subject: str, body: dict[str, Any]) -> Asked:
        """Of the admin edge, as staff. subject: what the path names."""
        row = BY_NAME[name]
        return await self._admin(name, row.verb, "/admin" + row.path.replace("{id}", subject), body, subject)

    async def _admin(self, name: str, verb: str, path: str, body: dict[str, Any] | None, subject: str) -> Asked:
        row = BY_NAME[name]
        key = f"{self._player} {name} {(body or {}).get('act', '')}" if row.keyed else ""
        ask = self.world.client.ask
        return _forgiven(row, await ask(name, STAFF, verb, path, body, surface="admin", key=key, of=subject))

    async def _core(self, name: str, subject: str, body: dict[str, Any]) -> Asked:
        """Of Core, as an edge asks it."""
        row = BY_NAME[name]
        path, ask = row.path.replace("{id}", subject), self.world.client.ask
        told = await ask(name, self._player, "POST", path, body, surface="core", of_player=False, of=subject)
        return _forgiven(row, told)


SECRETS: Final = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
"""Of the errands' own integration, in turn."""


def never_done(asked: Iterable[Asked]) -> list[str]:
    """The operations that somebody of these was to ask, and that nobody was ever answered as done.

    Of one who asks what cannot be done, that nobody asked it.
    """
    done = {one.operation for one in asked if one.ok or one.operation in REFUSED}
    return sorted(BY_NAME.keys() - ELSEWHERE.keys() - done)


def _forgiven(row: Operation, asked: Asked) -> Asked:
    """The same: what was done and not answered may be refused the second time, for what it did."""
    if len(asked.attempts) > 1:
        asked.facts["refusals"] = (*asked.facts.get("refusals", ()), *row.refusals)
    return asked


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
