"""Settings of the stores and the keys."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.settings.field import setting
from runtime.settings.kinds import (
    PRIMARY,
    STANDBY,
    Key,
    bucket,
    database_list,
    flag,
    integer,
    keys,
    name,
    number,
    postgres,
    public_key,
    text,
    url,
)


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreSettings:
    """The database, Valkey, and the keys of sessions and codes."""

    # Stores
    database_url: str = setting(
        postgres(*PRIMARY),
        "",
        "PostgreSQL 15 or newer. May name several hosts, of which the primary is used:"
        " `postgresql://tombola:secret@a,b/tombola?target_session_attrs=read-write`.",
        secret=True,
        needed_by="core worker migrate",
    )
    databases: tuple[tuple[str, str], ...] = setting(
        database_list(*PRIMARY),
        "",
        "More databases for tenants, each a name and a URL: `eu=postgresql://... us=postgresql://...`. The database at"
        " DATABASE_URL is called `home`. The same for every process.",
        secret=True,
    )
    database_read_url: str = setting(
        postgres(STANDBY),
        "",
        "A streaming standby of DATABASE_URL that serves exports, figures, history and ledger lists. The primary serves"
        " them while it is away or 5 seconds behind.",
        secret=True,
    )
    databases_read: tuple[tuple[str, str], ...] = setting(
        database_list(STANDBY), "", "Standbys of databases of DATABASES, in the same form.", secret=True
    )
    database_pool_size: int = setting(integer(1, 1000), "10", "Maximum connections per process and database.")
    database_acquire_timeout_seconds: float = setting(
        number(0.01, 60, "seconds"), "0.8", "How long a request waits for a connection; then it fails (UNAVAILABLE)."
    )
    database_statement_timeout_seconds: float = setting(
        number(0.05, 600, "seconds"), "1.2", "Time limit of one statement of a request; then it fails (UNAVAILABLE)."
    )
    answer_timeout_seconds: float = setting(
        number(0.05, 600, "seconds"),
        "1.35",
        "How long a request may take before it fails (UNAVAILABLE). Counts, copies and outgoing calls may take longer.",
    )
    redis_url: str = setting(
        url("redis", "rediss", "valkey", "valkeys", "unix"),
        "",
        "Valkey 7.2 or Redis 7.0, or newer. Play continues during an outage.",
        secret=True,
        needed_by="core consumer admin worker",
    )
    redis_cluster: bool = setting(flag(), "off", "Whether REDIS_URL is a node of a cluster.")
    redis_timeout_seconds: float = setting(
        number(0.01, 10, "seconds"), "0.2", "How long a request waits for Valkey before it continues without it."
    )

    # Pictures and fonts
    assets_url: str = setting(
        bucket(),
        "",
        "A bucket for new uploads of pictures and fonts, which are in PostgreSQL otherwise:"
        " `s3://NAME?endpoint=https://s3.example&region=eu-1`. Without `endpoint`: AWS. A private endpoint needs"
        " OUTBOUND_ALLOW_CIDRS.",
    )
    assets_key_id: str = setting(text(), "", "The id of the bucket's access key.")
    assets_secret_key: str = setting(text(), "", "The secret of the bucket's access key.", secret=True)

    # Keys
    server_keys: tuple[Key, ...] = setting(
        keys(),
        "",
        "Keys for draws, sessions and cursors: the first key that every process has signs, all verify.",
        secret=True,
        needed_by="core",
    )
    code_keys: tuple[Key, ...] = setting(
        keys(),
        "",
        "Keys that encrypt voucher codes and secrets: the first key that every process has encrypts, all decrypt.",
        secret=True,
        needed_by="core worker:deliveries worker:integrations",
    )
    notary_key: str = setting(
        public_key(),
        "",
        "A notary's X25519 public key in base64: secret release times (SEALED) are also kept encrypted to it.",
    )
    session_ttl_seconds: int = setting(
        integer(1, 86400, "seconds"), "900", "How long a session can be played after its start."
    )

    # Log
    merkle_log: str = setting(
        name(),
        "",
        "The installation's name in the Merkle logs of its tenants, such as its host name. Do not change it later."
        " Empty: no logs.",
    )
    log_timestamp_url: str = setting(
        url("https", "http"),
        "",
        "The time-stamping authority (RFC 3161) that stamps the logs' checkpoints. Empty: none. A private address needs"
        " OUTBOUND_ALLOW_CIDRS.",
    )
    log_timestamp_seconds: int = setting(integer(60, 31 * 86400, "seconds"), "3600", "The interval of a log's stamps.")
