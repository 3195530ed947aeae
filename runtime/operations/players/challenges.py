"""Login challenges, kept for the consumer edge: how often a code is sent, and how often it may be guessed wrong.

The edge makes codes and sends them (runtime/http/login/); here are only HMACs of them, and the contact, for an
hour. Guesses are bounded so that whoever guesses at another's contact keeps its owner from nothing:

- A challenge takes `TRIES_MAX` guesses, and only who asked for it knows its id.
- Wrong guesses count against the requester (the address, as a hash) who asked for the challenge, for as long as
  the contact has not been proved from there. After every TRIES_MAX of them that requester, nobody else, waits for
  its next code: a minute, then twice as long each time, an hour at most.
- All requesters who never proved to be the contact's count together, too. At `WRONG_MAX` wrong guesses since the
  last right one (NIST SP 800-63B, 5.2.2: at most 100), of theirs or of a requester's own, codes of six digits are
  over: the next is one of 20, which has more than the 64 bits from where on guesses need no bound (5.1.3.2).
  So the owner is never shut out, and a thief has had his hundred.
- Sends are bounded by contact over all tenants: those that strangers ask for together; those of each requester who
  proved to be the contact's by themselves; and together those of who shows a refresh token, over or not, of a login by
  this contact. Of those of strangers one requester, or one network, gets half at most. Addresses and networks are
  bounded too, sends and wrong guesses. So who has many addresses can use up what strangers share, and whoever has
  neither an address nor a token from before waits for the next (SENDS.seconds): a bound that let them by would let by
  who is paid for each message, too.

What must be refused is looked for first, and nothing written or locked for it: a flood of refusals costs reads alone.
"""

from __future__ import annotations

import hmac
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations.checks import Checks
from runtime.operations.row import Operation
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("challenges")

CODE_SECONDS: Final = 300
TRIES_MAX: Final = 5
WRONG_MAX: Final = 100
RESEND_SECONDS: Final = 60
WAIT_SECONDS_MAX: Final = 3_600
NETWORK_TIMES: Final = 16
"""As many addresses' rates a whole network has: an IPv6 /48, with its 65,536 addresses of a subscriber each
(runtime/http/admission/client_address.py)."""

OVER_ALL: Final = ""
"""The tenant of what holds over all of them: whose phone it is does not depend on who sends to it."""


class Rate(NamedTuple):
    """A bucket of `most` that refills one in `seconds`; `kind` is the first part of its key."""

    kind: str
    seconds: float
    most: int

    def of_network(self, kind: str) -> Rate:
        """What all addresses of a network together have where this is what one has."""
        return Rate(kind, self.seconds / NETWORK_TIMES, self.most * NETWORK_TIMES)


RESEND: Final = Rate("resend", RESEND_SECONDS, 1)
SENDS: Final = Rate("sends", 360, 10)
"""Codes to one contact, ten an hour in the long run: each message may cost the operator money."""

SENDS_ONE: Final = Rate("sends-one", 2 * SENDS.seconds, SENDS.most // 2)
"""What of the sends that strangers share one requester, or one network, may use: half, now and in the long run, so
that nobody alone keeps the owner, who comes from a new address, from its code."""

SENDS_ADDRESS: Final = Rate("sends-ip", 12, 300)
"""The same for one address, which may stand for a whole office."""

SENDS_NETWORK: Final = SENDS_ADDRESS.of_network("sends-net")

WRONG_ADDRESS: Final = Rate("wrong-ip", 2, 300)
"""Wrong guesses of one address, at whatever challenges, known or not."""

WRONG_NETWORK: Final = WRONG_ADDRESS.of_network("wrong-net")


async def issue_challenge(engine: Engine, request: m.IssueChallengeRequest) -> m.IssueChallengeReply:
    """A new challenge.

    RESOURCE_EXHAUSTED RESEND_TOO_SOON within RESEND_SECONDS of the requester's last, or while it waits for its
    wrong guesses; RATE_LIMITED over a rate; ALREADY_EXISTS CHALLENGE_EXISTS; NOT_FOUND UNKNOWN_TENANT.
    """
    tenant_id, contact, requester = tenant_of(request), request.contact_hash, request.requester
    _check(request, "challenge_id", "contact", "contact_hash", "requester", "code_hash", "strong_code_hash")

    resend = (RESEND, f"{contact}:{requester}")
    own = await engine.database.fetchrow(
        _SQL["look"], tenant_id, contact, requester, _key(*resend), request.login_id, *_told_apart(request.contact)
    )
    if own is None:
        raise unknown("tenant", tenant_id)
    if own["wait_seconds"] > 0:
        raise _waits(own["wait_seconds"])
    if own["resend_seconds"] > 0:
        raise _empty(RESEND, own["resend_seconds"])
    known = own["known"]
    who = (contact, requester, request.address, request.network)
    await _refuse_early(engine, _sends(*who, _whose(requester, own["proved"], known)))

    async def work(connection: asyncpg.Connection) -> m.IssueChallengeReply:
        # A Fault undoes what was charged: a refusal costs nothing.
        await connection.execute(_SQL["meet"], tenant_id, contact, requester)
        guesses = await connection.fetch(_SQL["lock_guesses"], tenant_id, contact, requester)
        if not guesses:
            raise unknown("tenant", tenant_id)
        strangers, own = guesses
        if own["wait_seconds"] > 0:
            raise _waits(own["wait_seconds"])
        strong = _used_up(strangers, own)
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
            raise Fault(Status.ALREADY_EXISTS, "CHALLENGE_EXISTS", "there is a challenge of this id already")
        await charge_all(connection, _sends(*who, _whose(requester, own["proved"], known)))
        await _charge(connection, tenant_id, *resend)
        resend_at = row["issued_at"] + RESEND_SECONDS
        return m.IssueChallengeReply(expires_at=row["expires_at"], resend_at=resend_at, strong=strong)

    return await engine.database.transaction(work)


async def answer_challenge(engine: Engine, request: m.AnswerChallengeRequest) -> m.AnswerChallengeReply:
    """The contact that the code proves, as it does until what it is for has come about (`use_up`).

    NOT_FOUND UNKNOWN_CHALLENGE; UNAUTHENTICATED CODE_WRONG with `attempts_left`, or CODE_EXPIRED;
    RESOURCE_EXHAUSTED RATE_LIMITED.
    """
    tenant_id, guesses = tenant_of(request), _guesses(request)
    _check(request, "challenge_id")
    await _refuse_early(engine, guesses)

    async def work(connection: asyncpg.Connection) -> str | Fault:
        # A refusal is returned, not raised, so that what it counted stays counted; but for an address over its
        # rate, whose guess is undone and not told, right or wrong.
        found = await _answer(connection, tenant_id, request)
        await charge_all(connection, guesses)
        if not isinstance(found, Fault):
            for rate, name in guesses:
                await _give_back(connection, OVER_ALL, rate, name)
        return found

    found = await engine.database.transaction(work)
    if isinstance(found, Fault):
        raise found
    return m.AnswerChallengeReply(contact=found)


async def withdraw_challenge(engine: Engine, request: m.WithdrawChallengeRequest) -> m.Empty:
    """Forgets a challenge whose code could not be sent, and gives back what was taken for it: its requester may have
    another at once, however often that happens.
    """
    tenant_id = tenant_of(request)
    _check(request, "challenge_id")

    async def work(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["remove"], tenant_id, request.challenge_id)
        if row is None:
            return
        contact, requester = row["contact_hash"], row["requester"]
        look = (tenant_id, contact, requester, "", request.login_id, *_told_apart(row["contact"]))
        own = await connection.fetchrow(_SQL["look"], *look)
        whose = _whose(requester, own["proved"], own["known"]) if own is not None else ""
        for bucket in _sends(contact, requester, request.address, request.network, whose):
            await _give_back(connection, OVER_ALL, *bucket)
        await _give_back(connection, tenant_id, RESEND, f"{contact}:{requester}")

    await engine.database.transaction(work)
    return m.Empty()


async def use_up(connection: asyncpg.Connection, tenant_id: str, challenge_id: str) -> bool:
    """Ends a challenge whose code was right, in the transaction of what it is used for. False where it is over."""
    row = await connection.fetchrow(_SQL["remove"], tenant_id, challenge_id)
    if row is None:
        return False
    await connection.execute(_SQL["prove"], tenant_id, row["contact_hash"], row["requester"])
    return True


def unknown_challenge() -> Fault:
    """NOT_FOUND UNKNOWN_CHALLENGE."""
    return Fault(Status.NOT_FOUND, "UNKNOWN_CHALLENGE", "there is no such challenge, or its code was used")


PURGES: Final = {name: _SQL[name] for name in ("purge_challenges", "purge_rates", "purge_unmarked", "purge_guesses")}
"""What forgets, of one tenant ($1), what is over: at most $2 rows each."""


async def _answer(connection: asyncpg.Connection, tenant_id: str, request: m.AnswerChallengeRequest) -> str | Fault:
    """The contact of a right code, or why it is refused, counted."""
    challenge = await connection.fetchrow(_SQL["lock_challenge"], tenant_id, request.challenge_id)
    if challenge is None or (request.contact and challenge["contact"] != request.contact):
        return unknown_challenge()
    if challenge["expired"]:
        return Fault(Status.UNAUTHENTICATED, "CODE_EXPIRED", "the code has expired; ask for a new one")
    who = (tenant_id, challenge["contact_hash"], challenge["requester"])
    strangers, own = await connection.fetch(_SQL["lock_guesses"], *who)
    if challenge["tries"] >= TRIES_MAX or (not challenge["strong"] and _used_up(strangers, own)):
        return _wrong(0)
    kept = challenge["code_hash"].encode()
    if any(hmac.compare_digest(kept, given.encode()) for given in request.code_hashes):
        contact: str = challenge["contact"]
        return contact
    await connection.execute(_SQL["count_try"], tenant_id, request.challenge_id)
    await connection.execute(_SQL["count_wrong"], *who, _wait_seconds(own["wrong"] + 1))
    if not own["proved"]:
        await connection.execute(_SQL["count_wrong"], *who[:2], "", 0)
    return _wrong(TRIES_MAX - challenge["tries"] - 1)


def _used_up(strangers: Any, own: Any) -> bool:
    """Whether the contact's codes of six digits were guessed wrong too often, by this requester or by strangers."""
    return own["wrong"] >= WRONG_MAX or (not own["proved"] and strangers["wrong"] >= WRONG_MAX)


def _wait_seconds(wrong: int) -> float:
    """How long a requester waits after its `wrong`th wrong guess in a row: after every TRIES_MAX twice as long."""
    rounds, others = divmod(wrong, TRIES_MAX)
    return 0 if others else min(WAIT_SECONDS_MAX, RESEND_SECONDS * 2 ** min(rounds - 1, 16))


Bucket = tuple[Rate, str]
"""A rate, and whose."""


def _told_apart(contact: str) -> tuple[str, str]:
    """(type, value) of `phone:+15550100`."""
    type, _, value = contact.partition(":")
    return type, value


def _whose(requester: str, proved: bool, known: bool) -> str:
    """Whose the sends of a contact are that a requester asks for; "": strangers'. They are told apart by hashes."""
    return requester if proved else "known" if known else ""


def _sends(contact: str, requester: str, address: str, network: str, whose: str) -> list[Bucket]:
    """What a code to the contact is taken from over all tenants, by the keys, as every transaction locks them."""
    buckets = [
        (SENDS_ADDRESS, address),
        (SENDS_NETWORK, network),
        (SENDS_ONE, "" if whose else f"{contact}:{network or requester}"),
        (SENDS, f"{contact}:{whose}"),
    ]
    return [(rate, name) for rate, name in buckets if name]


def _guesses(request: m.AnswerChallengeRequest) -> list[Bucket]:
    """What a wrong guess is taken from."""
    buckets = [(WRONG_ADDRESS, request.address), (WRONG_NETWORK, request.network)]
    return [(rate, name) for rate, name in buckets if name]


async def _refuse_early(engine: Engine, buckets: list[Bucket]) -> None:
    """RESOURCE_EXHAUSTED where one of these over all tenants is empty, for the price of a read."""
    if not buckets:
        return
    keys = [_key(rate, name) for rate, name in buckets]
    bounds = [rate.seconds for rate, _ in buckets], [rate.most for rate, _ in buckets]
    row = await engine.database.fetchrow(_SQL["empty"], OVER_ALL, keys, *bounds)
    if row is not None:
        raise _empty(buckets[row["nth"] - 1][0], row["wait_seconds"])


async def charge_all(connection: asyncpg.Connection, buckets: list[Bucket]) -> None:
    """Takes one from each of these over all tenants, in order of their keys. RESOURCE_EXHAUSTED where one is empty."""
    for rate, name in buckets:
        await _charge(connection, OVER_ALL, rate, name)


async def _charge(connection: asyncpg.Connection, tenant_id: str, rate: Rate, name: str) -> None:
    """Takes one from a bucket. RESOURCE_EXHAUSTED where it is empty."""
    key = _key(rate, name)
    if await connection.fetchval(_SQL["charge"], tenant_id, key, rate.seconds, rate.most) is None:
        row = await connection.fetchrow(_SQL["empty"], tenant_id, [key], [rate.seconds], [rate.most])
        raise _empty(rate, row["wait_seconds"] if row is not None else 0.0)


def _empty(rate: Rate, wait_seconds: float) -> Fault:
    """The refusal by a bucket that is empty."""
    if rate is RESEND:
        return _too_soon("a code was sent just now", wait_seconds)
    message = {
        SENDS_ONE.kind: "too many codes to this contact were asked for from here",
        SENDS.kind: "too many codes were sent to this contact",
        SENDS_ADDRESS.kind: "too many codes were asked for from this address",
        SENDS_NETWORK.kind: "too many codes were asked for from this network",
        WRONG_ADDRESS.kind: "too many wrong codes from this address",
        WRONG_NETWORK.kind: "too many wrong codes from this network",
    }.get(rate.kind, "too many guests were logged out from here")
    return Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=wait_seconds, policy=rate.kind)


async def _give_back(connection: asyncpg.Connection, tenant_id: str, rate: Rate, name: str) -> None:
    await connection.execute(_SQL["give_back"], tenant_id, _key(rate, name), rate.seconds)


def _key(rate: Rate, name: str) -> str:
    return f"{rate.kind}:{name}"


def _check(request: Any, *names: str) -> None:
    """Hashes and ids are the edge's: INVALID_ARGUMENT for what is none."""
    checks = Checks()
    for name in names:
        checks.required(name, getattr(request, name))
    checks.raise_found()


def _waits(wait_seconds: float) -> Fault:
    return _too_soon("too many wrong codes; a new one must wait", wait_seconds)


def _too_soon(message: str, wait_seconds: float) -> Fault:
    return Fault(Status.RESOURCE_EXHAUSTED, "RESEND_TOO_SOON", message, retry_after_seconds=wait_seconds)


def _wrong(left: int) -> Fault:
    return Fault(Status.UNAUTHENTICATED, "CODE_WRONG", "the code is wrong", attempts_left=left)


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
