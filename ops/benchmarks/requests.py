"""Requests prepared as bytes."""

import itertools
import secrets
from dataclasses import dataclass
from typing import Final

from runtime.http.auth.tokens import Tokens
from runtime.operations import API
from runtime.settings import Settings

TOKEN_SECONDS: Final = 24 * 3600
_run: Final = secrets.token_hex(6)
_numbers: Final = itertools.count()
_BODY: Final = b'{"session_id":"%b","payload":{}}'


@dataclass(frozen=True, slots=True)
class Player:
    """A player with a token that the edge verifies."""

    tenant_id: str
    player_id: str
    token: str


def make_players(jwt_secret: str, tenant_id: str, count: int, prefix: str = "bench") -> list[Player]:
    """`count` players of a tenant; their first start creates them in the database."""
    tokens = Tokens.of(Settings(jwt_secret=jwt_secret))
    names = [f"player_{prefix}{number:019d}" for number in range(count)]
    return [Player(tenant_id, name, tokens.mint(name, tenant_id=tenant_id, seconds=TOKEN_SECONDS)) for name in names]


def idempotency_key() -> str:
    """A new key, 32 characters long."""
    return f"{_run}{next(_numbers):020d}"


def post(path: str, body: bytes, player: Player, *, key: str = "") -> bytes:
    """A POST under /api/v1 by a player, optionally with an Idempotency-Key."""
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (_head(path, player, key), len(body), body)


def get(path: str, *, tenant_id: str) -> bytes:
    """A GET under /api/v1 by an anonymous client of a tenant."""
    return f"GET {API}{path} HTTP/1.1\r\nHost: bench\r\nX-Tenant-Id: {tenant_id}\r\n\r\n".encode()


def start(game_id: str, player: Player) -> bytes:
    """POST /games/{id}/start."""
    return post(f"/games/{game_id}/start", b"{}", player)


def play(game_id: str, player: Player, session: bytes) -> bytes:
    """POST /games/{id}/play of a spin, with a new key."""
    return post(f"/games/{game_id}/play", _BODY % session, player, key=idempotency_key())


def open_play(game_id: str, player: Player) -> bytes:
    """`play` without its session and its length, which the generator fills in."""
    return _head(f"/games/{game_id}/play", player, idempotency_key()) + b"\r\n\r\n" + _BODY % b""


def _head(path: str, player: Player, key: str) -> bytes:
    lines = [
        f"POST {API}{path} HTTP/1.1",
        "Host: bench",
        f"Authorization: Bearer {player.token}",
        "Content-Type: application/json",
    ]
    if key:
        lines.append(f"Idempotency-Key: {key}")
    return "\r\n".join(lines).encode()


BARE_PLAY: Final = (
    _head("", Player("", "", "t" * 400), "k" * 32).replace(f"POST {API} ".encode(), b"POST / ")
    + b"\r\nContent-Length: 160\r\n\r\n"
    + b"x" * 160
)
"""A request with the headers and the size of a play, for a handler that does nothing."""
