"""The limit of messages to one address, an e-mail address or a phone number."""

from __future__ import annotations

from typing import Final

import sql
from runtime.outgoing.vault import vault_of
from runtime.stores.database import Database
from runtime.stores.keyring import Keyring
from runtime.wire.contacts import canonical

ADDRESS_MOST: Final = 10
ADDRESS_SECONDS: Final = 3_600.0
"""Messages of one tenant to one address: ten at once, then one an hour. The address of an entry is unverified:
a stranger may have entered it, for many players. So messages to its verified owner have a bucket of their own."""

TOO_MANY_MESSAGES: Final = "too many messages to this address"

_SQL: Final = sql.load("challenges")


class AddressLimit:
    """Counts messages in the tenant's database, so that all processes share the limit."""

    def __init__(self, keyring: Keyring, database: Database) -> None:
        self._keyring = keyring
        self._database = database

    async def take(self, tenant_id: str, kind: str, address: str, *, verified: bool = False) -> bool:
        """Counts a message. False: the limit is reached. kind: email or phone. verified: by the recipient's login."""
        rate = self._rate(tenant_id, kind, address, verified)
        return await self._database.route(tenant_id).fetchval(_SQL["take_token"], *rate, ADDRESS_MOST) is not None

    async def give_back(self, tenant_id: str, kind: str, address: str, *, verified: bool = False) -> None:
        """Takes back the count of a message that was not sent: a retry counts once."""
        rate = self._rate(tenant_id, kind, address, verified)
        await self._database.route(tenant_id).execute(_SQL["return_token"], *rate)

    def _rate(self, tenant_id: str, kind: str, address: str, verified: bool) -> tuple[str, str, float]:
        # Hashed: the rows do not reveal addresses.
        vault = vault_of(self._keyring.code)
        (fingerprint, *_) = vault.fingerprints(canonical(kind, address), f"messages/{tenant_id}")
        bucket = "messages-verified" if verified else "messages"
        return tenant_id, f"{bucket}:{fingerprint.hex()}", ADDRESS_SECONDS
