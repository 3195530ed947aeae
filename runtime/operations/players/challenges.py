"""Login challenges of the consumer edge: rate limits on sent codes and on wrong guesses.

The edge makes and sends the codes (runtime/http/login/). Core stores only their HMACs and the contact, for an hour.
The limits stop guessing without locking the contact's owner out:

- A challenge takes `TRIES_MAX` guesses, and only its requester knows its id.
- Wrong guesses count against the requester (its address, hashed) until it verifies the contact. After every TRIES_MAX
  of them that requester alone waits for its next code: a minute, then twice as long each time, up to an hour.
- Requesters that never verified the contact are strangers, and share a count. At `WRONG_MAX` wrong guesses since the
  last right one (NIST SP 800-63B, 5.2.2: at most 100), by strangers or by the requester, the next code has 20 digits
  in place of six: more than the 64 bits above which guesses need no limit (5.1.3.2). So the owner can always log in,
  and an attacker gets a hundred guesses.
- Sends to a contact's mailbox, with all its aliases, are limited over all tenants, in separate buckets: one for all
  strangers, one for each requester that verified the contact, and one for requesters with a refresh token, even an
  ended one, of a login by it. One requester or network may use half of the strangers' bucket. Addresses and networks
  have their own limits, too.

An attacker with many addresses can empty the strangers' bucket. An owner without a known address or token then waits
for its refill (SENDS.seconds). An exception for them would also admit an attacker who earns money by each message.

Refusals are checked first, without a write or a lock, so that a flood of refused requests costs only reads.
"""

from __future__ import annotations

import hmac
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.tenant_sender import has_own
from runtime.errors import Fault, Status, unknown
from runtime.operations.checks import Checks
from runtime.operations.row import Operation
from runtime.outgoing.vault import vault_of
from runtime.wire.contacts import canonical
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("challenges")

CODE_SECONDS: Final = 300
TRIES_MAX: Final = 5
WRONG_MAX: Final = 100
RESEND_SECONDS: Final = 60
WAIT_SECONDS_MAX: Final = 3_600
NETWORK_TIMES: Final = 16
"""A network's rate, in rates of one address. A network is an IPv6 /48: 65,536 subscribers' addresses
(runtime/http/admission/client_address.py)."""

ALL_TENANTS: Final = ""
"""The tenant id of limits over all tenants: a phone has the same owner, whichever tenant sends to it."""


class Rate(NamedTuple):
    """A bucket of `most` tokens that refills one every `seconds`. `kind` is the first part of its key."""

    kind: str
    seconds: float
    most: int

    def of_network(self, kind: str) -> Rate:
        """The rate of a whole network, given this rate of one address."""
        return Rate(kind, self.seconds / NETWORK_TIMES, self.most * NETWORK_TIMES)


RESEND: Final = Rate("resend", RESEND_SECONDS, 1)
SENDS: Final = Rate("sends", 360, 10)
"""Codes sent to one mailbox or phone: ten at once, then ten an hour. Each message may cost the operator money."""

SENDS_ONE: Final = Rate("sends-one", 2 * SENDS.seconds, SENDS.most // 2)
"""Half of the strangers' sends, for one requester or network. So no single one can keep the owner, at a new address,
from a code."""

SENDS_ADDRESS: Final = Rate("sends-ip", 12, 300)
"""Codes requested by one address, which a whole office may share."""

SENDS_NETWORK: Final = SENDS_ADDRESS.of_network("sends-net")

WRONG_ADDRESS: Final = Rate("wrong-ip", 2, 300)
"""Wrong guesses by one address over all challenges, including unknown ones."""

WRONG_NETWORK: Final = WRONG_ADDRESS.of_network("wrong-net")


async def issue_challenge(engine: Engine, request: m.IssueChallengeRequest) -> m.IssueChallengeReply:
    """Creates a challenge.

    RESOURCE_EXHAUSTED RESEND_TOO_SOON within RESEND_SECONDS of the requester's last one, or during the wait after
    wrong guesses; RATE_LIMITED over a rate limit; ALREADY_EXISTS CHALLENGE_EXISTS; NOT_FOUND UNKNOWN_TENANT.
    """
    tenant_id, contact, requester = tenant_of(request), request.contact_hash, request.requester
    _check(request, "challenge_id", "contact", "contact_hash", "requester", "code_hash", "strong_code_hash")

    resend = (RESEND, f"{contact}:{requester}")
    own = await engine.database.fetchrow(
        _SQL["read_refusals"],
        tenant_id,
        contact,
        requester,
        _key(*resend),
        request.login_id,
        *_split_contact(request.contact),
    )
    if own is None:
        raise unknown("tenant", tenant_id)
    if own["wait_seconds"] > 0:
        raise _must_wait(own["wait_seconds"])
    if own["resend_seconds"] > 0:
        raise _bucket_empty(RESEND, own["resend_seconds"])
    known = own["known"]
    own_sender = request.contact.startswith("email:") and has_own(engine.settings, own["sender"])
    origin = (_mailbox(engine, request.contact), requester, request.address, request.network)
    await _refuse_early(engine, _sends(*origin, _bucket_owner(requester, own["proved"], known)))

    async def work(connection: asyncpg.Connection) -> m.IssueChallengeReply:
        # A Fault rolls back what was charged, so a refusal costs nothing.
        counters = (contact, requester, fingerprints(engine, tenant_id, request.contact)[0])
        await connection.execute(_SQL["create_counters"], tenant_id, *counters)
        guesses = await connection.fetch(_SQL["lock_guesses"], tenant_id, contact, requester)
        if not guesses:
            raise unknown("tenant", tenant_id)
        strangers, own = guesses
        if own["wait_seconds"] > 0:
            raise _must_wait(own["wait_seconds"])
        strong = _exhausted(strangers, own)
        row = await connection.fetchrow(
            _SQL["issue"],
            tenant_id,
            request.challenge_id,
            request.contact,
            contact,
            requester,
            request.strong_code_hash if strong else request.code_hash,
            strong,
            CODE_SECONDS,
        )
        if row is None:
            raise Fault(Status.ALREADY_EXISTS, "CHALLENGE_EXISTS", "a challenge with this id already exists")
        await charge_all(connection, _sends(*origin, _bucket_owner(requester, own["proved"], known)))
        await _charge(connection, tenant_id, *resend)
        resend_at = row["issued_at"] + RESEND_SECONDS
        return m.IssueChallengeReply(
            expires_at=row["expires_at"], resend_at=resend_at, strong=strong, own_sender=own_sender
        )

    return await engine.database.transaction(work)


async def answer_challenge(engine: Engine, request: m.AnswerChallengeRequest) -> m.AnswerChallengeReply:
    """Checks a code and returns the contact that it verifies. A right code stays valid until it is used (`consume`).

    NOT_FOUND UNKNOWN_CHALLENGE; UNAUTHENTICATED CODE_WRONG with `attempts_left`, or CODE_EXPIRED;
    RESOURCE_EXHAUSTED RATE_LIMITED.
    """
    tenant_id, guesses = tenant_of(request), _guesses(request)
    _check(request, "challenge_id")
    await _refuse_early(engine, guesses)

    async def work(connection: asyncpg.Connection) -> str | Fault:
        # A refusal is returned, not raised, so that its counts commit. An address over its rate limit raises instead:
        # its guess is rolled back, and the caller does not learn whether it was right.
        found = await _answer(connection, tenant_id, request)
        await charge_all(connection, guesses)
        if not isinstance(found, Fault):
            for rate, name in guesses:
                await _refund(connection, ALL_TENANTS, rate, name)
        return found

    found = await engine.database.transaction(work)
    if isinstance(found, Fault):
        raise found
    return m.AnswerChallengeReply(contact=found)


async def withdraw_challenge(engine: Engine, request: m.WithdrawChallengeRequest) -> m.Empty:
    """Deletes a challenge whose code could not be sent and refunds the limits of its contact, so that its requester may
    get another code at once.

    The address and the network stay charged: otherwise contacts that the sender refuses would allow unlimited sends.
    """
    tenant_id = tenant_of(request)
    _check(request, "challenge_id")

    async def work(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["remove"], tenant_id, request.challenge_id)
        if row is None:
            return
        contact, requester = row["contact_hash"], row["requester"]
        arguments = (tenant_id, contact, requester, "", request.login_id, *_split_contact(row["contact"]))
        own = await connection.fetchrow(_SQL["read_refusals"], *arguments)
        owner = _bucket_owner(requester, own["proved"], own["known"]) if own is not None else ""
        for bucket in _sends_to(_mailbox(engine, row["contact"]), requester, request.network, owner):
            await _refund(connection, ALL_TENANTS, *bucket)
        await _refund(connection, tenant_id, RESEND, f"{contact}:{requester}")

    await engine.database.transaction(work)
    return m.Empty()


async def consume(connection: asyncpg.Connection, tenant_id: str, challenge_id: str) -> bool:
    """Consumes a challenge whose code was right, in the transaction that needs it. False if it has ended."""
    row = await connection.fetchrow(_SQL["remove"], tenant_id, challenge_id)
    if row is None:
        return False
    await connection.execute(_SQL["reset_counters"], tenant_id, row["contact_hash"], row["requester"])
    return True


def fingerprints(engine: Engine, tenant_id: str, contact: str) -> list[bytes]:
    """The fingerprints of a contact's guess counters: the one to store, and those by earlier keys."""
    return vault_of(engine.keyring.code).fingerprints(contact, f"login/{tenant_id}")


def unknown_challenge() -> Fault:
    """NOT_FOUND UNKNOWN_CHALLENGE."""
    return Fault(Status.NOT_FOUND, "UNKNOWN_CHALLENGE", "the challenge does not exist, or its code was used")


PURGES: Final = {name: _SQL[name] for name in ("purge_challenges", "purge_rates", "purge_unmarked", "purge_guesses")}
"""Delete ended rows of one tenant ($1), at most $2 each."""


async def _answer(connection: asyncpg.Connection, tenant_id: str, request: m.AnswerChallengeRequest) -> str | Fault:
    """The contact if the code is right, else the refusal. Counts a wrong guess."""
    challenge = await connection.fetchrow(_SQL["lock_challenge"], tenant_id, request.challenge_id)
    if challenge is None or (request.contact and challenge["contact"] != request.contact):
        return unknown_challenge()
    if challenge["expired"]:
        return Fault(Status.UNAUTHENTICATED, "CODE_EXPIRED", "the code has expired; request a new one")
    key = (tenant_id, challenge["contact_hash"], challenge["requester"])
    strangers, own = await connection.fetch(_SQL["lock_guesses"], *key)
    if challenge["tries"] >= TRIES_MAX or (not challenge["strong"] and _exhausted(strangers, own)):
        return _wrong(0)
    expected = challenge["code_hash"].encode()
    if any(hmac.compare_digest(expected, code_hash.encode()) for code_hash in request.code_hashes):
        contact: str = challenge["contact"]
        return contact
    await connection.execute(_SQL["count_try"], tenant_id, request.challenge_id)
    await connection.execute(_SQL["count_wrong"], *key, _wait_seconds(own["wrong"] + 1))
    if not own["proved"]:
        await connection.execute(_SQL["count_wrong"], *key[:2], "", 0)
    return _wrong(TRIES_MAX - challenge["tries"] - 1)


def _exhausted(strangers: Any, own: Any) -> bool:
    """Whether this requester or strangers guessed the contact's six-digit codes wrong too often."""
    return own["wrong"] >= WRONG_MAX or (not own["proved"] and strangers["wrong"] >= WRONG_MAX)


def _wait_seconds(wrong: int) -> float:
    """The wait after the `wrong`th wrong guess in a row. It doubles every TRIES_MAX guesses."""
    rounds, others = divmod(wrong, TRIES_MAX)
    return 0 if others else min(WAIT_SECONDS_MAX, RESEND_SECONDS * 2 ** min(rounds - 1, 16))


Bucket = tuple[Rate, str]
"""A rate, and the rest of its key."""


def _split_contact(contact: str) -> tuple[str, str]:
    type, _, value = contact.partition(":")
    return type, value


def _mailbox(engine: Engine, contact: str) -> str:
    """The hash of all aliases of the contact's mailbox, for the limits of sends."""
    kind, value = _split_contact(contact)
    return vault_of(engine.keyring.code).fingerprints(f"{kind}:{canonical(kind, value)}", "login sends")[0].hex()


def _bucket_owner(requester: str, proved: bool, known: bool) -> str:
    """The owner of the bucket that a send is taken from: the requester's hash, "known", or "" for strangers."""
    return requester if proved else "known" if known else ""


def _sends(mailbox: str, requester: str, address: str, network: str, owner: str) -> list[Bucket]:
    """The buckets over all tenants that a code to the mailbox is taken from, in lock order."""
    origin = [(SENDS_ADDRESS, address), (SENDS_NETWORK, network)]
    return [(rate, name) for rate, name in origin if name] + _sends_to(mailbox, requester, network, owner)


def _sends_to(mailbox: str, requester: str, network: str, owner: str) -> list[Bucket]:
    """Those of `_sends` that limit the codes to this mailbox."""
    one = [] if owner else [(SENDS_ONE, f"{mailbox}:{network or requester}")]
    return [*one, (SENDS, f"{mailbox}:{owner}")]


def _guesses(request: m.AnswerChallengeRequest) -> list[Bucket]:
    buckets = [(WRONG_ADDRESS, request.address), (WRONG_NETWORK, request.network)]
    return [(rate, name) for rate, name in buckets if name]


async def _refuse_early(engine: Engine, buckets: list[Bucket]) -> None:
    """RESOURCE_EXHAUSTED if one of these buckets over all tenants is empty, for the price of a read."""
    if not buckets:
        return
    keys = [_key(rate, name) for rate, name in buckets]
    bounds = [rate.seconds for rate, _ in buckets], [rate.most for rate, _ in buckets]
    row = await engine.database.fetchrow(_SQL["first_empty"], ALL_TENANTS, keys, *bounds)
    if row is not None:
        raise _bucket_empty(buckets[row["nth"] - 1][0], row["wait_seconds"])


async def charge_all(connection: asyncpg.Connection, buckets: list[Bucket]) -> None:
    """Takes one from each of these buckets over all tenants, in order. RESOURCE_EXHAUSTED if one is empty."""
    for rate, name in buckets:
        await _charge(connection, ALL_TENANTS, rate, name)


async def _charge(connection: asyncpg.Connection, tenant_id: str, rate: Rate, name: str) -> None:
    key = _key(rate, name)
    if await connection.fetchval(_SQL["take_token"], tenant_id, key, rate.seconds, rate.most) is None:
        row = await connection.fetchrow(_SQL["first_empty"], tenant_id, [key], [rate.seconds], [rate.most])
        raise _bucket_empty(rate, row["wait_seconds"] if row is not None else 0.0)


def _bucket_empty(rate: Rate, wait_seconds: float) -> Fault:
    if rate is RESEND:
        return _too_soon("a code was sent just now; wait before requesting another one", wait_seconds)
    message = {
        SENDS_ONE.kind: "too many codes to this contact were requested from this address or network",
        SENDS.kind: "too many codes were sent to this contact",
        SENDS_ADDRESS.kind: "too many codes were requested from this address",
        SENDS_NETWORK.kind: "too many codes were requested from this network",
        WRONG_ADDRESS.kind: "too many wrong codes from this address",
        WRONG_NETWORK.kind: "too many wrong codes from this network",
        "message-sample": "too many sample mails were sent just now",
        "reward-code": "the code of this reward was sent several times just now",
    }.get(rate.kind, "too many guests were logged out from this address or network")
    return Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=wait_seconds, policy=rate.kind)


async def _refund(connection: asyncpg.Connection, tenant_id: str, rate: Rate, name: str) -> None:
    await connection.execute(_SQL["return_token"], tenant_id, _key(rate, name), rate.seconds)


def _key(rate: Rate, name: str) -> str:
    return f"{rate.kind}:{name}"


def _check(request: Any, *names: str) -> None:
    """INVALID_ARGUMENT if one of these fields is empty. The edge fills hashes and ids in."""
    checks = Checks()
    for name in names:
        checks.required(name, getattr(request, name))
    checks.raise_found()


def _must_wait(wait_seconds: float) -> Fault:
    return _too_soon("too many wrong codes; wait before requesting a new one", wait_seconds)


def _too_soon(message: str, wait_seconds: float) -> Fault:
    return Fault(Status.RESOURCE_EXHAUSTED, "RESEND_TOO_SOON", message, retry_after_seconds=wait_seconds)


def _wrong(remaining: int) -> Fault:
    return Fault(Status.UNAUTHENTICATED, "CODE_WRONG", "the code is wrong", attempts_left=remaining)


# -- rows ------------------------------------------------------------------------------------

ISSUE_CHALLENGE: Final = Operation(
    "IssueChallenge",
    "POST /logins/challenges",
    run=issue_challenge,
    bounded=True,
    refusals=("CHALLENGE_EXISTS", "RATE_LIMITED", "RESEND_TOO_SOON", "UNKNOWN_TENANT"),
    example={
        "challenge_id": "chal_0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "contact": "email:ada@example.com",
        "contact_hash": "5a2c",
        "requester": "9d1f",
        "code_hash": "77ab",
        "strong_code_hash": "c0de",
    },
)
ANSWER_CHALLENGE: Final = Operation(
    "AnswerChallenge",
    "POST /logins/challenges/answer",
    run=answer_challenge,
    bounded=True,
    refusals=("UNKNOWN_CHALLENGE", "CODE_WRONG", "CODE_EXPIRED", "RATE_LIMITED"),
    example={"challenge_id": "chal_0f1e2d3c4b5a69788796a5b4c3d2e1f0", "code_hashes": ["77ab"]},
)
WITHDRAW_CHALLENGE: Final = Operation(
    "WithdrawChallenge",
    "POST /logins/challenges/withdraw",
    run=withdraw_challenge,
    example={"challenge_id": "chal_0f1e2d3c4b5a69788796a5b4c3d2e1f0"},
)

ROWS: Final = (ISSUE_CHALLENGE, ANSWER_CHALLENGE, WITHDRAW_CHALLENGE)
