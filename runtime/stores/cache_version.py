"""The cache version: one number per tenant, incremented whenever readable data changes.

The number is in the ephemeral store. A cached response records the number from before it was computed, and is valid
while the number is unchanged. If an increment is lost with the store, stale responses live only until the cache's short
expiry.
"""

from __future__ import annotations

from runtime.stores.ephemeral import Ephemeral


def key(tenant_id: str) -> str:
    """The key of the tenant's number; the hash tag keeps a tenant's cache on the same node."""
    return f"{{{tenant_id}}}fresh"


def changed(store: Ephemeral, tenant_id: str) -> None:
    """Invalidates every cached response of the tenant."""
    # INCR, not SET: two changes that arrive out of order still give a new number.
    store.post("INCR", key(tenant_id))
