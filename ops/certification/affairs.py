"""Errands of several steps about the same things, which nobody else has: a player who is signed out and erased, say."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from ops.certification.catalogue import STAFF, Refused, World
from ops.history.record import Asked
from runtime.operations import BY_NAME
from runtime.operations.row import Operation
from runtime.outgoing.signing import ID, SIGNATURE, TIMESTAMP, sign

OWN: Final = (
    *("MergePlayer", "BulkRewards", "GrantTurns", "LinkContact", "UnlinkContact", "SignOutPlayer", "ErasePlayer"),
    *("TestIntegration", "ResendDelivery", "RotateSecret", "RotateQuestSecret", "VerifyQuestEvent", "TellQuestEvent"),
)
"""What `Affairs` ask."""

SECRETS: Final = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
"""Of the errands' own integration, in turn."""

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
        return forgiven(row, await ask(name, STAFF, verb, path, body, surface="admin", key=key, of=subject))

    async def _core(self, name: str, subject: str, body: dict[str, Any]) -> Asked:
        """Of Core, as an edge asks it."""
        row = BY_NAME[name]
        path, ask = row.path.replace("{id}", subject), self.world.client.ask
        told = await ask(name, self._player, "POST", path, body, surface="core", of_player=False, of=subject)
        return forgiven(row, told)


def forgiven(row: Operation, asked: Asked) -> Asked:
    """The same: what was done and not answered may be refused the second time, for what it did."""
    if len(asked.attempts) > 1:
        asked.facts["refusals"] = (*asked.facts.get("refusals", ()), *row.refusals)
    return asked
