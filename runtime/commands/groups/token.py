"""`tombola token mint|link|player|me|revoke`: signs tokens with the edges' secrets, shows them and revokes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from cyclopts import Parameter, validators

from runtime.commands.builder import app_of
from runtime.commands.connection import DEFAULTS, Connection, connected, fail, print_json
from runtime.commands.environment import EXIT_USE, fail_to_start, settings_for
from runtime.http.auth.tokens import Tokens
from runtime.http.login.sign_in import link_of, link_seconds
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
    """Create a token with management roles. Requires the admin edge's JWT_STAFF_SECRET, JWT_ISSUER, JWT_STAFF_AUDIENCE.

    Give a machine only the roles it needs: with ROLE_MATRIX=strict a `reward_manager` changes rewards but no games,
    and a `designer` changes games but no rewards.

    Parameters
    ----------
    role
        A role of the token: admin, designer, reward_manager, platform. Repeat for several.
    tenant
        The id of the tenant it acts for; default: DEFAULT_TENANT.
    seconds
        The life of the token in seconds.
    subject
        The name in the audit log.
    merchant
        The id of the merchant it acts for, if any.
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
    """Create a dashboard sign-in link that works once, within 15 minutes. Requires the same settings as `mint`.

    Parameters
    ----------
    role
        A role of the user: admin, designer, reward_manager, platform. Repeat for several.
    tenant
        The id of the tenant the user acts for; default: DEFAULT_TENANT.
    subject
        The user's name in the audit log.
    merchant
        The id of the merchant the user acts for, if any.
    admin_url
        The URL of the admin edge in the user's browser.
    json
        Print `{url, expires_at}`.
    """
    settings, tenant = _settings_and_tenant(subject, tenant, role)
    expires_at = int(time.time()) + link_seconds(settings)
    url = link_of(settings, admin_url.rstrip("/"), subject, tenant_id=tenant, merchant_id=merchant, roles=set(role))
    if json:
        print_json({"url": url, "expires_at": expires_at})
    else:
        print(url)


@app.command
async def me(*, connection: Connection = DEFAULTS) -> None:
    """Show the token's subject, roles and permitted operations."""
    async with connected(connection) as edge:
        reply = await edge.get("/me")
    if connection.json:
        print_json(reply)
        return
    lists = {"roles": ", ".join(reply["roles"]), "operations": ", ".join(reply["operations"])}
    for name, value in {**{name: reply[name] for name in ("subject", "tenant_id", "merchant_id")}, **lists}.items():
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
    """Create a player's token, to try the consumer edge as that player. Requires that edge's JWT_SECRET.

    Parameters
    ----------
    id
        The player's id.
    tenant
        The id of the player's tenant; default: DEFAULT_TENANT.
    seconds
        The life of the token in seconds.
    json
        Print `{token, expires_at}`.
    """
    _print_token(id, tenant, "", seconds, (), json)


@app.command
async def revoke(subject: str = "", /, *, sign_in: str = "", connection: Connection = DEFAULTS) -> None:
    """Revoke staff tokens: all of a subject's tokens issued so far, or those of one sign-in.

    Every admin edge refuses them within about a second. Tokens issued to the subject in the next five seconds are
    refused too, because clocks may differ.

    Parameters
    ----------
    subject
        The subject, as in the audit log.
    sign_in
        The id of a sign-in: the subject of a `staff.sign_in` in the audit log.
    """
    if not (subject or sign_in):
        fail(connection, EXIT_USE, "a subject or --sign-in is required")
    async with connected(connection) as edge:
        done = await edge.post("/staff/revoke", {"subject": subject, "sign_in_id": sign_in})
    if connection.json:
        print_json(done)
    else:
        print("revoked")
        if done["withdrawn"]:
            print(f"pending approvals withdrawn: {done['withdrawn']}")
        if done["tokens"]:
            print(f"API tokens that remain valid: {done['tokens']} (tombola tokens list --made-by {subject})")


def _settings_and_tenant(subject: str, tenant: str, role: Sequence[str]) -> tuple[Settings, str]:
    """The settings, and the tenant of a new token (default: DEFAULT_TENANT).

    Ends the process if there is no secret to sign it (for staff if `role` is set), no tenant or no subject.
    """
    settings = settings_for()
    tenant = tenant or settings.default_tenant
    if not (settings.jwt_staff_secrets if role else settings.jwt_secrets):
        required = "JWT_STAFF_SECRET of the admin" if role else "JWT_SECRET of the consumer"
        fail_to_start(f"{required} edge is required")
    if not tenant:
        fail_to_start("a tenant is required. Use --tenant, or set DEFAULT_TENANT")
    if not subject:
        fail_to_start("the id or --subject must not be empty")
    return settings, tenant


def _print_token(subject: str, tenant: str, merchant: str, seconds: int, role: Sequence[str], json: bool) -> None:
    settings, tenant = _settings_and_tenant(subject, tenant, role)
    most = settings.token_seconds_max
    if seconds > most:
        fail_to_start(f"--seconds must be at most {most} (TOKEN_SECONDS_MAX)")
    tokens = Tokens.of(settings)
    expires_at = int(time.time()) + seconds
    token = tokens.mint(subject, tenant_id=tenant, merchant_id=merchant, seconds=seconds, roles=set(role))
    if json:
        print_json({"token": token, "expires_at": expires_at})
    else:
        print(token)
