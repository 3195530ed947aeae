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
- Sends are bounded by contact over all tenants: those that strangers ask for together, and those of each
  requester who proved to be the contact's by themselves; of those of strangers one requester gets half at most.
  Addresses are bounded too, sends and wrong guesses.
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
HASH_CHARACTERS_MAX: Final = 128
OVER_ALL: Final = ""
"""The tenant of what holds over all of them: whose phone it is does not depend on who sends to it."""


class Rate(NamedTuple):
    """A bucket of `most` that refills one in `seconds`; `kind` is the first part of its key."""

    kind: str
    seconds: float
    most: int


RESEND: Final = Rate("resend", RESEND_SECONDS, 1)
SENDS: Final = Rate("sends", 360, 10)
"""Codes to one contact, ten an hour in the long run: each message may cost the operator money."""

SENDS_ONE: Final = Rate("sends-one", 2 * SENDS.seconds, SENDS.most // 2)
"""What of the sends that strangers share one requester may use: half, now and in the long run, so that no single
address keeps the owner, who comes from a new one, from its code."""

SENDS_ADDRESS: Final = Rate("sends-ip", 12, 300)
"""The same for one address, which may stand for a whole office."""

WRONG_ADDRESS: Final = Rate("wrong-ip", 2, 300)
"""Wrong guesses of one address, at whatever challenges, known or not."""


async def issue_challenge(engine: Engine, request: m.IssueChallengeRequest) -> m.IssueChallengeReply:
    """A new challenge.

    RESOURCE_EXHAUSTED RESEND_TOO_SOON within RESEND_SECONDS of the requester's last, or while it waits for its
    wrong guesses; RATE_LIMITED over a rate; ALREADY_EXISTS CHALLENGE_EXISTS; NOT_FOUND UNKNOWN_TENANT.
    """
    tenant_id, contact, requester = tenant_of(request), request.contact_hash, request.requester
    _check(request, "challenge_id", "contact", "contact_hash", "requester", "code_hash", "strong_code_hash")

    async def work(connection: asyncpg.Connection) -> m.IssueChallengeReply:
        # A Fault undoes what was charged: a refusal costs nothing.
        await connection.execute(_SQL["meet"], tenant_id, contact, requester)
        guesses = await connection.fetch(_SQL["lock_guesses"], tenant_id, contact, requester)
        if not guesses:
            raise unknown("tenant", tenant_id)
        strangers, own = guesses
        if own["wait_seconds"] > 0:
            raise _too_soon("too many wrong codes; a new one must wait", own["wait_seconds"])
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
        # By their keys, as every transaction locks them.
        if request.address:
            await _charge(connection, OVER_ALL, SENDS_ADDRESS, request.address)
        if not own["proved"]:
            await _charge(connection, OVER_ALL, SENDS_ONE, f"{contact}:{requester}")
        await _charge(connection, OVER_ALL, SENDS, f"{contact}:{requester if own['proved'] else ''}")
        await _charge(connection, tenant_id, RESEND, f"{contact}:{requester}")
        resend_at = row["issued_at"] + RESEND_SECONDS
        return m.IssueChallengeReply(expires_at=row["expires_at"], resend_at=resend_at, strong=strong)

    return await engine.database.transaction(work)


async def answer_challenge(engine: Engine, request: m.AnswerChallengeRequest) -> m.AnswerChallengeReply:
    """The contact that the code proves, as it does until what it is for has come about (`use_up`).

    NOT_FOUND UNKNOWN_CHALLENGE; UNAUTHENTICATED CODE_WRONG with `attempts_left`, or CODE_EXPIRED;
    RESOURCE_EXHAUSTED RATE_LIMITED.
    """
    tenant_id = tenant_of(request)
    _check(request, "challenge_id")

    async def work(connection: asyncpg.Connection) -> str | Fault:
        # A refusal is returned, not raised, so that what it counted stays counted; but for an address over its
        # rate, whose guess is undone and not told, right or wrong.
        found = await _answer(connection, tenant_id, request)
        if request.address:
            await _charge(connection, OVER_ALL, WRONG_ADDRESS, request.address)
            if not isinstance(found, Fault):
                key = _key(WRONG_ADDRESS, request.address)
                await connection.execute(_SQL["give_back"], OVER_ALL, key, WRONG_ADDRESS.seconds)
        return found

    found = await engine.database.transaction(work)
    if isinstance(found, Fault):
        raise found
    return m.AnswerChallengeReply(contact=found)


async def withdraw_challenge(engine: Engine, request: m.WithdrawChallengeRequest) -> m.Empty:
    """Forgets a challenge whose code could not be sent, and lets its requester have another at once."""
    tenant_id = tenant_of(request)
    _check(request, "challenge_id")

    async def work(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["remove"], tenant_id, request.challenge_id)
        if row is not None:
            key = _key(RESEND, f"{row['contact_hash']}:{row['requester']}")
            await connection.execute(_SQL["give_back"], tenant_id, key, RESEND.seconds)

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


async def _charge(connection: asyncpg.Connection, tenant_id: str, rate: Rate, name: str) -> None:
    """Takes one from a bucket. RESOURCE_EXHAUSTED where it is empty."""
    key = (tenant_id, _key(rate, name), rate.seconds, rate.most)
    if await connection.fetchval(_SQL["charge"], *key) is not None:
        return
    wait_seconds = max(0.0, await connection.fetchval(_SQL["wait"], *key))
    if rate is RESEND:
        raise _too_soon("a code was sent just now", wait_seconds)
    message = {
        SENDS_ONE.kind: "too many codes to this contact were asked for from here",
        SENDS.kind: "too many codes were sent to this contact",
        SENDS_ADDRESS.kind: "too many codes were asked for from this address",
        WRONG_ADDRESS.kind: "too many wrong codes from this address",
    }[rate.kind]
    raise Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=wait_seconds, policy=rate.kind)


def _key(rate: Rate, name: str) -> str:
    return f"{rate.kind}:{name}"


def _check(request: Any, *names: str) -> None:
    """Hashes and ids are the edge's: INVALID_ARGUMENT for what is none."""
    checks = Checks()
    for name in names:
        checks.text(name, getattr(request, name), least=1, most=10_000 if name == "contact" else HASH_CHARACTERS_MAX)
    checks.raise_found()


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
