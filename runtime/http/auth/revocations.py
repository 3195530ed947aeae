"""Tokens that were revoked, as an edge remembers them: no request asks a store whether its token is.

Core keeps them durably and hands out what is new (`ListRevocations`); an edge reads it every `EVERY_SECONDS`.
So a revoked token lives at most that long, plus the time of one reading, on an edge that Core answers; on the
edge that revoked it no longer than its own answer takes. With Core away nothing that a token opens is done.

Each takes about 100 bytes, for as long as the token might live: a month for a guest's. GUESTS_ENDED
(runtime/operations/players/logins.py) bounds how many guests of one address log out in that month to 43,500: 4 MiB in
each edge, and 70 MiB for a network. An API token's is kept two hours, since an edge asks for each token once an hour,
and a tenant ends so many in that time (TOKENS_MAX in runtime/operations/staff/tokens.py).

Core forgets a revocation once its tokens have expired, by its own settings of how long they live, and says which
these are: an edge that is told otherwise makes and takes none that live longer. And it says what time it is by the
database's clock, by which tokens are revoked: an edge makes and judges them by that (`now`), since one that is ahead
would take, and give, tokens that are issued after the revocations of what is issued until now.
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
from runtime.stores.single_flight import SingleFlight

EVERY_SECONDS: Final = 1.0
DAY_SECONDS: Final = 86_400

UNTIL_BITS: Final = 34
FOR_EVER: Final = 2**UNTIL_BITS - 1
"""A time (unix seconds) after all others."""


class Revocations:
    """What was revoked, by the keys of an identity: `login_key`, `player_key`, `sign_in_key` and so on."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._since = ""
        # By the hash of its key, which nobody outside can foresee: the day from which on it is forgotten, and, in the
        # lowest bits, until when what was issued is refused. A third of what the keys themselves would take.
        self._ended: dict[int, int] = {}
        self._last = 0
        self._forgotten_on: dict[int, array[int]] = {}
        self._today = 0
        self._login_token_seconds = self._guest_token_seconds = self._token_seconds = FOR_EVER
        self._first = SingleFlight()
        self._clock = Clock()
        self.known = False
        """Whether everything there was has been read once."""

    def now(self) -> float:
        """The database's time, unix seconds; before the first reading this process's own."""
        return self._clock.now()

    def revoked(self, key: str, issued_at: float) -> bool:
        """Whether the token of this key, issued then (unix seconds), was revoked."""
        ended = self._ended.get(hash(key))
        return ended is not None and issued_at <= ended & FOR_EVER

    def longest(self, player_id: str, login_id: str) -> int:
        """The longest life, in seconds, of a token whose revocation Core remembers until its end: of this login, or of
        none ("") and this player. Read first.
        """
        if login_id:
            return self._login_token_seconds
        return self._guest_token_seconds if ids.is_guest(player_id) else self._token_seconds

    async def read_first(self) -> None:
        """Reads everything there was, once for all who wait for it. Raises Fault where Core does not answer.

        Only until it is known: who has just revoked something needs a reading that began after that.
        """
        if not self.known:
            await self._first.share("first", self.read)

    async def read(self) -> None:
        """Reads what is new. Raises Fault where Core does not answer."""
        more = True
        while more:
            request = m.ListRevocationsRequest(since=self._since)
            sent = monotonic()
            reply: m.ListRevocationsReply = await self._caller.call(LIST_REVOCATIONS, request)
            if reply.now_us:
                self._clock.sync(reply.now_us / 1_000_000, sent, monotonic())
            for row in reply.revocations:
                if (key_of := _KEYS.get(row.kind)) is None:
                    continue  # Of a kind of token that this version does not take.
                key = key_of(row.tenant_id, row.subject)
                self._note(key, row.issued_until or FOR_EVER, row.kept_until)
            self._since, more = reply.since, reply.more
            # 0: a Core of the version before, which does not say.
            self._login_token_seconds = reply.login_token_seconds or FOR_EVER
            self._guest_token_seconds = reply.guest_token_seconds or FOR_EVER
            self._token_seconds = reply.token_seconds or FOR_EVER
        self.known = True
        self._forget(int(self.now()) // DAY_SECONDS)

    def _note(self, key: str, issued_until: int, kept_until: int) -> None:
        name, day = hash(key), kept_until // DAY_SECONDS + 1
        ended = day << UNTIL_BITS | issued_until
        if self._ended.get(name) == ended:
            return  # The same row: those of the last seconds are read again and again.
        if ended == self._last:
            ended = self._last  # One number for all of a day that are refused for ever.
        self._ended[name] = self._last = ended
        if day not in self._forgotten_on:
            self._forgotten_on[day] = array("q")
        self._forgotten_on[day].append(name)

    def _forget(self, today: int) -> None:
        """Forgets those whose tokens have all expired, but for what was revoked again and is to be known longer."""
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
    """The key of the tokens of a sign-in of staff's."""
    return f"i{tenant_id}\0{sign_in_id}"


def staff_key(tenant_id: str, subject: str) -> str:
    """The key of every token of one of the tenant's staff."""
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
