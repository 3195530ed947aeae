"""The RPC transport: game.v1 over gRPC (grpclib), server and client, and how a fault crosses it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from runtime.errors import Fault, Status

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""gRPC's own customary limit of a message."""

REASON_KEY: Final = "tombola-reason"
FAULT_KEY: Final = "tombola-fault-bin"
ACTOR_KEY: Final = "tombola-actor"
TRACE_KEY: Final = "traceparent"

_TEXT_SHOWN: Final = 1000


class _Carried(msgspec.Struct, array_like=True):
    """What of a fault gRPC's status and message have no place for."""

    reason: str
    facts: dict[str, Any]
    retry_after_seconds: float | None = None
    http_status: int | None = None


def to_metadata(fault: Fault) -> dict[str, str | bytes]:
    """A fault as trailing metadata: its reason for people, all of it for `from_metadata`."""
    carried = _Carried(fault.reason, fault.facts, fault.retry_after_seconds, fault.http_status)
    return {REASON_KEY: fault.reason, FAULT_KEY: msgspec.json.encode(carried)}


def from_metadata(status: Status, message: str, metadata: Any) -> Fault:
    """The fault that the other side raised, or one of this status where it carries none."""
    encoded = (metadata or {}).get(FAULT_KEY)
    try:
        carried = msgspec.json.decode(encoded, type=_Carried) if isinstance(encoded, bytes) else None
    except msgspec.MsgspecError:
        carried = None
    if carried is None:
        return Fault(status, status.name, message)
    return Fault(
        status,
        carried.reason,
        message,
        retry_after_seconds=carried.retry_after_seconds,
        http_status=carried.http_status,
        **carried.facts,
    )


def message_shown(fault: Fault) -> str:
    """The fault's sentence, short enough for a header."""
    return fault.message[:_TEXT_SHOWN]
