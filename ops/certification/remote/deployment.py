"""Requests to a deployment from outside, the tenants created in it, and their clean-up."""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from runtime.errors import HTTP_STATUS, Status
from runtime.operations import API

GUESTS: Final = 20
"""Concurrent guests: half of the new guests that one address may have at once by default."""

STOCK: Final = 5
COINS: Final = 2
"""Coins that each play of the collection credits."""

_OWN_HTTP: Final = {
    Status.INVALID_ARGUMENT: frozenset({400, 408, 413, 415, 417, 422, 431}),
    Status.UNIMPLEMENTED: frozenset({405, 501}),
}
_TRIES_MAX: Final = 20


class Broken(Exception):
    """A broken promise, with what was seen."""


class NotRun(Exception):
    """A row that cannot be tried here, with the reason."""


def hold(fact: bool, seen: object) -> None:
    """Raises Broken with what was seen unless the fact holds."""
    if not fact:
        raise Broken(str(seen))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: the action, what is promised, and the function that tries it.

    The function returns the figures seen, and raises Broken or NotRun.
    """

    name: str
    passes: str
    run: "Callable[[Deployment], Awaitable[str]]"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. envelope: {} if it has none; seconds: from the request to the end of the response."""

    http: int
    headers: Mapping[str, str]
    envelope: dict[str, Any]
    seconds: float

    @property
    def code(self) -> str:
        return str(self.envelope.get("code", ""))

    @property
    def reason(self) -> str:
        return str(self.refusal.get("reason", ""))

    @property
    def refusal(self) -> dict[str, Any]:
        """The envelope's data, if any."""
        found = self.envelope.get("data")
        return found if isinstance(found, dict) else {}

    @property
    def data(self) -> dict[str, Any]:
        """The data of a success. Raises Broken otherwise."""
        if self.code != "OK":
            raise Broken(self.summary)
        return self.refusal

    @property
    def summary(self) -> str:
        """One line for reports."""
        return " ".join(filter(None, [str(self.http), self.code, self.reason, str(self.envelope.get("message", ""))]))


@dataclass(frozen=True, slots=True)
class Draw:
    """A play with the promise of its start."""

    game: str
    started: dict[str, Any]
    client_seed: str
    play: dict[str, Any]


@dataclass(slots=True)
class Deployment:
    """Both edges, and the resources created behind them.

    tenant: the one under test; other: a second one that must not be reachable from the first. games, prizes: ids by
    purpose. guests: tokens. draws: every successful play. answers: responses by status; wrong: faulty envelopes.
    made: paths of the resources to clean up.
    """

    http: aiohttp.ClientSession
    consumer_url: str
    admin_url: str
    token: str
    tenant: str = ""
    other: str = ""
    campaign: str = ""
    games: dict[str, str] = field(default_factory=dict)
    prizes: dict[str, str] = field(default_factory=dict)
    guests: list[str] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    made: list[tuple[str, str]] = field(default_factory=list)

    # -- requests ------------------------------------------------------------------------------

    async def consumer(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        patient: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Requests the consumer edge with a token; body: JSON, or raw bytes."""
        return await self._ask(self.consumer_url, verb, path, body, self._sent(token, self.tenant, headers), patient)

    async def admin(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        tenant: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Requests the admin edge below /admin for `tenant`, as the platform or with `token` ("": none)."""
        sent = self._sent(self.token if token is None else token, tenant or self.tenant, headers)
        return await self._ask(self.admin_url, verb, f"/admin{path}", body, sent, True)

    def _sent(self, token: str, tenant: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        own = {"X-Tenant-Id": tenant} if tenant else {}
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return {**own, **bearer, **(headers or {})}

    async def _ask(self, url: str, verb: str, path: str, body: Any, headers: dict[str, str], patient: bool) -> Answer:
        """The response; after a 429, if patient, the one after Retry-After."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        for _ in range(_TRIES_MAX if patient else 1):
            trace_id = secrets.token_hex(16)
            sent = {"Content-Type": "application/json", "traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}
            began = time.monotonic()
            async with self.http.request(verb, url + API + path, data=body, headers={**sent, **headers}) as got:
                text = await got.read()
            answer = Answer(got.status, got.headers, _object(text), time.monotonic() - began)
            self._check_envelope(f"{verb} {path[:80]}", answer, trace_id)
            if answer.http != 429 or not patient:
                break
            await asyncio.sleep(int(answer.headers.get("Retry-After", "1")))
        return answer

    def _check_envelope(self, what: str, answer: Answer, trace_id: str) -> None:
        """Records what is wrong with a response's envelope."""
        self.answers[answer.http] += 1
        envelope = answer.envelope
        status = Status.__members__.get(answer.code)
        if envelope.keys() != {"code", "message", "trace_id", "data"}:
            self.wrong.append(f"{what}: {answer.http} without the envelope")
        elif status is None or answer.http not in _OWN_HTTP.get(status, {HTTP_STATUS[status]}):
            self.wrong.append(f"{what}: {answer.http} with code {answer.code}")
        elif envelope["trace_id"] != trace_id:
            self.wrong.append(f"{what}: trace_id {envelope['trace_id']!r} for the traceparent's {trace_id}")
        elif status is not Status.OK and not answer.reason:
            self.wrong.append(f"{what}: {answer.http} without a reason")

    # -- resources -----------------------------------------------------------------------------

    async def make(self) -> None:
        """Creates the tenants, a campaign and all that the rows play. Broken if refused."""
        for name in ("tenant", "other"):
            created = await self.admin(
                "POST", "/tenants", {"name": f"Certification {time.strftime('%Y-%m-%d %H:%M:%S')}"}
            )
            setattr(self, name, created.data["id"])
        self.campaign = await self._new("/campaigns", {"name": "Certification", "status": "CAMPAIGN_STATUS_ACTIVE"})
        scarce, plenty, mug, claimed = [
            await self._new("/prizes", {"name": name, "type": "goods", "value": 1, **more}, "prize_id")
            for name, more in (
                ("Scarce", {"stock": {"total": STOCK}}),
                ("Plenty", {}),
                ("Mug", {}),
                ("Claimed", {"fulfillment": {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"}}),
            )
        ]
        self.prizes = {"scarce": scarce, "plenty": plenty}
        rung = {"name": "Mug", "currency": "coin", "threshold": COINS, "prize_id": mug}
        bought = {"milestones": {"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "rungs": [rung]}}
        lucky = {"items": [{"item": "coin", "weight": 1, "quantity": COINS, "slot_index": 0}]}
        dear = {"milestones": {**bought["milestones"], "rungs": [{**rung, "threshold": 1_000_000}]}}
        halves = [{"prize_id": plenty, "probability": 0.3}, {"prize_id": claimed, "probability": 0.45}]
        self.games = {
            "stock": await self._wheel([{"prize_id": scarce, "probability": 1}]),
            "draws": await self._wheel(halves),
            "claims": await self._wheel([{"prize_id": claimed, "probability": 1}]),
            "capped": await self._wheel([], rules={"max_plays_per_user": 1}),
            "daily": await self._wheel([], rules={"max_plays_per_day": 1}),
            "turns": await self._wheel([], rules={"requires_turn": True}),
            "coins": await self._game({"reward_handler": "lucky_item", "handler_config": lucky, **bought}),
            "dear": await self._game({"reward_handler": "lucky_item", "handler_config": lucky, **dear}),
        }
        for _ in range(GUESTS):
            started = await self.consumer("POST", f"/games/{self.games['draws']}/start", {})
            self.guests.append(started.data["guest_token"])

    async def _wheel(self, prizes: Sequence[Mapping[str, Any]], **more: Any) -> str:
        handler = {"reward_handler": "probability", "handler_config": {"prizes": prizes}}
        return await self._game({"type": "spin_wheel", **handler, **more})

    async def _game(self, fields: Mapping[str, Any]) -> str:
        shared = {"name": "Certification", "campaign_id": self.campaign, "type": "collection", "validator": "basic"}
        states = {"seed_generator": "none", "status": "GAME_STATUS_ACTIVE", "access": "GAME_ACCESS_PUBLIC"}
        return await self._new("/games", {**shared, **states, **fields})

    async def _new(self, path: str, body: Mapping[str, Any], name: str = "id", tenant: str = "") -> str:
        made = str((await self.admin("POST", path, body, tenant=tenant)).data[name])
        self.made.append((f"{path}/{made}", tenant or self.tenant))
        return made

    async def make_elsewhere(self) -> dict[str, str]:
        """Creates one resource of each kind in the other tenant; ids by kind."""
        there = self.other
        campaign = await self._new(
            "/campaigns", {"name": "Elsewhere", "status": "CAMPAIGN_STATUS_ACTIVE"}, tenant=there
        )
        prize = await self._new("/prizes", {"name": "Elsewhere", "type": "goods", "value": 1}, "prize_id", there)
        game = {"name": "Elsewhere", "campaign_id": campaign, "type": "spin_wheel", "reward_handler": "probability"}
        parts = {"seed_generator": "none", "validator": "basic", "status": "GAME_STATUS_ACTIVE"}
        drawn = {"handler_config": {"prizes": [{"prize_id": prize, "probability": 1}]}}
        open_to_all = {"access": "GAME_ACCESS_PUBLIC"}
        found = {"campaign": campaign, "prize": prize}
        found["game"] = await self._new("/games", {**game, **parts, **drawn, **open_to_all}, tenant=there)
        quest = {"campaign_id": campaign, "name": "Elsewhere", "turns": 1, "type": "QUEST_TYPE_ONE_TIME"}
        found["quest"] = await self._new("/quests", {**quest, "status": "QUEST_STATUS_ACTIVE"}, tenant=there)
        board = {"campaign_id": campaign, "name": "Elsewhere", "metric": "LEADERBOARD_METRIC_PLAYS"}
        board["mode"] = "LEADERBOARD_MODE_SUM"
        found["leaderboard"] = await self._new("/leaderboards", board, tenant=there)
        return found

    # -- plays ---------------------------------------------------------------------------------

    async def start(self, game: str, guest: str) -> dict[str, Any]:
        """Starts a session of one of `games`. Broken if refused."""
        return (await self.consumer("POST", f"/games/{self.games[game]}/start", {}, token=guest)).data

    async def play(self, game: str, guest: str, started: Mapping[str, Any], client_seed: str, key: str = "") -> Answer:
        """Plays a session; records a successful draw for the check. key: the Idempotency-Key."""
        body = {"session_id": started["session_id"], "payload": {}, "client_seed": client_seed}
        path, headers = f"/games/{self.games[game]}/play", {"Idempotency-Key": key} if key else None
        answer = await self.consumer("POST", path, body, token=guest, headers=headers)
        if answer.code == "OK":
            self.draws.append(Draw(game, dict(started), client_seed, answer.data))
        return answer

    async def round(self, game: str, guest: str, client_seed: str = "") -> dict[str, Any]:
        """Starts and plays. Broken if either is refused."""
        return (await self.play(game, guest, await self.start(game, guest), client_seed)).data

    # -- clean-up ------------------------------------------------------------------------------

    async def clean_up(self) -> list[str]:
        """Archives what was created, ends its campaigns and suspends the tenants; returns the failures."""
        failed = []
        for path, tenant in reversed(self.made):
            if path.startswith("/campaigns/"):
                failed += await self._done("PUT", path, {"status": "CAMPAIGN_STATUS_ENDED"}, tenant)
            else:
                failed += await self._done("DELETE", path, None, tenant)
        for tenant in filter(None, (self.tenant, self.other)):
            failed += await self._done("PUT", f"/tenants/{tenant}", {"status": "TENANT_STATUS_SUSPENDED"}, "")
        return failed

    async def _done(self, verb: str, path: str, body: Any, tenant: str) -> list[str]:
        """The failure, if any. IN_USE is none: the resources that refer to it are cleaned up too."""
        try:
            answer = await self.admin(verb, path, body, tenant=tenant)
        except (aiohttp.ClientError, TimeoutError) as error:
            return [f"{path}: {str(error) or type(error).__name__}"]
        return [] if answer.code == "OK" or answer.reason == "IN_USE" else [f"{path}: {answer.summary}"]


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
