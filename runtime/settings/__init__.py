"""Every setting of Tombola: its variable, unit, default and meaning, in this one place.

A setting is a field of `Settings`; its environment variable has the same name in capitals.
documentation.py shows them as a table.

Variables are read once, at start, and refused there: `SettingsError` names each wrong one and says
what would be right. An empty variable counts as unset. A variable that is almost the name of a
setting is only warned about: the names carry no prefix, so it may be another program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from runtime.groups import GROUPS
from runtime.settings.field import setting, variable
from runtime.settings.kinds import (
    Key,
    Network,
    choice,
    flag,
    groups,
    integer,
    keys,
    networks,
    number,
    secret_text,
    secrets,
    text,
    url,
    words,
)

__all__ = [
    "Key",
    "Network",
    "Settings",
    "SettingsError",
]


class SettingsError(ValueError):
    """The environment cannot be used. `problems` maps each variable to what is wrong with it."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{name}: {problem}" for name, problem in problems.items()))
        self.problems = dict(problems)


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """What a process was told. Made by `from_env`, or by hand in tests (every field has its default)."""

    # Stores
    database_url: str = setting(
        url("postgresql", "postgres"), "", "PostgreSQL 15 or newer.", secret=True, needed_by="core worker migrate"
    )
    database_pool_size: int = setting(integer(1, 1000), "10", "Most connections of one process.")
    database_acquire_timeout_seconds: float = setting(
        number(0.01, 60, "seconds"), "0.8", "How long a request waits for a connection before it is UNAVAILABLE."
    )
    database_statement_timeout_seconds: float = setting(
        number(0.05, 600, "seconds"), "1.2", "How long one statement of a request may take before it is UNAVAILABLE."
    )
    answer_timeout_seconds: float = setting(
        number(0.05, 600, "seconds"),
        "1.35",
        "How long a request may take before it is UNAVAILABLE, unless it counts, copies or calls what takes longer.",
    )
    redis_url: str = setting(
        url("redis", "rediss", "valkey", "valkeys", "unix"),
        "",
        "Valkey 7.2 or Redis 6.2, or newer. Play goes on while it is away.",
        secret=True,
        needed_by="core consumer admin worker",
    )
    redis_cluster: bool = setting(flag(), "off", "REDIS_URL names a node of a cluster.")
    redis_timeout_seconds: float = setting(
        number(0.01, 10, "seconds"), "0.2", "How long a request waits for Valkey before it goes on without."
    )

    # Keys
    server_keys: tuple[Key, ...] = setting(
        keys(),
        "",
        "Keys of draws, sessions and cursors: the first that every process has signs, all verify.",
        secret=True,
        needed_by="core",
    )
    code_keys: tuple[Key, ...] = setting(
        keys(),
        "",
        "Keys that voucher codes and secrets are stored under: the first that every process has encrypts, all decrypt.",
        secret=True,
        needed_by="core worker:deliveries worker:integrations",
    )
    session_ttl_seconds: int = setting(integer(1, 86400, "seconds"), "900", "How long a started game may be played.")

    # Who is who
    jwt_secret: str = setting(
        secret_text(32),
        "",
        "HS256 secret of players' tokens, which the consumer edge mints and takes.",
        secret=True,
        needed_by="consumer",
    )
    jwt_old_secrets: tuple[str, ...] = setting(
        secrets(32),
        "",
        "Further ones, whose tokens count too: the next one until it is JWT_SECRET, and those that it was before, each "
        "for LOGIN_SECONDS, or until what it made is to end.",
        secret=True,
    )
    login_secret: str = setting(
        secret_text(32),
        "",
        "Makes the hashes by which sends of login codes and wrong guesses are counted; with another the counts begin "
        "anew. Empty: JWT_SECRET.",
        secret=True,
    )
    jwt_staff_secret: str = setting(
        secret_text(32),
        "",
        "HS256 secret of staff's tokens, which the admin edge takes and no other process needs. Empty, and with "
        "DEVELOPMENT: JWT_SECRET.",
        secret=True,
    )
    jwt_staff_old_secrets: tuple[str, ...] = setting(secrets(32), "", "Further ones, as JWT_OLD_SECRETS.", secret=True)
    jwt_issuer: str = setting(text(), "tombola", "`iss` of those tokens.")
    jwt_audience: str = setting(text(), "tombola", "`aud` of players' tokens, which open the consumer edge.")
    jwt_staff_audience: str = setting(text(), "tombola-staff", "`aud` of staff's tokens, which open the admin edge.")
    token_seconds_max: int = setting(
        integer(1, 3660 * 86400, "seconds"),
        "2592000",
        "No token made for longer is taken, whoever made it, nor for longer than Core's, which remembers what is "
        "revoked for as long.",
    )
    player_token_seconds: int = setting(
        integer(1, 86400, "seconds"), "900", "Life of a player's token: the edge's, but no longer than Core's."
    )
    refresh_token_seconds: int = setting(
        integer(1, 366 * 86400, "seconds"), "2592000", "Life of a refresh token; each use makes a new one."
    )
    login_seconds: int = setting(
        integer(60, 3660 * 86400, "seconds"),
        "7776000",
        "How long a login lasts, however often it is refreshed. Core's, as REFRESH_TOKEN_SECONDS is.",
    )
    jwks_url: str = setting(
        url("https", "http"), "", "Keys of a foreign issuer whose RS256, ES256 and EdDSA tokens count too."
    )
    jwks_issuer: str = setting(text(), "", "`iss` of those; needed with JWKS_URL.")
    jwks_audience: str = setting(text(), "", "`aud` of those; needed with JWKS_URL.")
    jwks_tenants: tuple[str, ...] = setting(
        words(pattern=r"\*|[A-Za-z0-9_.:-]{1,128}", right="ids of tenants, or *"),
        "",
        "Tenants that the issuer may speak for, * for all; needed with JWKS_URL. One alone needs no claim.",
    )
    jwks_tenant_claim: str = setting(text(), "tenant_id", "Its claim of the tenant; `a.b` is b within a.")
    jwks_merchant_claim: str = setting(text(), "merchant_id", "Its claim of the merchant.")
    jwks_player_claim: str = setting(text(), "sub", "Its claim of the player's id: one that no user chooses.")
    jwks_roles_claim: str = setting(text(), "roles", "Its claim of roles: a list, or words.")
    jwks_role_map: tuple[str, ...] = setting(
        words("their=our list", r"[^\s,]+=(admin|designer|reward_manager|platform)", "theirs=ours, ours a role here"),
        "",
        "Its roles that make staff; who has none of them is a player.",
    )
    oidc_client_id: str = setting(
        text(),
        "",
        "The dashboard's client at that issuer: staff sign in there (docs/reference/dashboard.md). Needs "
        "JWT_STAFF_SECRET.",
    )
    oidc_client_secret: str = setting(text(), "", "Its secret, where it has one.", secret=True)
    oidc_scopes: tuple[str, ...] = setting(words(), "openid,profile,email", "What it asks the issuer for.")
    staff_session_seconds: int = setting(
        integer(60, 86400, "seconds"), "28800", "How long staff who sign in to the dashboard stay so."
    )
    api_token_seconds_max: int = setting(
        integer(60, 3660 * 86400, "seconds"), "31622400", "The longest life of an API token that is made from now on."
    )
    development: bool = setting(
        flag(), "off", "Nobody else reaches this: HEADER_FALLBACK and LOGIN_SENDER=log are refused without it."
    )
    header_fallback: bool = setting(
        flag(), "off", "Believe X-Tenant-Id, X-Merchant-Id, X-Player-Id and X-Roles. Needs DEVELOPMENT."
    )
    default_tenant: str = setting(text(), "", "Tenant of public routes and logins that name none.")
    show_odds: bool = setting(
        flag(),
        "off",
        "Whether players may read what starts promise: chances, tiers, limits (docs/explanation/fairness.md).",
    )
    role_matrix: str = setting(
        choice("any", "strict"), "any", "`any`: each management role opens every route; `strict`: writes by role."
    )

    # What waits for a second person
    dual_adjustment_above: int = setting(
        integer(0, 2**63 - 1),
        "0",
        "A balance is moved by more than this, or a prize or a play made to give more, by two people alone. 0: by one.",
    )
    dual_turns_above: int = setting(
        integer(0, 2**31 - 1),
        "0",
        "More turns than this are given by staff, a quest, a prize or one play by two people alone. 0: by one.",
    )
    dual_odds: bool = setting(
        flag(),
        "off",
        "What decides draws, rungs and what prizes are worth, of what is live or was played, is changed by two people.",
    )
    dual_revocations_above: int = setting(
        integer(0, 100), "0", "More rewards than this are revoked in one request by two people alone. 0: by one."
    )

    # Limits
    rate_limits: bool = setting(flag(), "on", "Whether the consumer edge limits rates.")
    rate_player_per_second: float = setting(number(0.001, 1e6, "per second"), "10", "Starts and plays of one player.")
    rate_player_burst: int = setting(integer(1, 10**6), "20", "How many at once.")
    rate_ip_per_second: float = setting(
        number(0.001, 1e6, "per second"),
        "200",
        "Starts and plays of one address; 4 times of other routes. In IPv6 a /64 is one, and a /48 as good as 16.",
    )
    rate_ip_burst: int = setting(integer(1, 10**6), "400", "How many at once.")
    rate_login_per_second: float = setting(
        number(0.001, 1e6, "per second"), "5", "Logins, refreshes and logouts of one address and edge process."
    )
    rate_login_burst: int = setting(integer(1, 10**6), "100", "How many at once: people behind one address.")
    rate_guest_per_second: float = setting(
        number(0.001, 1e6, "per second"),
        "0.2",
        "New guests of one address and edge process. As slow as play, else a farmer tries on plans as guests.",
    )
    rate_guest_burst: int = setting(integer(1, 10**6), "40", "How many at once: people behind one address.")
    connections_max: int = setting(
        integer(16, 10**6), "4096", "Connections that a port takes; of one address, but for TRUSTED_PROXIES, a quarter."
    )
    trusted_proxies: tuple[Network, ...] = setting(networks(), "", "Peers whose X-Forwarded-For counts.")
    cors_origins: tuple[str, ...] = setting(
        words("list", r"\*|https?://[^/\s]+", "* or origins such as https://shop.example"),
        "",
        "Origins whose pages may call the consumer edge for every tenant, beside the tenant's own."
        " http://localhost:* is any port, * is all.",
    )
    body_limit_bytes: int = setting(
        integer(1024, 2**30, "bytes"), "262144", "Largest request body; the import of codes has its own."
    )
    mailbox_limit: int = setting(integer(1, 10**6), "4096", "Calls that may wait for one actor; more are UNAVAILABLE.")
    batch_limit: int = setting(integer(1, 10**4), "256", "Most plays of one commit.")
    idle_seconds: float = setting(number(0.1, 86400, "seconds"), "60", "After how long without a call an actor leaves.")
    drain_seconds: float = setting(
        number(0, 600, "seconds"), "25", "How long a stopping process finishes what it accepted."
    )

    # What is kept
    retention_guest_days: int = setting(
        integer(0, 36_500, "days"), "0", "After so long without a play a guest's personal data are erased. 0: never."
    )
    retention_player_idle_days: int = setting(
        integer(0, 36_500, "days"),
        "0",
        "The same of players, after so long without a play, a reward or an open login. 0: never.",
    )

    # Going out
    outbound_allow_cidrs: tuple[Network, ...] = setting(
        networks(), "", "Private networks that webhooks may reach; public addresses always may."
    )
    callback_base_url: str = setting(
        url("https", "http"), "", "The admin edge as workflows reach it. Empty: http://HOST:ADMIN_PORT."
    )
    consumer_base_url: str = setting(
        url("https", "http"),
        "",
        "The consumer edge as players reach it: the dashboard's links begin with it; Core's launch check asks for it.",
    )
    callback_seconds: int = setting(
        integer(60, 366 * 86400, "seconds"),
        "604800",
        "How long a delivery awaits its workflow's callback before it fails; a prize's `callback_seconds` goes before.",
    )
    login_sender: str = setting(
        text(), "log", "Who carries login codes: smtp, webhook, a plugin's, or log (DEVELOPMENT)."
    )
    smtp_url: str = setting(url("smtp", "smtps"), "", "Mail server, smtp://user:password@host:587.", secret=True)
    smtp_from: str = setting(text(), "", "Sender's address; needed with LOGIN_SENDER=smtp.")
    sender_webhook_url: str = setting(url("https", "http"), "", "Where LOGIN_SENDER=webhook posts.")
    sender_webhook_secret: str = setting(secret_text(16), "", "Signs those posts.", secret=True)
    plugins: tuple[str, ...] = setting(
        words("list", r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", "names of Python modules"),
        "",
        "Modules imported at start that register rules, channels, providers or senders.",
    )

    # Where it listens, and what runs here
    host: str = setting(text(), "127.0.0.1", "Address of the two edges.")
    core_host: str = setting(text(), "127.0.0.1", "Address of Core's REST, RPC and metrics, which trust every caller.")
    core_port: int = setting(integer(0, 65535, "port"), "8080", "Core's REST.")
    consumer_port: int = setting(integer(0, 65535, "port"), "8081", "Consumer edge.")
    admin_port: int = setting(integer(0, 65535, "port"), "8082", "Admin edge.")
    rpc_port: int = setting(integer(0, 65535, "port"), "8083", "Core's RPC.")
    worker_nice: int = setting(
        integer(0, 19), "10", "How far a worker process yields the processor to others on its machine (nice)."
    )
    metrics_port: int = setting(
        integer(0, 65535, "port"), "9090", "Health and metrics of this process, whatever its role, on CORE_HOST."
    )
    core_hosts: tuple[str, ...] = setting(
        words("list", r"[a-z0-9._-]+", "host names in lower case"),
        "",
        "Names under which Core's REST may be asked, beside addresses and names without a dot.",
    )
    service_token: tuple[str, ...] = setting(
        secrets(32),
        "",
        "What Core's REST and RPC want shown (Bearer): edges show the first, each is taken. Empty: nothing.",
        secret=True,
    )
    core_rpc_addresses: tuple[str, ...] = setting(
        words("list", r"\S+:\d{1,5}", "host:port"),
        "",
        "Core replicas, for an edge in a process of its own (needed there).",
    )
    core_workers: tuple[str, ...] = setting(
        groups(tuple(GROUPS)), "off", f"Consumer groups that Core runs itself: {', '.join(GROUPS)}."
    )
    stream_shards: int = setting(integer(1, 1024), "4", "Streams per consumer group; every process must agree.")
    stream_maxlen: int = setting(integer(1000, 10**9), "100000", "Length to which a stream is trimmed.")
    stream_hours: int = setting(
        integer(1, 8760), "24", "Age from which events leave their streams: some name players, whom an erasure forgets."
    )
    audit_share: float = setting(
        number(0.0001, 1, "0.0001 to 1"), "0.01", "Part of the time that the auditor has a statement under way."
    )

    # What it tells
    log_level: str = setting(choice("debug", "info", "warning", "error"), "info", "Least level that is logged.")
    log_format: str = setting(choice("json", "console"), "json", "One JSON object a line, or text for people.")
    log_sample: float = setting(
        number(0, 1, "0 to 1"), "0.01", "Part of the successful requests that is logged; failures always are."
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str], roles: Iterable[str] = ()) -> Settings:
        """Reads `environ`. SettingsError for every variable that is wrong, or that one of `roles` needs and lacks.

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
        for name, problem in settings._missing(frozenset(roles)):
            problems.setdefault(name, problem)
        if problems:
            raise SettingsError(problems)
        return settings

    def _missing(self, roles: frozenset[str]) -> Iterable[tuple[str, str]]:
        """(variable, what is wrong) where one setting or a role asks for another that is not there."""
        for item in fields(self):
            # "worker" stands for each of them.
            named = item.metadata["needed_by"].split()
            who = {role for role in roles if role in named or role.partition(":")[0] in named}
            if who and not getattr(self, item.name):
                yield variable(item), f"must be set for {', '.join(sorted(who))}: {item.metadata['meaning']}"
        if roles & {"consumer", "admin"} and "core" not in roles and not self.core_rpc_addresses:
            yield "CORE_RPC_ADDRESSES", "must name Core's replicas (host:port) for an edge in a process of its own"
        if "admin" in roles and not (self.jwt_staff_secrets or self.jwks_url):
            yield "JWT_STAFF_SECRET", "must be set for admin, unless JWKS_URL is"
        if self.jwt_staff_secret and not set(self.jwt_staff_secrets).isdisjoint(self.jwt_secrets):
            yield "JWT_STAFF_SECRET", "must not be JWT_SECRET's: who has that of players would make staff's tokens"
        if not self.development and self.header_fallback and roles & {"consumer", "admin"}:
            yield "HEADER_FALLBACK", "makes anybody who they say they are: only with DEVELOPMENT=on"
        if not self.development and self.login_sender == "log" and "consumer" in roles:
            yield "LOGIN_SENDER", "must be smtp, webhook or a plugin's: log prints codes, only with DEVELOPMENT=on"
        if self.jwt_audience == self.jwt_staff_audience:
            yield "JWT_STAFF_AUDIENCE", "must differ from JWT_AUDIENCE: players' tokens would open the admin edge"
        if self.refresh_token_seconds > self.token_seconds_max:
            yield "REFRESH_TOKEN_SECONDS", "must not exceed TOKEN_SECONDS_MAX: guests' tokens live as long"
        if "*" not in self.jwks_tenants and any(pair.endswith("=platform") for pair in self.jwks_role_map):
            yield "JWKS_ROLE_MAP", "must not give platform, which acts for every tenant, unless JWKS_TENANTS is *"
        if self.oidc_client_id and not (self.jwks_url and self.jwt_staff_secrets and "openid" in self.oidc_scopes):
            yield "OIDC_CLIENT_ID", "needs JWKS_URL, JWT_STAFF_SECRET for what staff get, and openid in OIDC_SCOPES"
        for cause, needed in (
            (bool(self.jwks_url), ("jwks_issuer", "jwks_audience", "jwks_tenants")),
            (self.login_sender == "smtp", ("smtp_url", "smtp_from")),
            (self.login_sender == "webhook", ("sender_webhook_url", "sender_webhook_secret")),
        ):
            for name in needed:
                if cause and not getattr(self, name):
                    with_what = "JWKS_URL" if name.startswith("jwks") else f"LOGIN_SENDER={self.login_sender}"
                    yield name.upper(), f"must be set with {with_what}"

    @property
    def shown_token(self) -> str:
        """The service token that an edge shows to Core; "" for none."""
        return self.service_token[0] if self.service_token else ""

    @property
    def jwt_secrets(self) -> tuple[str, ...]:
        """The secrets of players' tokens: the first signs, all verify. Empty where only another issuer's count."""
        return (self.jwt_secret, *self.jwt_old_secrets) if self.jwt_secret else ()

    @property
    def jwt_staff_secrets(self) -> tuple[str, ...]:
        """Those of staff's. They are players' too where nobody else reaches this, and there are none."""
        if self.jwt_staff_secret:
            return (self.jwt_staff_secret, *self.jwt_staff_old_secrets)
        return self.jwt_secrets if self.development else ()

    @property
    def callback_url(self) -> str:
        """Base of the callback URLs that workflows get: CALLBACK_BASE_URL, else the admin edge here."""
        return self.callback_base_url or f"http://{self.host}:{self.admin_port}"

    def __repr__(self) -> str:
        """Every setting, secrets as ***."""

        def shown(item: Field[Any]) -> str:
            value = getattr(self, item.name)
            return f"{item.name}={'***' if item.metadata['secret'] and value else repr(value)}"

        return f"Settings({', '.join(map(shown, fields(self)))})"
