"""Canonical contacts: all addresses that reach one mailbox or phone, as one keyed hash.

Providers deliver `name+anything@` to `name@`, and Gmail ignores dots. Each provider's rule is in _PROVIDERS; at any
other domain only what follows a `+` is removed, which nearly every mail service ignores. Characters that differ only
in width or form are the same (Unicode NFKC). The hash is keyed, so that the rows do not reveal addresses. Throwaway
addresses are refused.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from runtime.actors.engine import Engine
from runtime.outgoing.vault import vault_of


class _Provider(NamedTuple):
    """A provider's rule.

    domain: the canonical one of its domains. tag: the character that begins an alias. has_subdomains: delivers
    `anything@name.domain` to `name@domain`.
    """

    domain: str
    tag: str = "+"
    ignores_dots: bool = False
    has_subdomains: bool = False


_GMAIL: Final = _Provider("gmail.com", ignores_dots=True)
_PROVIDERS: Final[Mapping[str, _Provider]] = {
    "gmail.com": _GMAIL,
    "googlemail.com": _GMAIL,
    **dict.fromkeys(("icloud.com", "me.com", "mac.com"), _Provider("icloud.com")),
    **dict.fromkeys(("protonmail.com", "proton.me", "pm.me", "protonmail.ch"), _Provider("proton.me", "+", True)),
    **dict.fromkeys(("yandex.ru", "yandex.com", "ya.ru", "yandex.by", "yandex.kz"), _Provider("yandex.ru")),
    **dict.fromkeys(("fastmail.com", "fastmail.fm"), _Provider("fastmail.com", has_subdomains=True)),
    **{f"yahoo.{end}": _Provider(f"yahoo.{end}", "-") for end in ("com", "de", "fr", "it", "es", "ca", "co.uk")},
}


def canonical(kind: str, value: str) -> str:
    """The canonical form of a normalized e-mail address or phone number."""
    if kind != "email":
        return value
    local, _, domain = unicodedata.normalize("NFKC", value).lower().rpartition("@")
    name, _, parent = domain.partition(".")
    if (rule := _PROVIDERS.get(parent)) is not None and rule.has_subdomains:
        local = name
    else:
        rule = _PROVIDERS.get(domain, _Provider(domain))
    local = local.partition(rule.tag)[0] or local
    return f"{local.replace('.', '') if rule.ignores_dots else local}@{rule.domain}"


def is_throwaway(email: str) -> bool:
    """Whether the address is of a service of disposable mailboxes, or of a subdomain of one."""
    parts = email.rpartition("@")[2].split(".")
    domains = _throwaway_domains()
    return any(".".join(parts[nth:]) in domains for nth in range(len(parts) - 1))


@cache
def _throwaway_domains() -> frozenset[str]:
    from disposable_email_domains import blocklist  # On first use: some thousand names.

    return frozenset(blocklist)


def contacts_in(form: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(kind, value) of each contact among an entry's fields."""
    kinds = [(field["kind"], field["key"]) for field in form["fields"] if field["kind"] in ("email", "phone")]
    # A value from when the field had another kind may be a number or an address.
    return [(kind, value) for kind, key in kinds if (value := fields.get(key)) and isinstance(value, str)]


def hashes_of(engine: Engine, tenant_id: str, contacts: Iterable[tuple[str, str]]) -> tuple[list[bytes], list[bytes]]:
    """The contacts' hashes to store, and those that earlier keys gave them too."""
    vault = vault_of(engine.keyring.code)
    found = [vault.fingerprints(f"{kind}:{canonical(kind, value)}", f"entry/{tenant_id}") for kind, value in contacts]
    return sorted({one[0] for one in found}), sorted({each for one in found for each in one})
