"""Settings of limits: approvals, rates, sizes and retention."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.settings.field import setting
from runtime.settings.kinds import Network, flag, integer, networks, number, text, words


@dataclass(frozen=True, kw_only=True, repr=False)
class LimitSettings:
    """Approvals by a second person, rate limits, sizes and retention."""

    # Approvals by a second person
    dual_adjustment_above: int = setting(
        integer(0, 2**63 - 1),
        "0",
        "A balance adjustment of more, or a prize, pack or game that may give more at once, needs approval. 0: never.",
    )
    dual_turns_above: int = setting(
        integer(0, 2**31 - 1),
        "0",
        "A grant of more turns, or a quest, prize, pack or game that may give more at once, needs approval. 0: never.",
    )
    dual_odds: bool = setting(
        flag(),
        "off",
        "Whether changes of a game's odds, rungs and prize values need approval once it is live or was played.",
    )
    dual_revocations_above: int = setting(
        integer(0, 100), "0", "Above this number of rewards, a bulk revocation needs approval. 0: never."
    )

    # Limits
    rate_limits: bool = setting(flag(), "on", "Whether the consumer edge applies rate limits.")
    rate_player_per_second: float = setting(number(0.001, 1e6, "per second"), "10", "Starts and plays per player.")
    rate_player_burst: int = setting(integer(1, 10**6), "20", "Burst size.")
    rate_ip_per_second: float = setting(
        number(0.001, 1e6, "per second"),
        "200",
        "Starts and plays per address; other routes 4 times as many. An IPv6 /64 is one address, a /48 counts as 16.",
    )
    rate_ip_burst: int = setting(integer(1, 10**6), "400", "Burst size.")
    rate_login_per_second: float = setting(
        number(0.001, 1e6, "per second"), "5", "Logins, refreshes and logouts per address, over all processes."
    )
    rate_login_burst: int = setting(integer(1, 10**6), "100", "Burst size: users who share an address.")
    rate_guest_per_second: float = setting(
        number(0.001, 1e6, "per second"),
        "0.2",
        "New guests per address, over all processes. Refused starts and entries count too. Keep it low, or bots use "
        "new guests to sample drop plans.",
    )
    rate_guest_burst: int = setting(integer(1, 10**6), "40", "Burst size: users who share an address.")
    connections_max: int = setting(
        integer(16, 10**6), "4096", "Maximum connections per port; one address gets a quarter, except TRUSTED_PROXIES."
    )
    short_path: bool = setting(flag(), "on", "Answer plain POSTs without aiohttp's response stages: 8 % less CPU.")
    trusted_proxies: tuple[Network, ...] = setting(networks(), "", "Peers whose X-Forwarded-For is trusted.")
    country_header: str = setting(text(), "", "Header of TRUSTED_PROXIES with the client's country, as CF-IPCountry.")
    cors_origins: tuple[str, ...] = setting(
        words("list", r"\*|https?://[^/\s]+", "* or origins such as https://shop.example"),
        "",
        "Origins whose pages may call the consumer edge for every tenant, in addition to each tenant's own."
        " http://localhost:* is any port, * is all.",
    )
    body_limit_bytes: int = setting(
        integer(1024, 2**30, "bytes"), "262144", "Maximum request body; code imports have their own limit."
    )
    asset_quota_bytes: int = setting(
        integer(0, 2**40, "bytes"), "104857600", "Maximum total size of a tenant's uploaded pictures and fonts."
    )
    mailbox_limit: int = setting(
        integer(1, 10**6), "4096", "Calls that may queue for one actor; further calls fail (UNAVAILABLE)."
    )
    batch_limit: int = setting(integer(1, 10**4), "256", "Maximum plays per commit.")
    idle_seconds: float = setting(number(0.1, 86400, "seconds"), "60", "Idle time after which an actor stops.")
    drain_seconds: float = setting(
        number(0, 600, "seconds"), "25", "How long a stopping process drains accepted requests."
    )

    # Retention
    archive_after_days: int = setting(
        integer(0, 36_500, "days"), "30", "Days after a campaign's end before its plays can be archived."
    )
    retention_guest_days: int = setting(
        integer(0, 36_500, "days"),
        "0",
        "Days of inactivity, as for RETENTION_PLAYER_IDLE_DAYS, after which a guest's data are erased. 0: never.",
    )
    retention_player_idle_days: int = setting(
        integer(0, 36_500, "days"),
        "0",
        "Days without a play, entry, redeemed code, completed quest, reward or active login after which a player's"
        " personal data are erased. The erasure waits for the end of each campaign that the player entered, for draws"
        " in which the player takes part, for leaderboards with prizes on which the player has a score, and for"
        " undelivered rewards: claimed, failed, or still to claim before a deadline. Page views are deleted"
        " after as many days. 0: never.",
    )
