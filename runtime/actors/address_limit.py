"""The limit of messages to one address, an e-mail address or a phone number."""

from __future__ import annotations

from typing import Final

import sql
from runtime.outgoing.vault import vault_of
from runtime.settings import Settings
from runtime.stores.database import Database
from runtime.wire.contacts import canonical

ADDRESS_MOST: Final = 10
ADDRESS_SECONDS: Final = 3_600.0
"""Messages of one tenant to one address: ten at once, then one an hour. The address of an entry is unverified:
a stranger may have entered it, for many players."""

TOO_MANY_MESSAGES: Final = "too many messages to this address"

_SQL: Final = sql.load("challenges")


class AddressLimit:
    """Counts messages in the tenant's database, so that all processes share the limit."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    async def take(self, tenant_id: str, kind: str, address: str) -> bool:
        """Counts a message. False: the limit is reached. kind: email or phone."""
        rate = self._rate(tenant_id, kind, address)
        return await self._database.route(tenant_id).fetchval(_SQL["take_token"], *rate, ADDRESS_MOST) is not None

    async def give_back(self, tenant_id: str, kind: str, address: str) -> None:
        """Takes back the count of a message that was not sent: a retry counts once."""
        await self._database.route(tenant_id).execute(_SQL["return_token"], *self._rate(tenant_id, kind, address))

    def _rate(self, tenant_id: str, kind: str, address: str) -> tuple[str, str, float]:
        # Hashed: the rows do not reveal addresses.
        vault = vault_of(self._settings.code_keys)
        (fingerprint, *_) = vault.fingerprints(canonical(kind, address), f"messages/{tenant_id}")
        return tenant_id, f"messages:{fingerprint.hex()}", ADDRESS_SECONDS
