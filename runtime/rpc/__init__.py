"""The RPC transport: game.v1 over gRPC (grpclib), the edges' own protocol, and the encoding of faults in both."""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from runtime.errors import Fault, Status

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""gRPC's usual message size limit."""

REASON_KEY: Final = "tombola-reason"
FAULT_KEY: Final = "tombola-fault-bin"
ACTOR_KEY: Final = "tombola-actor"
TRACE_KEY: Final = "traceparent"
REPLAYED_KEY: Final = "idempotency-replayed"

_TEXT_SHOWN: Final = 1000


class Carried(msgspec.Struct, array_like=True):
    """The parts of a fault that gRPC's status and message cannot express."""

    reason: str
    facts: dict[str, Any]
    retry_after_seconds: float | None = None
    http_status: int | None = None

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls(fault.reason, fault.facts, fault.retry_after_seconds, fault.http_status)


def made_fault(status: Status, message: str, carried: Carried) -> Fault:
    """Rebuilds the fault that the other side raised."""
    return Fault(
        status,
        carried.reason,
        message,
        retry_after_seconds=carried.retry_after_seconds,
        http_status=carried.http_status,
        **carried.facts,
    )


def to_metadata(fault: Fault) -> dict[str, str | bytes]:
    """A fault as trailing metadata: its reason as text, and `Carried` as JSON."""
    return {REASON_KEY: fault.reason, FAULT_KEY: msgspec.json.encode(Carried.of(fault))}


def header_message(fault: Fault) -> str:
    """The fault's message, truncated to fit a header."""
    return fault.message[:_TEXT_SHOWN]
