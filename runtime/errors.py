"""Faults: the only way to refuse a request, with a status, a reason, a message and facts.

An actor raises `Fault`; it never knows HTTP or RPC. The edges and the RPC server turn a fault into their own form:
the envelope's `code` is the status' name, and the HTTP status follows the google.rpc mapping unless the fault sets
its own (413, 422).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final


class Status(IntEnum):
    """The canonical gRPC status codes (google.rpc.Code)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


HTTP_STATUS: Final[dict[Status, int]] = {
    Status.OK: 200,
    Status.CANCELLED: 499,
    Status.UNKNOWN: 500,
    Status.INVALID_ARGUMENT: 400,
    Status.DEADLINE_EXCEEDED: 504,
    Status.NOT_FOUND: 404,
    Status.ALREADY_EXISTS: 409,
    Status.PERMISSION_DENIED: 403,
    Status.RESOURCE_EXHAUSTED: 429,
    Status.FAILED_PRECONDITION: 400,
    Status.ABORTED: 409,
    Status.OUT_OF_RANGE: 400,
    Status.UNIMPLEMENTED: 501,
    Status.INTERNAL: 500,
    Status.UNAVAILABLE: 503,
    Status.DATA_LOSS: 500,
    Status.UNAUTHENTICATED: 401,
}
"""The HTTP mapping of google/rpc/code.proto."""


BALANCE_MAX: Final = 2**63 - 1

SHOWN_CHARACTERS_MAX: Final = 128
"""The characters of an unknown id that a message repeats."""


class Fault(Exception):
    """A refusal that is returned to the caller.

    `facts` go into the envelope's `data` next to `reason`; `retry_after_seconds` becomes the Retry-After header;
    `http_status` overrides the mapping.
    """

    __slots__ = ("status", "reason", "message", "facts", "retry_after_seconds", "http_status")

    def __init__(
        self,
        status: Status,
        reason: str,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        http_status: int | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(f"{status.name} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.facts = facts
        self.retry_after_seconds = retry_after_seconds
        self.http_status = http_status

    @property
    def http(self) -> int:
        """The HTTP status of this fault."""
        return self.http_status or HTTP_STATUS[self.status]

    @property
    def data(self) -> dict[str, Any]:
        """The envelope's `data`: the reason and the facts."""
        return {"reason": self.reason, **self.facts}


def invalid(field: str, description: str) -> Fault:
    """INVALID_ARGUMENT for one field (`handler_config.prizes[2].probability`)."""
    return violations([(field, description)])


def violations(found: Iterable[tuple[str, str]]) -> Fault:
    """INVALID_ARGUMENT for several fields, as (field, description)."""
    rows = [{"field": field, "description": description} for field, description in found]
    return Fault(
        Status.INVALID_ARGUMENT,
        "VALIDATION",
        "; ".join(f"{row['field']}: {row['description']}" if row["field"] else row["description"] for row in rows),
        violations=rows,
    )


class BalanceFull(Fault):
    """FAILED_PRECONDITION BALANCE_FULL: a balance of points or items would exceed the maximum."""

    def __init__(self, currency: str) -> None:
        message = f"the balance of {currency} would exceed its maximum of {BALANCE_MAX}"
        super().__init__(Status.FAILED_PRECONDITION, "BALANCE_FULL", message, currency=currency)


def suspended(kind: str) -> Fault:
    """PERMISSION_DENIED: the caller's tenant, merchant or player (`kind`) is suspended."""
    return Fault(Status.PERMISSION_DENIED, "SUSPENDED", f"the {kind} is suspended", suspended=kind)


def forbidden(kind: str, identifier: str) -> Fault:
    """PERMISSION_DENIED: a merchant's staff may read the tenant's own resources, but not write them."""
    named = kind.lower().replace("_", " ")
    return Fault(
        Status.PERMISSION_DENIED, "FORBIDDEN", f"{named} {identifier!r} belongs to the tenant, not the merchant"
    )


def unknown(kind: str, identifier: str) -> Fault:
    """NOT_FOUND. Also returned for resources of another tenant or merchant, so that ids cannot be probed."""
    named = kind.lower().replace("_", " ")
    shown = identifier[:SHOWN_CHARACTERS_MAX]
    return Fault(Status.NOT_FOUND, f"UNKNOWN_{kind.upper()}", f"there is no {named} {shown!r}")


def merged() -> Fault:
    """PERMISSION_DENIED: the guest has logged in and is now a player, whom a guest's token must not access."""
    return Fault(Status.PERMISSION_DENIED, "PLAYER_MERGED", "this guest has logged in; use the player's token")
