"""The contacts of entries, as keyed hashes of their canonical form (runtime/wire/contacts.py).

The hash is keyed, so that the rows do not reveal addresses. Throwaway addresses are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from runtime.actors.engine import Engine
from runtime.outgoing.vault import vault_of
from runtime.wire.contacts import canonical


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
