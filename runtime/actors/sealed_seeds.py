"""Secret seeds that are fixed today and opened later. They are derived from SERVER_KEYS, so no table contains them."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.errors import Fault, Status
from runtime.rules.draw import seed_of
from runtime.settings import Key


def derived(key: Key, *purpose: str) -> bytes:
    """The 32 bytes of a seed. purpose: what it is for, with ids that occur once."""
    return seed_of(key.secret, "\0".join(purpose).encode())


def opened(keys: Sequence[Key], key_id: str, *purpose: str) -> bytes:
    """The seed derived from the key with this id. UNAVAILABLE if the key is no longer configured."""
    for key in keys:
        if key.id == key_id:
            return derived(key, *purpose)
    message = f"the key {key_id} of SERVER_KEYS is needed, but was removed; add it again"
    raise Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", message, retry_after_seconds=60)
