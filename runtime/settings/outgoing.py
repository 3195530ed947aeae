"""Settings of outgoing calls: webhooks, workflows and login codes."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.settings.field import setting
from runtime.settings.kinds import Network, integer, networks, secret_text, text, url, words


@dataclass(frozen=True, kw_only=True, repr=False)
class OutgoingSettings:
    """Webhooks, callbacks, senders and plugins."""

    outbound_allow_cidrs: tuple[Network, ...] = setting(
        networks(), "", "Private networks that webhooks may reach; public addresses are always allowed."
    )
    callback_base_url: str = setting(
        url("https", "http"), "", "URL of the admin edge for workflows. Empty: http://HOST:ADMIN_PORT."
    )
    consumer_base_url: str = setting(
        url("https", "http"),
        "",
        "URL of the consumer edge for players. The dashboard's links use it; Core's launch check requires it.",
    )
    callback_seconds: int = setting(
        integer(60, 366 * 86400, "seconds"),
        "604800",
        "How long a delivery waits for its workflow's callback; a prize's `callback_seconds` overrides it.",
    )
    login_sender: str = setting(
        text(),
        "log",
        "Sender of login codes, and for Core of reward codes: smtp, webhook, a plugin's, none (no codes), or log.",
    )
    smtp_url: str = setting(
        url("smtp", "smtps"),
        "",
        "Mail server, smtp://user:password@host:587; for worker integrations: of campaigns' messages.",
        secret=True,
    )
    smtp_from: str = setting(text(), "", "Sender's address; required with LOGIN_SENDER=smtp and for messages.")
    sender_webhook_url: str = setting(url("https", "http"), "", "URL that LOGIN_SENDER=webhook posts to.")
    sender_webhook_secret: str = setting(secret_text(16), "", "Signs these posts.", secret=True)
    captcha_verify_url: str = setting(
        url("https", "http"),
        "",
        "Verifies captchas of kind siteverify: the siteverify URL of Turnstile, hCaptcha or a similar service.",
    )
    captcha_secret: str = setting(text(), "", "The secret that this service knows.", secret=True)
    captcha_site_key: str = setting(text(), "", "The public site key, which the refusal CAPTCHA_REQUIRED shows.")
    plugins: tuple[str, ...] = setting(
        words("list", r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", "names of Python modules"),
        "",
        "Modules imported at start that register rules, channels, providers or senders.",
    )
