"""All settings of Tombola: variable, unit, default and meaning.

A setting is a field of `Settings`; its environment variable has the same name in capitals.
One module per subject has the fields; documentation.py renders them as a table.

Variables are read and validated once, at start: `SettingsError` lists every invalid one and the allowed
values. An empty variable counts as unset. A variable with a near-miss name only causes a warning: names
have no prefix, so it may belong to another program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from ipaddress import ip_address
from typing import Any

from runtime.settings.field import variable
from runtime.settings.identity import IdentitySettings
from runtime.settings.kinds import Key, Network
from runtime.settings.limits import LimitSettings
from runtime.settings.outgoing import OutgoingSettings
from runtime.settings.processes import ProcessSettings
from runtime.settings.stores import StoreSettings

__all__ = [
    "Key",
    "Network",
    "Settings",
    "SettingsError",
]


class SettingsError(ValueError):
    """The environment is invalid. `problems` maps each variable to its error."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{name}: {problem}" for name, problem in problems.items()))
        self.problems = dict(problems)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# A dataclass takes the fields of its last base first: this order is the table's.
@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(ProcessSettings, OutgoingSettings, LimitSettings, IdentitySettings, StoreSettings):
    """A process's settings. Created by `from_env`, or directly in tests (every field has a default)."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str], roles: Iterable[str] = ()) -> Settings:
        """Reads `environ`. Raises SettingsError with every variable that is invalid, or that `roles` need and lack.

        Roles are "core", "rpc", "consumer", "admin", "migrate" and "worker:<group>".
        """
        problems: dict[str, str] = {}
        values: dict[str, Any] = {}
        for item in fields(cls):
            if not (value := environ.get(variable(item), "").strip()):
                continue
            try:
                values[item.name] = item.metadata["kind"].parse(value)
            except ValueError as error:
                problems[variable(item)] = str(error)
        settings = cls(**values)
        for name, problem in settings._problems(frozenset(roles)):
            problems.setdefault(name, problem)
        if problems:
            raise SettingsError(problems)
        return settings

    def _problems(self, roles: frozenset[str]) -> Iterable[tuple[str, str]]:
        """(variable, error) for each setting that a role or another setting requires or forbids."""
        for item in fields(self):
            # "worker" means every "worker:<group>".
            named = item.metadata["needed_by"].split()
            requiring = {role for role in roles if role in named or role.partition(":")[0] in named}
            if requiring and not getattr(self, item.name):
                yield variable(item), f"must be set for {', '.join(sorted(requiring))}: {item.metadata['meaning']}"
        used = {self.database_url}
        for name, address in self.databases:
            if address in used:
                yield "DATABASES", f"{name}: another name has the same URL; each needs another database"
            used.add(address)
        for name in dict(self.databases_read).keys() - dict(self.databases).keys():
            yield "DATABASES_READ", f"{name}: DATABASES has no database of this name"
        if roles & {"consumer", "admin"} and "core" not in roles and not self.core_rpc_addresses:
            yield (
                "CORE_RPC_ADDRESSES",
                "is required for an edge in a separate process. Use host:port of Core's replicas",
            )
        if "core" in roles and not (self.service_token or self.development or _is_loopback(self.core_host)):
            yield "SERVICE_TOKEN", "must be set unless CORE_HOST is a loopback address: it authenticates Core's callers"
        if "admin" in roles and not (self.jwt_staff_secrets or self.jwks_url):
            yield "JWT_STAFF_SECRET", "must be set for admin, unless JWKS_URL is"
        if self.jwt_staff_secret and not set(self.jwt_staff_secrets).isdisjoint(self.jwt_secrets):
            yield "JWT_STAFF_SECRET", "must differ from JWT_SECRET, or players' secrets could sign staff tokens"
        if not self.development and self.header_fallback and roles & {"consumer", "admin"}:
            yield "HEADER_FALLBACK", "lets callers claim any identity; requires DEVELOPMENT=on"
        if not self.development and self.login_sender == "log" and "consumer" in roles:
            yield "LOGIN_SENDER", "must be smtp, webhook, none or a plugin's; log prints codes: only in DEVELOPMENT"
        if self.jwt_audience == self.jwt_staff_audience:
            yield "JWT_STAFF_AUDIENCE", "must differ from JWT_AUDIENCE, or players' tokens would open the admin edge"
        if self.refresh_token_seconds > self.token_seconds_max:
            yield "REFRESH_TOKEN_SECONDS", "must not exceed TOKEN_SECONDS_MAX: guests' tokens live that long"
        if "*" not in self.jwks_tenants and any(pair.endswith("=platform") for pair in self.jwks_role_map):
            yield "JWKS_ROLE_MAP", "must not map to platform, which acts for every tenant, unless JWKS_TENANTS is *"
        if self.oidc_client_id and not (self.jwks_url and self.jwt_staff_secrets and "openid" in self.oidc_scopes):
            yield "OIDC_CLIENT_ID", "requires JWKS_URL, JWT_STAFF_SECRET (signs staff tokens) and openid in OIDC_SCOPES"
        for cause, is_set, needed in (
            ("JWKS_URL", bool(self.jwks_url), ("jwks_issuer", "jwks_audience", "jwks_tenants")),
            ("LOGIN_SENDER=smtp", self.login_sender == "smtp", ("smtp_url", "smtp_from")),
            ("LOGIN_SENDER=webhook", self.login_sender == "webhook", ("sender_webhook_url", "sender_webhook_secret")),
            ("ASSETS_URL", bool(self.assets_url), ("assets_key_id", "assets_secret_key")),
        ):
            for name in needed:
                if is_set and not getattr(self, name):
                    yield name.upper(), f"must be set with {cause}"

    @property
    def callback_url(self) -> str:
        """The base of callback URLs for workflows: CALLBACK_BASE_URL, or the local admin edge."""
        return self.callback_base_url or f"http://{self.host}:{self.admin_port}"

    @property
    def consumer_url(self) -> str:
        """The base of links to players' pages: CONSUMER_BASE_URL, or the local consumer edge."""
        return self.consumer_base_url.rstrip("/") or f"http://{self.host}:{self.consumer_port}"

    def __repr__(self) -> str:
        """All settings, with secrets as ***."""

        def shown(item: Field[Any]) -> str:
            value = getattr(self, item.name)
            return f"{item.name}={'***' if item.metadata['secret'] and value else repr(value)}"

        return f"Settings({', '.join(map(shown, fields(self)))})"
