"""What comes in signed: whether one of the secrets that are kept for it signed it, and the one answer if not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.outgoing.signing import ID, SIGNATURE, TIMESTAMP, SignatureRefused, verify
from runtime.outgoing.vault import VaultError, vault_of


def signers(engine: Engine, request: m.VerifyCallbackRequest, config: Mapping[str, Any], context: str) -> Sequence[str]:
    """The secrets of a stored config, one of which signed the request, within the tolerance of the database's time.

    Raises SignatureRefused.
    """
    headers = {
        ID: request.webhook_id,
        TIMESTAMP: request.webhook_timestamp,
        SIGNATURE: request.webhook_signature,
    }
    try:
        secrets = vault_of(engine.keyring.code).secrets_of(config, context)
        verify(secrets, headers, request.body.encode(), engine.clock.now())
    except (VaultError, ValueError) as error:
        raise SignatureRefused(str(error)) from None
    return secrets


def not_signed() -> Fault:
    """UNAUTHENTICATED SIGNATURE_INVALID: whatever is wrong with a message, its sender is told no more than this."""
    return Fault(Status.UNAUTHENTICATED, "SIGNATURE_INVALID", "no signature of this callback verifies")
