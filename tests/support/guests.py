from dataclasses import dataclass
from typing import Any

import jwt

from tests.support.stack import Answer, Stack
from tests.support.world import World


@dataclass(frozen=True)
class Guest:
    player_id: str
    token: str
    session: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


async def new_guest(world: World, game_id: str) -> Guest:
    started = (await world.start(game_id, "")).data
    claims = jwt.decode(started["guest_token"], options={"verify_signature": False})
    return Guest(claims["sub"], started["guest_token"], started["session_id"])


async def guest_who_played(world: World, game_id: str) -> Guest:
    guest = await new_guest(world, game_id)
    assert (await world.play(game_id, guest.session, "")).code == "OK"
    return guest


async def log_in(stack: Stack, guest: Guest | None = None, contact: str = "ada@example.com") -> str:
    """Who logs in with the contact, as the guest or as nobody: the player's id."""
    return str((await resolve(stack, guest, contact)).data["player"]["id"])


async def resolve(stack: Stack, guest: Guest | None = None, contact: str = "ada@example.com") -> Answer:
    body: dict[str, Any] = {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": contact}}
    return await stack.core("POST", "/players/resolve", body | {"guest_player_id": guest.player_id if guest else ""})


async def rewards_of(stack: Stack, player: str) -> list[dict[str, Any]]:
    return list((await stack.consumer("GET", "/rewards/me", player=player, limit=100)).data["items"])


async def wallet_of(stack: Stack, player: str) -> dict[str, int]:
    wallet = await stack.consumer("GET", "/wallet", player=player)
    return {row["currency"]: row["balance"] for row in wallet.data["items"]}
