"""The cache version: one number per tenant, raised whenever something that is read changed.

The number lives in the ephemeral store. An answer is kept with the number that was there before it was
made, and counts for as long as the number is the same. A raise that is lost with the store costs no more
than the cache's own short life.
"""

from __future__ import annotations

from runtime.stores.ephemeral import Ephemeral


def key(tenant_id: str) -> str:
    """Where the tenant's number is; the hash tag keeps what is cached of a tenant on the same node."""
    return f"{{{tenant_id}}}fresh"


def changed(store: Ephemeral, tenant_id: str) -> None:
    """Makes every cached answer of the tenant an old one."""
    # INCR, not SET: two changes whose commands arrive in the wrong order still leave a new number.
    store.post("INCR", key(tenant_id))
