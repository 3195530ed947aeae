"""Login codes that may be sent: to a contact, and for an address, over all tenants.

Whose phone rings does not depend on which tenant a stranger claims to log in to, so neither does the limit.
"""

from __future__ import annotations

import hashlib
from typing import Final

from runtime.http.admission.control import AdmissionControl
from runtime.http.admission.rates import Limited, Policy
from runtime.stores.ephemeral import Ephemeral

CONTACT: Final = Policy("contact", per_second=10 / 3600, burst=10)
ADDRESS: Final = Policy("login_ip", per_second=300 / 3600, burst=300)

_OF_ALL_TENANTS: Final = "tombola:login"


class Sends:
    """Counts what is sent. Without the store nothing is limited here: each tenant's own limits still hold."""

    def __init__(self, store: Ephemeral, secret: str) -> None:
        self._control = AdmissionControl(store, player=CONTACT, ip=ADDRESS)
        self._key = hashlib.blake2b(secret.encode(), digest_size=32, person=b"login sends").digest()

    async def admit(self, contact: str, ip: str) -> None:
        """Charges one code to `contact` (`phone:+15550100`) and to the address. Raises RATE_LIMITED."""
        # A contact appears in a key as its keyed hash alone.
        digest = hashlib.blake2b(contact.encode(), key=self._key, digest_size=16).hexdigest()
        admission = await self._control.admit(_OF_ALL_TENANTS, player_id=digest, ip=f"login:{ip}")
        if isinstance(admission, Limited):
            raise admission.fault()
