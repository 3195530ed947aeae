"""Login challenges as the edge makes them: one code for one contact, guessed at most five times, used once, and
only together with what it is used for (`BeginLogin`, `LinkContact`).

The edge makes the code, its HMAC and the challenge's id; Core keeps them and counts (runtime/operations/
challenges.py says how). Neither code nor contact is a key of anything: both are HMACs under a secret of the
edges alone, so what the store holds cannot be tried out. A requester is the address, as an HMAC. What is counted by
contact and requester is counted for a year, so their secret is one that stays when the others are rotated.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

import structlog

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault
from runtime.http.admission.client_address import Client
from runtime.operations.players.challenges import (
    ANSWER_CHALLENGE,
    ISSUE_CHALLENGE,
    WITHDRAW_CHALLENGE,
    unknown_challenge,
)

CODE_DIGITS: Final = 6
STRONG_CODE_DIGITS: Final = 20
"""Of a code that need not be bounded: 66 bits. Sent where too many of six digits were guessed wrong."""

log = structlog.get_logger(__name__)

_ID: Final = re.compile(r"chal_[0-9a-f]{32}")


class Issued(NamedTuple):
    """A challenge and the code that answers it. Times are unix seconds."""

    challenge_id: str
    code: str
    expires_at: int
    resend_at: int


class Challenges:
    """Challenges of one edge. `keys` key the HMACs of codes, the first the new ones; `counted_by` that of whom is
    counted. Edges of one Core share them.
    """

    def __init__(
        self, caller: Caller, keys: Sequence[bytes], counted_by: bytes, *, limit_addresses: bool = True
    ) -> None:
        self._caller = caller
        self._keys = keys
        self._counted_by = counted_by
        self._limit_addresses = limit_addresses

    async def issue(self, scope: m.Scope, contact: str, client: Client, login_id: str = "") -> Issued:
        """A new challenge for `contact`, any text that stands for one contact (`phone:+15550100`).

        login_id: a login that the client has had.

        RESOURCE_EXHAUSTED RESEND_TOO_SOON or RATE_LIMITED; NOT_FOUND UNKNOWN_TENANT.
        """
        challenge_id = f"chal_{secrets.token_hex(16)}"
        code, strong_code = _code(CODE_DIGITS), _code(STRONG_CODE_DIGITS)
        issued = await self._caller.call(
            ISSUE_CHALLENGE,
            m.IssueChallengeRequest(
                scope=scope,
                challenge_id=challenge_id,
                contact=contact,
                contact_hash=self._digest(f"contact\0{contact}"),
                requester=self.requester(client),
                **self.rated(client),
                code_hash=_hash(self._keys[0], challenge_id, code),
                strong_code_hash=_hash(self._keys[0], challenge_id, strong_code),
                login_id=login_id,
            ),
        )
        return Issued(challenge_id, strong_code if issued.strong else code, issued.expires_at, issued.resend_at)

    async def withdraw(self, scope: m.Scope, challenge_id: str, client: Client, login_id: str = "") -> None:
        """Forgets a challenge whose code could not be sent, and lets another be sent at once, if Core answers."""
        try:
            request = m.WithdrawChallengeRequest(
                scope=scope, challenge_id=challenge_id, login_id=login_id, **self.rated(client)
            )
            await self._caller.call(WITHDRAW_CHALLENGE, request)
        except Fault as fault:
            log.warning("challenge_not_withdrawn", why=fault.message)

    async def answer(self, scope: m.Scope, challenge_id: str, code: str, client: Client, *, contact: str = "") -> str:
        """The contact that the code proves, until it is used. `client`: who guesses.

        With `contact` only a challenge of that one counts, and another's is not touched. NOT_FOUND
        UNKNOWN_CHALLENGE; UNAUTHENTICATED CODE_WRONG with `attempts_left`, or CODE_EXPIRED; RATE_LIMITED.
        """
        if _ID.fullmatch(challenge_id) is None:
            raise unknown_challenge()
        answered = await self._caller.call(
            ANSWER_CHALLENGE,
            m.AnswerChallengeRequest(
                scope=scope,
                challenge_id=challenge_id,
                code_hashes=[_hash(key, challenge_id, code) for key in self._keys],
                contact=contact,
                **self.rated(client),
            ),
        )
        proved: str = answered.contact
        return proved

    def requester(self, client: Client) -> str:
        """A client, as Core knows who asks."""
        return self._digest(f"requester\0{client.address}")

    def rated(self, client: Client) -> dict[str, str]:
        """The fields of a request that say whose rates Core is to charge; none where nobody's are."""
        if not self._limit_addresses:
            return {}
        return {kind: self._digest(f"{kind}\0{name}") for kind, name in client._asdict().items() if name}

    def _digest(self, text: str) -> str:
        return hmac.digest(self._counted_by, text.encode(), "sha256")[:16].hex()


def _code(digits: int) -> str:
    return f"{secrets.randbelow(10**digits):0{digits}}"


def _hash(key: bytes, challenge_id: str, code: str) -> str:
    return hmac.digest(key, f"code\0{challenge_id}\0{code}".encode(), "sha256").hex()
