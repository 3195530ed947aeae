"""An edge's in-memory list of revoked tokens, so that no request queries a store for its token.

Core stores revocations durably and publishes new ones (`ListRevocations`). An edge polls them every `EVERY_SECONDS`,
so a revoked token works for at most that long plus one poll. The edge that revokes a token polls before it responds.
Without Core, no request that needs a token can succeed.

A revocation takes about 100 bytes until the token would expire: a month for a guest's. GUESTS_ENDED
(runtime/operations/players/logins.py) limits the guests of one address that log out in a month to 43,500: 4 MiB per
edge, and 70 MiB for a network. An API token's revocation is retained for two hours, because an edge checks each token
with Core once an hour. TOKENS_MAX (runtime/operations/staff/tokens.py) limits how many a tenant revokes in that time.

Core forgets a revocation when its tokens have expired, by Core's own lifetime settings, which it reports: an edge
neither issues nor accepts a token with a longer lifetime. Core also reports the database's time, by which tokens are
revoked. Edges issue and check tokens by that clock (`now`): an edge whose clock is ahead would otherwise issue and
accept tokens dated after the revocation of all tokens issued until now.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

from runtime import ids
from runtime import messages as m
from runtime.core import Caller
from runtime.operations.players.revocations import LIST_REVOCATIONS
from runtime.stores.clock import Clock
from runtime.stores.database import StoreUnavailable
from runtime.stores.single_flight import SingleFlight

EVERY_SECONDS: Final = 1.0
DAY_SECONDS: Final = 86_400

UNTIL_BITS: Final = 34
FOR_EVER: Final = 2**UNTIL_BITS - 1
"""A time (Unix seconds) after all others."""


class Revocations:
    """Revocations by the keys of an identity: `login_key`, `player_key`, `sign_in_key` and so on."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._since = ""
        # Hash of the key (randomized per process, so collisions cannot be forced) -> the day to forget it on, and in
        # the lowest bits the issue time until which tokens are refused. Takes a third of the memory of the keys.
        self._ended: dict[int, int] = {}
        self._last = 0
        self._forgotten_on: dict[int, array[int]] = {}
        self._today = 0
        self._login_token_seconds = self._guest_token_seconds = self._token_seconds = FOR_EVER
        self._first = SingleFlight()
        self._clock = Clock()
        self.known = False
        """Whether all revocations have been read once, of each database that may serve."""

    def now(self) -> float:
        """The database's time in Unix seconds; before the first poll, this process's."""
        return self._clock.now()

    def revoked(self, key: str, issued_at: float) -> bool:
        """Whether a token with this key, issued at `issued_at` (Unix seconds), is revoked."""
        ended = self._ended.get(hash(key))
        return ended is not None and issued_at <= ended & FOR_EVER

    def longest(self, player_id: str, login_id: str) -> int:
        """The longest lifetime, in seconds, for which Core retains the revocation of a token of this login, or of this
        player without a login (""). Call `read_first` before.
        """
        if login_id:
            return self._login_token_seconds
        return self._guest_token_seconds if ids.is_guest(player_id) else self._token_seconds

    async def read_first(self) -> None:
        """Reads all revocations once; concurrent callers share the read. Raises Fault if Core does not respond, or
        only for some databases.

        Does nothing once all are known. After revoking a token call `read`, which starts a new one.
        """
        if not self.known:
            await self._first.share("first", self.read)

    async def read(self) -> None:
        """Reads the new revocations. Raises Fault as `read_first` does."""
        more = True
        while more:
            request = m.ListRevocationsRequest(since=self._since)
            sent = monotonic()
            reply: m.ListRevocationsReply = await self._caller.call(LIST_REVOCATIONS, request)
            if reply.now_us:
                self._clock.sync(reply.now_us / 1_000_000, sent, monotonic())
            for row in reply.revocations:
                if (key_of := _KEYS.get(row.kind)) is None:
                    continue  # A kind of token that this version does not accept.
                key = key_of(row.tenant_id, row.subject)
                self._record(key, row.issued_until or FOR_EVER, row.expires_at)
            self._since, more = reply.since, reply.more
            # 0: a Core of the previous version, which does not report it.
            self._login_token_seconds = reply.login_token_seconds or FOR_EVER
            self._guest_token_seconds = reply.guest_token_seconds or FOR_EVER
            self._token_seconds = reply.token_seconds or FOR_EVER
        self.known = not reply.partial
        self._forget(int(self.now()) // DAY_SECONDS)
        if not self.known:
            raise StoreUnavailable("the revoked tokens of a database are not known yet", sent=False)

    def _record(self, key: str, issued_until: int, expires_at: int) -> None:
        name, day = hash(key), expires_at // DAY_SECONDS + 1
        ended = day << UNTIL_BITS | issued_until
        if self._ended.get(name) == ended:
            return  # Already recorded: every poll returns the last seconds' rows again.
        if ended == self._last:
            ended = self._last  # Shares one int object among equal values, to save memory.
        self._ended[name] = self._last = ended
        if day not in self._forgotten_on:
            self._forgotten_on[day] = array("q")
        self._forgotten_on[day].append(name)

    def _forget(self, today: int) -> None:
        """Forgets revocations of expired tokens, except those that a later revocation extends."""
        if today == self._today:
            return
        self._today = today
        for day in [day for day in self._forgotten_on if day <= today]:
            for name in self._forgotten_on.pop(day):
                if self._ended.get(name, 0) >> UNTIL_BITS == day:
                    del self._ended[name]


def login_key(tenant_id: str, login_id: str) -> str:
    """The key of the tokens of a login."""
    return f"l{tenant_id}\0{login_id}"


def player_key(tenant_id: str, player_id: str) -> str:
    """The key of a player's tokens that belong to no login."""
    return f"p{tenant_id}\0{player_id}"


def sign_in_key(tenant_id: str, sign_in_id: str) -> str:
    """The key of the tokens of a staff sign-in."""
    return f"i{tenant_id}\0{sign_in_id}"


def staff_key(tenant_id: str, subject: str) -> str:
    """The key of all tokens of one staff subject."""
    return f"s{tenant_id}\0{subject}"


def token_key(tenant_id: str, token_id: str) -> str:
    """The key of an API token."""
    return f"t{tenant_id}\0{token_id}"


_KEYS: Final[Mapping[m.RevocationKind, Callable[[str, str], str]]] = {
    m.RevocationKind.LOGIN: login_key,
    m.RevocationKind.PLAYER: player_key,
    m.RevocationKind.SIGN_IN: sign_in_key,
    m.RevocationKind.STAFF: staff_key,
    m.RevocationKind.TOKEN: token_key,
}
