"""Idempotency keys: what is the same request, and what is said where it is not."""

from __future__ import annotations

from runtime.errors import Fault, Status


def mismatch() -> Fault:
    """An Idempotency-Key that was used with another request (contract.md, "Errors")."""
    return Fault(
        Status.INVALID_ARGUMENT,
        "IDEMPOTENCY_MISMATCH",
        "this Idempotency-Key was used with another request",
        http_status=422,
    )
