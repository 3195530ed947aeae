"""Settings of processes: addresses, ports, consumer groups and logs."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.groups import GROUPS
from runtime.settings.field import setting
from runtime.settings.kinds import choice, groups, integer, number, processes, secrets, text, url, words


@dataclass(frozen=True, kw_only=True, repr=False)
class ProcessSettings:
    """Addresses, ports, process roles, streams and logs."""

    # Addresses, ports and process roles
    processes: int = setting(
        processes(256), "1", "Processes of `tombola all` that share its ports; `auto`: one per CPU."
    )
    host: str = setting(text(), "127.0.0.1", "Address of the two edges.")
    core_host: str = setting(text(), "127.0.0.1", "Address of Core's REST, RPC and metrics.")
    core_port: int = setting(integer(0, 65535, "port"), "8080", "Core's REST.")
    consumer_port: int = setting(integer(0, 65535, "port"), "8081", "Consumer edge.")
    admin_port: int = setting(integer(0, 65535, "port"), "8082", "Admin edge.")
    rpc_port: int = setting(integer(0, 65535, "port"), "8083", "Core's RPC.")
    worker_nice: int = setting(
        integer(0, 19), "10", "CPU priority of a worker process (nice): higher yields more to other processes."
    )
    metrics_port: int = setting(
        integer(0, 65535, "port"), "9090", "Health and metrics, on CORE_HOST. PROCESSES take this port and the next."
    )
    core_hosts: tuple[str, ...] = setting(
        words("list", r"[a-z0-9._-]+", "host names in lower case"),
        "",
        "Host names that Core's REST accepts, in addition to addresses and names without a dot.",
    )
    service_token: tuple[str, ...] = setting(
        secrets(32),
        "",
        "Bearer tokens for Core's REST and RPC: edges send the first, all are accepted. Required for Core unless"
        " CORE_HOST is a loopback address or DEVELOPMENT is on.",
        secret=True,
    )
    core_rpc_addresses: tuple[str, ...] = setting(
        words("list", r"\S+:\d{1,5}", "host:port"), "", "Core replicas. Required for an edge in a separate process."
    )
    core_workers: tuple[str, ...] = setting(
        groups(tuple(GROUPS)), "off", f"Consumer groups that Core runs itself: {', '.join(GROUPS)}."
    )
    stream_shards: int = setting(
        integer(1, 1024), "4", "Streams per consumer group; must be the same in every process."
    )
    stream_maxlen: int = setting(integer(1000, 10**9), "100000", "Maximum length of a stream; it is trimmed to this.")
    stream_hours: int = setting(
        integer(1, 8760),
        "24",
        "Maximum age of events in streams. Some contain player ids, which an erasure must remove.",
    )
    otlp_endpoint: str = setting(
        url("https", "http"),
        "",
        "OpenTelemetry collector that gets traces by OTLP/HTTP, http://collector:4318. Empty: off. "
        "Needs the extra `otel`.",
    )
    trace_share: float = setting(
        number(0, 1, "0 to 1"), "0.01", "Share of requests that are traced; one that arrives as sampled always is."
    )
    audit_share: float = setting(
        number(0.0001, 1, "0.0001 to 1"), "0.01", "Share of time in which the auditor runs statements."
    )

    # Logs
    log_level: str = setting(choice("debug", "info", "warning", "error"), "info", "Minimum level that is logged.")
    log_format: str = setting(choice("json", "console"), "json", "One JSON object per line, or plain text.")
    log_sample: float = setting(number(0, 1, "0 to 1"), "0.01", "Share of requests that is logged; HTTP 500 always is.")

    @property
    def outgoing_service_token(self) -> str:
        """The service token that an edge sends to Core; empty: none."""
        return self.service_token[0] if self.service_token else ""
