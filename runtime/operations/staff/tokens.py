"""API tokens: what machines show at the admin edge instead of a person's sign-in.

A token is `tmb_` and base64url of 32 random bytes and its tenant, so that it is looked for in that tenant alone. It is
told once, to who makes it, and kept as SHA-256: a slow hash is for what people can remember; of 256 random bits nobody
tries the first fraction, and each look is one step of an index. That nobody makes one that may do more than they is
for the edge to see (runtime/http/login/api_tokens.py): Core knows no roles.
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
from runtime.operations.approvals.pending import withdraw_of
from runtime.operations.checks import Checks, given, refuse_read_only, search_pattern
from runtime.operations.players.revocations import API_TOKEN, REVOKE, SLACK_SECONDS
from runtime.operations.row import ADMINS, MANAGEMENT, STAFF, Command, Operation, TokenUse
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("tokens")
_TENANCY: Final = sql.load("tenancy")

PREFIX: Final = "tmb_"
"""By which whoever searches code and logs for secrets knows one."""

SECRET_BYTES: Final = 32
LIFE_SECONDS: Final = 90 * 86_400
"""Of a token whose maker says nothing of its end."""

HELD_SECONDS: Final = 3_600
"""How long an edge goes by what Core said of a token. Then it asks again, and is told that one was revoked."""

REVOKED_SECONDS: Final = 2 * HELD_SECONDS + SLACK_SECONDS
"""For how long edges are told that a token was revoked: as long as one may go by what it was told before, and as
long again for clocks that are off. Each keeps it in memory, so that it is not told of for the rest of its life."""

TOKENS_MAX: Final = 1_000
"""Of a tenant: tokens that live, or ended so lately that edges are told of it."""

TENANTS_OWN: Final = 200
"""Of these, as many are left to the tenant's own staff, however many its merchants make."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")


async def create_token(engine: Engine, request: m.CreateTokenRequest) -> m.TokenReply:
    """A new token, whose `secret` nobody is told again. A merchant's staff makes its merchant's.

    FAILED_PRECONDITION TOO_MANY_TOKENS beyond TOKENS_MAX.
    """
    token, tenant_id, own_merchant_id = given(request.token, "token"), tenant_of(request), merchant_of(request)
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
    named = (token.name, roles, merchant_id, trace.actor.get(), expires_at)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        # Who makes another meanwhile waits here, and counts this one.
        if await connection.fetchval(_TENANCY["hold_catalog"], tenant_id) is None:
            raise unknown("tenant", tenant_id)
        limit = TOKENS_MAX - (TENANTS_OWN if own_merchant_id else 0)
        if await connection.fetchval(_SQL["bounded"], tenant_id, REVOKED_SECONDS) >= limit:
            raise _too_many(limit)
        named_merchant = (tenant_id, merchant_id, own_merchant_id)
        if merchant_id and not await connection.fetchval(_TENANCY["has_merchant"], *named_merchant):
            raise unknown("merchant", merchant_id)
        row = await connection.fetchrow(_SQL["insert"], tenant_id, ids.make("token"), _digest(secret), *named)
        if row is None:
            raise unknown("tenant", tenant_id)
        await audit.record(connection, tenant_id, "token.create", row["id"], after=dict(row))
        return row

    made = _token(await engine.database.transaction(work))
    made.secret = secret
    return m.TokenReply(token=made)


async def list_tokens(engine: Engine, request: m.ListTokensRequest) -> m.ListTokensReply:
    """Tokens, newest first, those that ended too; a merchant's staff sees its merchant's."""
    filters = (tenant_of(request), search_pattern(request.q), request.made_by, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListTokensReply(items=[_token(row) for row in rows], pagination=pagination)


async def delete_token(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Revokes a token: the edge that was asked refuses it from then on, every other within about a second.

    What it asked for that waits for a second person is withdrawn; again it does nothing but that.

    NOT_FOUND UNKNOWN_TOKEN; PERMISSION_DENIED FORBIDDEN of the tenant's, for a merchant's staff.
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
        await withdraw_of(connection, tenant_id, request.id, "its token was revoked")

    await engine.database.transaction(work)
    return m.DeleteReply(id=request.id)


async def open_token(engine: Engine, request: m.OpenTokenRequest) -> m.TokenReply:
    """What a token may, for an edge that was shown it; notes the hour of its use.

    UNAUTHENTICATED TOKEN_INVALID, also of one that was revoked; TOKEN_EXPIRED.
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
    """Who made the token that a subject of the audit log is; the subject itself where it is none."""
    found = API_TOKEN.search(subject)
    maker = await engine.database.fetchval(_SQL["maker"], tenant_id, found[1]) if found else None
    return subject if maker is None else str(maker)


def tenant_in(token: str) -> str:
    """The tenant that a token says it is of; "" where it is none of ours."""
    encoded = token.removeprefix(PREFIX)
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        return raw[SECRET_BYTES:].decode("ascii") if token.startswith(PREFIX) else ""
    except ValueError:
        return ""


def hash_of(token: str) -> str:
    """What is kept of a token, and asked for: it opens nothing."""
    return _digest(token).hex()


def _secret(tenant_id: str) -> str:
    raw = secrets.token_bytes(SECRET_BYTES) + tenant_id.encode()
    return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _too_many(limit: int) -> Fault:
    why = f"there are {limit} tokens that live or ended in the last {REVOKED_SECONDS / 3600:.0f} hours"
    return Fault(Status.FAILED_PRECONDITION, "TOO_MANY_TOKENS", f"{why}: revoke those that nobody needs", limit=limit)


def _token(row: Any) -> m.ApiToken:
    return m.ApiToken(**{name: value for name, value in row.items() if value is not None and name != "expired"})


# -- rows ------------------------------------------------------------------------------------


OPEN_TOKEN: Final = Operation(
    "OpenToken",
    "POST /tokens/open",
    run=open_token,
    unsuspended=True,
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
        confides=True,
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
            "List API tokens, the newest first, those that ended too.",
            help={"made_by": "Only those that this subject made, as the audit log has it."},
            columns="id, name, roles, merchant=merchant_id, made by=made_by, ends={:ending}, last used={:last_use}",
        ),
    ),
    Operation(
        "DeleteToken",
        "DELETE /tokens/{id}",
        run=delete_token,
        tokens=TokenUse.ENDS,
        admin=ADMINS,
        unsuspended=True,
        command=Command(
            "tokens revoke TOKEN",
            "End an API token: every admin edge refuses it within about a second.",
            help={"token": "Its id."},
            confirm="Revoke {token}? Whatever shows it is refused from then on.",
            says="{token} is revoked",
        ),
    ),
    OPEN_TOKEN,
)
