"""Login challenges: one code for one contact, with at most five guesses, consumed once, in the transaction of its
purpose (`BeginLogin`, `LinkContact`).

The edge creates the code, its HMAC and the challenge's id; Core stores them and counts the guesses
(runtime/operations/players/challenges.py). Code and contact are stored only as HMACs under a secret of the edges, so
the stored values cannot be brute-forced. The requester is an HMAC of the address. Counters by contact and requester
last a year, so their secret is not rotated with the others.
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
from runtime.operations.players.login_mails import SEND_LOGIN_CODE

CODE_DIGITS: Final = 6
STRONG_CODE_DIGITS: Final = 20
"""The digits of a code that needs no limit of guesses: 66 bits. Sent after too many wrong guesses of short codes."""

log = structlog.get_logger(__name__)

_ID: Final = re.compile(r"chal_[0-9a-f]{32}")


class Issued(NamedTuple):
    """A challenge and its code. Times are Unix seconds. own_sender: the tenant's sender sends it (`send`)."""

    challenge_id: str
    code: str
    expires_at: int
    resend_at: int
    own_sender: bool


class Challenges:
    """The challenges of an edge. `keys` are the HMAC keys of codes, the first for new ones; `counter_key` is the key of
    the counters' subjects. All edges of one Core share them.
    """

    def __init__(
        self, caller: Caller, keys: Sequence[bytes], counter_key: bytes, *, limit_addresses: bool = True
    ) -> None:
        self._caller = caller
        self._keys = keys
        self._counter_key = counter_key
        self._limit_addresses = limit_addresses

    async def issue(self, scope: m.Scope, contact: str, client: Client, login_id: str = "") -> Issued:
        """Creates a challenge for `contact`, a text that identifies one contact (`phone:+15550100`).

        login_id: an earlier login of the client.

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
        code = strong_code if issued.strong else code
        return Issued(challenge_id, code, issued.expires_at, issued.resend_at, issued.own_sender)

    async def send(self, scope: m.Scope, contact: str, issued: Issued) -> None:
        """Sends a code by the tenant's own sender. UNAVAILABLE SENDER_UNAVAILABLE."""
        request = m.SendLoginCodeRequest(scope=scope, contact=contact, code=issued.code, expires_at=issued.expires_at)
        await self._caller.call(SEND_LOGIN_CODE, request)

    async def withdraw(self, scope: m.Scope, challenge_id: str, client: Client, login_id: str = "") -> None:
        """Deletes a challenge whose code could not be sent, so that another may be sent immediately. Best effort."""
        try:
            network = self.rated(client).get("network", "")
            request = m.WithdrawChallengeRequest(
                scope=scope, challenge_id=challenge_id, login_id=login_id, network=network
            )
            await self._caller.call(WITHDRAW_CHALLENGE, request)
        except Fault as fault:
            log.warning("challenge_not_withdrawn", why=fault.message)

    async def answer(self, scope: m.Scope, challenge_id: str, code: str, client: Client, *, contact: str = "") -> str:
        """Checks a code and returns the contact that it verifies, without consuming it.

        With `contact`, only a challenge for that contact is accepted; others stay untouched. NOT_FOUND
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
        verified: str = answered.contact
        return verified

    def requester(self, client: Client) -> str:
        """The client's id at Core."""
        return self._digest(f"requester\0{client.address}")

    def rated(self, client: Client) -> dict[str, str]:
        """The request fields for Core's rate limits per address; empty if those are off."""
        if not self._limit_addresses:
            return {}
        return {kind: self._digest(f"{kind}\0{name}") for kind, name in client._asdict().items() if name}

    def _digest(self, text: str) -> str:
        return hmac.digest(self._counter_key, text.encode(), "sha256")[:16].hex()


def _code(digits: int) -> str:
    return f"{secrets.randbelow(10**digits):0{digits}}"


def _hash(key: bytes, challenge_id: str, code: str) -> str:
    return hmac.digest(key, f"code\0{challenge_id}\0{code}".encode(), "sha256").hex()
