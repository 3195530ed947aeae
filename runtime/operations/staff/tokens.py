"""API tokens: machines authenticate with them at the admin edge.

A token is `tmb_` and base64url of 32 random bytes and its tenant id, so that Core queries only that tenant. Its maker
sees it once; Core stores its SHA-256. Guessing 256 random bits is infeasible, so a slow hash is not needed, and the
plain one is an index key. The edge refuses tokens with more roles than their maker's
(runtime/http/login/api_tokens.py): Core knows no roles.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Any, Final

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, forbidden, invalid, unknown
from runtime.operations import audit, reading
from runtime.operations.approvals.pending import withdraw_pending
from runtime.operations.checks import Checks, provided, refuse_read_only, search_pattern
from runtime.operations.players.revocations import API_TOKEN, REVOKE, SLACK_SECONDS
from runtime.operations.row import ADMINS, MANAGEMENT, STAFF, Command, Operation, TokenUse
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("tokens")
_TENANCY: Final = sql.load("tenancy")

PREFIX: Final = "tmb_"
"""Lets secret scanners recognize a token."""

SECRET_BYTES: Final = 32
LIFE_SECONDS: Final = 90 * 86_400
"""The default lifetime of a token."""

CACHE_SECONDS: Final = 3_600
"""How long an edge caches a token. Then it asks Core again, and Core refuses a revoked one."""

REVOKED_SECONDS: Final = 2 * CACHE_SECONDS + SLACK_SECONDS
"""How long a revocation is published to the edges: as long as one may cache the token, and as long again for clock
skew. Not for the token's whole life, since each edge caches every revocation in memory."""

TOKENS_MAX: Final = 1_000
"""Per tenant: valid tokens, and those that ended within REVOKED_SECONDS."""

TENANT_RESERVED: Final = 200
"""The part of TOKENS_MAX reserved for the tenant's own staff. Its merchants cannot use it up."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")


async def create_token(engine: Engine, request: m.CreateTokenRequest) -> m.TokenReply:
    """Creates a token. Only this reply has its `secret`. A merchant's staff creates tokens of that merchant.

    FAILED_PRECONDITION TOO_MANY_TOKENS beyond TOKENS_MAX.
    """
    token, tenant_id, own_merchant_id = provided(request.token, "token"), tenant_of(request), merchant_of(request)
    refuse_read_only(token, m.ApiToken())
    merchant_id, now = token.merchant_id or own_merchant_id, int(engine.clock.now())
    life_max = engine.settings.api_token_seconds_max
    expires_at = token.expires_at or now + min(LIFE_SECONDS, life_max)
    roles = sorted(set(token.roles))
    checks = Checks()
    checks.required("name", token.name)
    if not roles:
        checks.problem("roles", "is required")
    for index, role in enumerate(token.roles):
        if role not in MANAGEMENT:
            checks.problem(f"roles[{index}]", f"must be one of {', '.join(sorted(MANAGEMENT))}")
    checks.between("expires_at", expires_at, now + 1, now + life_max)
    checks.raise_found()
    secret = _secret(tenant_id)
    columns = (token.name, roles, merchant_id, trace.actor.get(), expires_at)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        # A concurrent create waits for this lock, and then counts this token.
        if await connection.fetchval(_TENANCY["lock_catalog"], tenant_id) is None:
            raise unknown("tenant", tenant_id)
        limit = TOKENS_MAX - (TENANT_RESERVED if own_merchant_id else 0)
        if await connection.fetchval(_SQL["count_recent"], tenant_id, REVOKED_SECONDS) >= limit:
            raise _too_many(limit)
        merchant = (tenant_id, merchant_id, own_merchant_id)
        if merchant_id and not await connection.fetchval(_TENANCY["has_merchant"], *merchant):
            raise unknown("merchant", merchant_id)
        row = await connection.fetchrow(_SQL["insert"], tenant_id, ids.make("token"), _digest(secret), *columns)
        if row is None:
            raise unknown("tenant", tenant_id)
        await audit.record(connection, tenant_id, "token.create", row["id"], after=dict(row))
        return row

    created = _token(await engine.database.transaction(work))
    created.secret = secret
    return m.TokenReply(token=created)


async def list_tokens(engine: Engine, request: m.ListTokensRequest) -> m.ListTokensReply:
    """Lists tokens, including ended ones, newest first. A merchant's staff sees that merchant's tokens."""
    filters = (tenant_of(request), search_pattern(request.q), request.made_by, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListTokensReply(items=[_token(row) for row in rows], pagination=pagination)


async def delete_token(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Revokes a token. This edge refuses it at once, every other edge within about a second.

    Withdraws the token's requests that await approval, also when repeated.

    NOT_FOUND UNKNOWN_TOKEN; PERMISSION_DENIED FORBIDDEN for a merchant's staff, if the token is the tenant's.
    """
    tenant_id, merchant_id = tenant_of(request), merchant_of(request)

    async def work(connection: asyncpg.Connection) -> None:
        row = await connection.fetchrow(_SQL["revoke"], tenant_id, request.id, merchant_id)
        if row is None:
            owner = await connection.fetchval(_SQL["owner"], tenant_id, request.id)
            if owner == "" and merchant_id:
                raise forbidden("token", request.id)
            if owner is None or (merchant_id and owner != merchant_id):
                raise unknown("token", request.id)
        else:
            before = dict(row)
            seconds = min(before.pop("seconds") + SLACK_SECONDS, REVOKED_SECONDS)
            await connection.execute(REVOKE, tenant_id, "token", request.id, False, seconds, 0)
            await audit.record(connection, tenant_id, "token.revoke", request.id, before=before)
        await withdraw_pending(connection, tenant_id, request.id, "its token was revoked")

    await engine.database.transaction(work)
    return m.DeleteReply(id=request.id)


async def open_token(engine: Engine, request: m.OpenTokenRequest) -> m.TokenReply:
    """Looks a token up for an edge, and records the hour of its use.

    UNAUTHENTICATED TOKEN_INVALID, also for a revoked token; TOKEN_EXPIRED.
    """
    if not _HASH.fullmatch(request.token_hash):
        raise invalid("token_hash", "must be SHA-256, as 64 hexadecimal digits")
    row = await engine.database.fetchrow(_SQL["open"], tenant_of(request), bytes.fromhex(request.token_hash))
    if row is None or row["revoked_at"]:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")
    if row["expired"]:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired")
    return m.TokenReply(token=_token(row))


async def person_behind(engine: Engine, tenant_id: str, subject: str) -> str:
    """The maker of an API token, if the audit log's subject is one; else the subject."""
    match = API_TOKEN.search(subject)
    maker = await engine.database.fetchval(_SQL["creator"], tenant_id, match[1]) if match else None
    return subject if maker is None else str(maker)


def tenant_in(token: str) -> str:
    """The tenant id in a token, unverified; "" if the token is malformed."""
    encoded = token.removeprefix(PREFIX)
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        return raw[SECRET_BYTES:].decode("ascii") if token.startswith(PREFIX) else ""
    except ValueError:
        return ""


def hash_of(token: str) -> str:
    """The stored hash of a token, which edges send in its place. It grants no access."""
    return _digest(token).hex()


def _secret(tenant_id: str) -> str:
    raw = secrets.token_bytes(SECRET_BYTES) + tenant_id.encode()
    return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _too_many(limit: int) -> Fault:
    why = f"there are {limit} tokens that are valid or ended in the last {REVOKED_SECONDS / 3600:.0f} hours"
    return Fault(Status.FAILED_PRECONDITION, "TOO_MANY_TOKENS", f"{why}; revoke unused ones", limit=limit)


def _token(row: Any) -> m.ApiToken:
    return m.ApiToken(**{name: value for name, value in row.items() if value is not None and name != "expired"})


# -- rows ------------------------------------------------------------------------------------


OPEN_TOKEN: Final = Operation(
    "OpenToken",
    "POST /tokens/open",
    run=open_token,
    while_suspended=True,
    bounded=True,
    refusals=("TOKEN_INVALID", "TOKEN_EXPIRED"),
    example={"token_hash": hash_of(PREFIX)},
)

ROWS: Final = (
    Operation(
        "CreateToken",
        "POST /tokens",
        run=create_token,
        tokens=TokenUse.MAKES,
        resource="token",
        admin=ADMINS,
        confidential=True,
        refusals=("UNKNOWN_TENANT", "UNKNOWN_MERCHANT", "TOO_MANY_TOKENS"),
        example={"name": "Nightly import", "roles": ["reward_manager"]},
    ),
    Operation(
        "ListTokens",
        "GET /tokens",
        run=list_tokens,
        admin=STAFF,
        command=Command(
            "tokens list --made-by",
            "List API tokens, newest first, including expired and revoked ones.",
            help={"made_by": "Only tokens created by this subject, as in the audit log."},
            columns="id, name, roles, merchant=merchant_id, made by=made_by, ends={:ending}, last used={:last_use}",
        ),
    ),
    Operation(
        "DeleteToken",
        "DELETE /tokens/{id}",
        run=delete_token,
        tokens=TokenUse.ENDS,
        admin=ADMINS,
        while_suspended=True,
        command=Command(
            "tokens revoke TOKEN",
            "Revoke an API token: every admin edge refuses it within about a second.",
            help={"token": "The token's id."},
            confirm="Revoke {token}? Requests with it are refused from now on.",
            outcome="{token} is revoked",
        ),
    ),
    OPEN_TOKEN,
)
