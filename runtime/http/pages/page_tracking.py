"""Trackers of a hosted page: what its head names, and what its Content-Security-Policy permits.

The script tracking.js loads them once the player's entry agrees. It is part of pages of campaigns with trackers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, NamedTuple

from runtime import messages as m
from runtime.http.pages.files import files


class _Sources(NamedTuple):
    scripts: tuple[str, ...]
    calls: tuple[str, ...]


_GOOGLE: Final = _Sources(
    ("https://www.googletagmanager.com",),
    ("https://*.google-analytics.com", "https://*.analytics.google.com", "https://*.googletagmanager.com"),
)
_SOURCES: Final[Mapping[str, _Sources]] = {
    "ga4": _GOOGLE,
    "gtm": _GOOGLE,
    "meta_pixel": _Sources(
        ("https://connect.facebook.net",), ("https://connect.facebook.net", "https://www.facebook.com")
    ),
}
"""As the providers document them for a Content-Security-Policy."""

_BEGIN: Final = b'<meta name="tombola-tracking" content="'


def tracking_head(campaign: m.Campaign | None, tenant: str, host_campaign: str) -> str:
    """The elements of the head for the campaign's trackers; "" without any. Comes before every text of operators.

    A Tag Manager container loads only under the campaign's own host: it can read the logins that a host's pages store.
    """
    if campaign is None or not (tracking := campaign.tracking):
        return ""
    named = [name for name in _SOURCES if getattr(tracking, name) and (name != "gtm" or host_campaign == campaign.id)]
    if not named:
        return ""
    values = {name.replace("_", "-"): getattr(tracking, name) for name in named}
    values |= {"consent": tracking.consent, "campaign": campaign.id, "tenant": tenant}
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in values.items())
    script = f'<script type="module" src="{files().address("tracking.js")}"></script>'
    return f'{_BEGIN.decode()}{" ".join(named)}"{data}>\n{script}\n'


def trackers_of(page: bytes) -> list[str]:
    """The trackers that a page names. Operators' texts are escaped, so none of them can contain the element."""
    return page.partition(_BEGIN)[2].partition(b'"')[0].decode().split()


def sources_of(trackers: Iterable[str]) -> tuple[list[str], list[str]]:
    """The additional sources of script-src and of connect-src."""
    found = [_SOURCES[name] for name in trackers if name in _SOURCES]
    scripts, calls = ([source for one in found for source in one[kind]] for kind in (0, 1))
    return list(dict.fromkeys(scripts)), list(dict.fromkeys(calls))
