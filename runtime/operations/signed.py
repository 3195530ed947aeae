"""Verifies signed callbacks with the stored secrets, and gives one uniform refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.outgoing.signing import ID, SIGNATURE, TIMESTAMP, SignatureRefused, verify
from runtime.outgoing.vault import VaultError, vault_of


def signers(engine: Engine, request: m.VerifyCallbackRequest, config: Mapping[str, Any], context: str) -> Sequence[str]:
    """The secrets of a stored config. Raises SignatureRefused unless one of them signed the request, within the
    tolerance of the database's time.
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
    """UNAUTHENTICATED SIGNATURE_INVALID. The same for every cause, so that a forger learns nothing."""
    message = "no signature of this callback verifies: check the secret, the raw body, the URL and the time"
    return Fault(Status.UNAUTHENTICATED, "SIGNATURE_INVALID", message)
