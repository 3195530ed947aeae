"""The RPC transport: game.v1 over gRPC (grpclib), the edges' own stream beside it, and how a fault crosses both."""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from runtime.errors import Fault, Status

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""gRPC's own customary limit of a message."""

REASON_KEY: Final = "tombola-reason"
FAULT_KEY: Final = "tombola-fault-bin"
ACTOR_KEY: Final = "tombola-actor"
TRACE_KEY: Final = "traceparent"
REPLAYED_KEY: Final = "idempotency-replayed"

_TEXT_SHOWN: Final = 1000


class Carried(msgspec.Struct, array_like=True):
    """What of a fault gRPC's status and message have no place for."""

    reason: str
    facts: dict[str, Any]
    retry_after_seconds: float | None = None
    http_status: int | None = None

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls(fault.reason, fault.facts, fault.retry_after_seconds, fault.http_status)


def made_fault(status: Status, message: str, carried: Carried) -> Fault:
    """The fault that the other side raised."""
    return Fault(
        status,
        carried.reason,
        message,
        retry_after_seconds=carried.retry_after_seconds,
        http_status=carried.http_status,
        **carried.facts,
    )


def to_metadata(fault: Fault) -> dict[str, str | bytes]:
    """A fault as trailing metadata: its reason for people, all of it as `Carried` in JSON."""
    return {REASON_KEY: fault.reason, FAULT_KEY: msgspec.json.encode(Carried.of(fault))}


def message_shown(fault: Fault) -> str:
    """The fault's sentence, short enough for a header."""
    return fault.message[:_TEXT_SHOWN]
