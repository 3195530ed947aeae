"""The sender of a tenant's mails: its own, or the installation's."""

from __future__ import annotations

from collections.abc import Mapping
from email.headerregistry import Address
from typing import Any

from runtime.outgoing.senders import SmtpSender
from runtime.outgoing.vault import sender_context, vault_of
from runtime.settings import Settings


def sender_of(settings: Settings, tenant_id: str, stored: Mapping[str, Any]) -> SmtpSender | None:
    """The sender of a tenant's mails. stored: its row's `sender`. None: no mail server is set up. Raises VaultError."""
    url = settings.smtp_url
    if sealed := stored.get("secret"):
        url = vault_of(settings.code_keys).open_secret(sealed, sender_context(tenant_id))
    address = settings.smtp_from
    if own := stored.get("address"):
        address = str(Address(stored.get("name", ""), addr_spec=own))
    return SmtpSender(url, address, stored.get("reply_to", "")) if url and address else None


def has_own(settings: Settings, stored: Mapping[str, Any]) -> bool:
    """Whether the tenant has its own sender, and a mail server for it."""
    return bool(stored.get("address") and (stored.get("secret") or settings.smtp_url))
