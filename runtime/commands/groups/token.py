"""`tombola token mint|link|player|me|revoke`: tokens, signed here with the edges' secrets; what they are; their end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from cyclopts import Parameter, validators

from runtime.commands.connection import DEFAULTS, Connection, connected, fail, print_json
from runtime.commands.environment import EXIT_USE, cannot_begin, settings_for
from runtime.commands.loop import app_of
from runtime.http.auth.tokens import Tokens
from runtime.http.login.sign_in import LINK_SECONDS, link_of
from runtime.settings import Settings

app = app_of("token")

DAY_SECONDS: Final = 86_400
YEAR_SECONDS: Final = 366 * DAY_SECONDS

Role = Literal["admin", "designer", "reward_manager", "platform"]


@app.command
def mint(
    *,
    role: Annotated[tuple[Role, ...], Parameter(negative=())],
    tenant: str = "",
    seconds: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=YEAR_SECONDS))] = DAY_SECONDS,
    subject: str = "machine",
    merchant: str = "",
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Make a token of management roles. It needs the admin edge's JWT_STAFF_SECRET, JWT_ISSUER and JWT_STAFF_AUDIENCE.

    Give a machine no more than it needs: with ROLE_MATRIX=strict a `reward_manager` moves what is won and
    changes no game, a `designer` the other way round.

    Parameters
    ----------
    role
        What it may do: admin, designer, reward_manager, platform. Give it several times for several.
    tenant
        The id of the tenant that it acts for; DEFAULT_TENANT's where none is said.
    seconds
        How long it is good for.
    subject
        Who it is, in the audit log.
    merchant
        The id of the merchant that it acts for, if any.
    json
        Print `{token, expires_at}`.
    """
    _print_token(subject, tenant, merchant, seconds, role, json)


@app.command
def link(
    *,
    role: Annotated[tuple[Role, ...], Parameter(negative=())] = ("admin",),
    tenant: str = "",
    subject: str = "operator",
    merchant: str = "",
    admin_url: Annotated[str, Parameter(env_var="TOMBOLA_ADMIN_URL")] = DEFAULTS.admin_url,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Make a link that signs somebody in to the dashboard: once, within 15 minutes. It needs what `mint` does.

    Parameters
    ----------
    role
        What they may do there: admin, designer, reward_manager, platform. Give it several times for several.
    tenant
        The id of the tenant that they act for; DEFAULT_TENANT's where none is said.
    subject
        Who they are, in the audit log.
    merchant
        The id of the merchant that they act for, if any.
    admin_url
        Where the admin edge is, as their browser reaches it.
    json
        Print `{url, expires_at}`.
    """
    settings, tenant = _able(subject, tenant, role)
    expires_at = int(time.time()) + LINK_SECONDS
    url = link_of(settings, admin_url.rstrip("/"), subject, tenant_id=tenant, merchant_id=merchant, roles=set(role))
    if json:
        print_json({"url": url, "expires_at": expires_at})
    else:
        print(url)


@app.command
async def me(*, connection: Connection = DEFAULTS) -> None:
    """Show whose the token is, and which operations it opens."""
    async with connected(connection) as edge:
        told = await edge.get("/me")
    if connection.json:
        print_json(told)
        return
    lists = {"roles": ", ".join(told["roles"]), "opens": ", ".join(told["operations"])}
    for name, value in {**{name: told[name] for name in ("subject", "tenant_id", "merchant_id")}, **lists}.items():
        print(f"{name:12} {value}")


@app.command
def player(
    id: str,
    /,
    *,
    tenant: str = "",
    seconds: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=YEAR_SECONDS))] = DAY_SECONDS,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Make a player's token, to try what the consumer edge gives a player. It needs JWT_SECRET, as that edge has it.

    Parameters
    ----------
    id
        Whose it is: a player's id.
    tenant
        The id of its tenant; DEFAULT_TENANT's where none is said.
    seconds
        How long it is good for.
    json
        Print `{token, expires_at}`.
    """
    _print_token(id, tenant, "", seconds, (), json)


@app.command
async def revoke(subject: str = "", /, *, sign_in: str = "", connection: Connection = DEFAULTS) -> None:
    """End tokens of staff: all that a subject was given until now, or those of one sign-in.

    Every admin edge refuses them within about a second, as what a subject is given in the next five, by clocks that may
    be ahead.

    Parameters
    ----------
    subject
        Who they are of, as the audit log has it.
    sign_in
        The id of a sign-in, as the audit log has it: the subject of a `staff.sign_in`.
    """
    if not (subject or sign_in):
        fail(connection, EXIT_USE, "whose? a subject, or --sign-in")
    async with connected(connection) as edge:
        done = await edge.post("/staff/revoke", {"subject": subject, "sign_in_id": sign_in})
    if connection.json:
        print_json(done)
    else:
        print("revoked")
        if done["withdrawn"]:
            print(f"what they asked for and waited for a second person is withdrawn: {done['withdrawn']}")
        if done["tokens"]:
            print(f"API tokens that they made go on: {done['tokens']} (tombola tokens list --made-by {subject})")


def _able(subject: str, tenant: str, role: Sequence[str]) -> tuple[Settings, str]:
    """(the settings, the tenant), where they are enough to make a token of this subject's."""
    settings = settings_for()
    tenant = tenant or settings.default_tenant
    if not (settings.jwt_staff_secrets if role else settings.jwt_secrets):
        needed = "JWT_STAFF_SECRET is needed, as the admin" if role else "JWT_SECRET is needed, as the consumer"
        cannot_begin(f"{needed} edge has it")
    if not tenant:
        cannot_begin("whose token? --tenant, or the setting DEFAULT_TENANT, says the tenant")
    if not subject:
        cannot_begin("a token must be somebody's: the id or --subject is empty")
    return settings, tenant


def _print_token(subject: str, tenant: str, merchant: str, seconds: int, role: Sequence[str], json: bool) -> None:
    settings, tenant = _able(subject, tenant, role)
    most = settings.token_seconds_max
    if seconds > most:
        cannot_begin(f"--seconds must be at most {most}: the edges take no others (TOKEN_SECONDS_MAX)")
    tokens = Tokens.of(settings)
    expires_at = int(time.time()) + seconds
    token = tokens.mint(subject, tenant_id=tenant, merchant_id=merchant, seconds=seconds, roles=set(role))
    if json:
        print_json({"token": token, "expires_at": expires_at})
    else:
        print(token)
