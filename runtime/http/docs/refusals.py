"""Every reason for which a request is refused, and what it means (contract.md, "Errors").

The OpenAPI documents show this table; a test holds it to the faults that the code raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.errors import HTTP_STATUS, Status
from runtime.operations import OPERATIONS, Operation


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason's status, what it means, its further facts (an example of them), and its HTTP status."""

    status: Status
    means: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    http_status: int = 0

    @property
    def http(self) -> int:
        return self.http_status or HTTP_STATUS[self.status]


_BAD: Final = Status.INVALID_ARGUMENT
_LATER: Final = Status.UNAVAILABLE
_NOT_NOW: Final = Status.FAILED_PRECONDITION

_NAMED_IN_BODIES: Final = frozenset({"challenge", "code", "contact", "delivery", "milestone", "player", "tenant"})
"""What no path names, and is looked for all the same."""

REFUSALS: Final[Mapping[str, Refusal]] = {
    # what anybody may meet, wherever
    "VALIDATION": Refusal(
        _BAD, "`violations` name every wrong field", {"violations": [{"field": "name", "description": "is required"}]}
    ),
    "BAD_REQUEST": Refusal(_BAD, "the request cannot be served"),
    "MALFORMED_REQUEST": Refusal(_BAD, "this is not HTTP, as far as can be told"),
    "BODY_INCOMPLETE": Refusal(_BAD, "the body stopped arriving", http_status=408),
    "BODY_TOO_LARGE": Refusal(_BAD, "the body exceeds `limit_bytes`", {"limit_bytes": 262_144}, 413),
    "ENCODING_UNSUPPORTED": Refusal(_BAD, "compressed bodies are not taken", http_status=415),
    "CONTENT_TYPE_UNSUPPORTED": Refusal(_BAD, "the body is of a type that is not read here", http_status=415),
    "EXPECTATION_FAILED": Refusal(_BAD, "only Expect: 100-continue is known", http_status=417),
    "UNKNOWN_ROUTE": Refusal(Status.NOT_FOUND, "there is no such path"),
    "METHOD_NOT_ALLOWED": Refusal(
        Status.UNIMPLEMENTED, "the path has other methods: see the header Allow", http_status=405
    ),
    "UNIMPLEMENTED": Refusal(Status.UNIMPLEMENTED, "this version does not have the operation"),
    "INTERNAL": Refusal(Status.INTERNAL, "an error of ours; `trace_id` names it in the log"),
    "OVERLOADED": Refusal(_LATER, "too much is waiting already"),
    "STORE_UNAVAILABLE": Refusal(_LATER, "a store that is needed here does not answer"),
    "CORE_UNAVAILABLE": Refusal(_LATER, "no replica of Core answers"),
    "SENDER_UNAVAILABLE": Refusal(_LATER, "the code could not be sent"),
    "CODE_UNAVAILABLE": Refusal(_LATER, "no key opens the reward's code now; nothing was used up"),
    "NOT_READY": Refusal(_LATER, "`failed_checks` did not answer", {"failed_checks": ["redis"]}),
    # who asks
    "TOKEN_MISSING": Refusal(Status.UNAUTHENTICATED, "a Bearer token is needed"),
    "TOKEN_INVALID": Refusal(Status.UNAUTHENTICATED, "the token is not one of ours"),
    "TOKEN_EXPIRED": Refusal(Status.UNAUTHENTICATED, "the token has expired"),
    "CODE_WRONG": Refusal(Status.UNAUTHENTICATED, "`attempts_left` more are taken", {"attempts_left": 4}),
    "CODE_EXPIRED": Refusal(Status.UNAUTHENTICATED, "the code has expired; ask for another"),
    "SIGNATURE_INVALID": Refusal(Status.UNAUTHENTICATED, "no signature of this callback verifies"),
    "ROLE_REQUIRED": Refusal(Status.PERMISSION_DENIED, "needs one of `roles`", {"roles": ["admin", "designer"]}),
    "FORBIDDEN": Refusal(
        Status.PERMISSION_DENIED,
        "the tenant's, which a merchant's staff only reads; a page of an origin that is not allowed; on Core, also a "
        "Host that is none of its names",
    ),
    "SUSPENDED": Refusal(
        Status.PERMISSION_DENIED, "`suspended` is: the tenant, the merchant or the player", {"suspended": "player"}
    ),
    "SESSION_INVALID": Refusal(Status.PERMISSION_DENIED, "the session is forged, or another's"),
    "TOO_MANY_TOKENS": Refusal(_NOT_NOW, "the tenant has as many API tokens as it may", {"limit": 1_000}),
    # repeats and rates
    "IDEMPOTENCY_MISMATCH": Refusal(_BAD, "the key was used with another request", http_status=422),
    "IDEMPOTENCY_IN_PROGRESS": Refusal(Status.ABORTED, "a request with this key is still running"),
    "RATE_LIMITED": Refusal(Status.RESOURCE_EXHAUSTED, "too many requests for this `policy`", {"policy": "player"}),
    "CHALLENGE_EXISTS": Refusal(Status.ALREADY_EXISTS, "there is a challenge of this id"),
    "LOGIN_EXISTS": Refusal(Status.ALREADY_EXISTS, "there is a login of this id"),
    "RESEND_TOO_SOON": Refusal(Status.RESOURCE_EXHAUSTED, "a code was sent a moment ago"),
    # what is played
    "GAME_INACTIVE": Refusal(_NOT_NOW, "the game is not active"),
    "CAMPAIGN_CLOSED": Refusal(_NOT_NOW, "the campaign has not begun or is over", {"closed_at": 1_767_225_600}),
    "CAP_USER": Refusal(
        _NOT_NOW, "max_plays_per_user are used, or the prize's max_per_user", {"limit": 10, "resets_at": 0}
    ),
    "CAP_DAY": Refusal(
        _NOT_NOW, "today's free plays are used, or the prize's max_per_day", {"limit": 2, "resets_at": 1_767_225_600}
    ),
    "NO_TURNS": Refusal(_NOT_NOW, "a play needs a turn, and there is none", {"resets_at": 0}),
    "SESSION_EXPIRED": Refusal(_NOT_NOW, "the session's time is over; start another"),
    "SESSION_PLAYED": Refusal(Status.ALREADY_EXISTS, "the session was played already"),
    "GAME_CHANGED": Refusal(_NOT_NOW, "what decides was changed after the session began: start another"),
    "NOT_IN_PLAN": Refusal(_BAD, "a caught item is not of the session's plan, or has not fallen yet"),
    "IMPLAUSIBLE_SCORE": Refusal(_BAD, "the score is above the game's limits, or its time longer than there was"),
    "PLAYER_MERGED": Refusal(Status.PERMISSION_DENIED, "this guest has logged in; use the player's token"),
    "LOGIN_REQUIRED": Refusal(Status.PERMISSION_DENIED, "this is for players who have logged in, and no guests"),
    "THRESHOLD_NOT_REACHED": Refusal(_NOT_NOW, "the balance is below the rung's threshold"),
    "ALREADY_GRANTED": Refusal(Status.ALREADY_EXISTS, "the rung was granted already"),
    "ALREADY_CLAIMED": Refusal(Status.ALREADY_EXISTS, "the reward was claimed already"),
    "ALREADY_COMPLETED": Refusal(Status.ALREADY_EXISTS, "the quest was completed in this period"),
    "CONDITION_NOT_MET": Refusal(_NOT_NOW, "the player has not done as much as the quest takes"),
    "QUEST_CLOSED": Refusal(_NOT_NOW, "the quest is not open"),
    "OUT_OF_STOCK": Refusal(_NOT_NOW, "nothing is left of the prize"),
    "INSUFFICIENT_BALANCE": Refusal(_NOT_NOW, "the balance would be negative"),
    "BALANCE_FULL": Refusal(_NOT_NOW, "the balance would be more than a balance can hold"),
    "CONTACT_TAKEN": Refusal(Status.ALREADY_EXISTS, "the contact is another player's"),
    # what is managed
    "APPROVAL_NEEDED": Refusal(
        _NOT_NOW,
        "nothing is done yet: it waits for a second person (GET /admin/approvals/{id})",
        {"approval": {"id": "approval_01kgk3w4d8fzgs0v6ha2tn9c5b", "status": "APPROVAL_STATUS_WAITING"}},
        http_status=202,
    ),
    "ODDS_NEED_APPROVAL": Refusal(_NOT_NOW, "a part of it waits for a second person: ask for that by itself"),
    "OWN_REQUEST": Refusal(Status.PERMISSION_DENIED, "another person than who asked for it decides it"),
    "STALE_REVISION": Refusal(Status.ABORTED, "it was changed meanwhile: read it again", {"revision": 7}),
    "IN_USE": Refusal(_NOT_NOW, "something live names it", {"used_by": [{"type": "game", "id": "game_01k0"}]}),
    "SECRET_UNAVAILABLE": Refusal(_NOT_NOW, "no key of CODE_KEYS opens what is sealed of a receiver"),
    "HAS_HISTORY": Refusal(_NOT_NOW, "it was played: its wallets' scope, merchant and currency stay"),
    "STOCK_BELOW_AWARDED": Refusal(_NOT_NOW, "more than that is awarded already"),
    "ILLEGAL_TRANSITION": Refusal(_NOT_NOW, "its present state does not allow this"),
    "BOARD_FINALIZED": Refusal(_NOT_NOW, "the leaderboard is finalized"),
    "DISQUALIFIED": Refusal(_NOT_NOW, "the player is out of this leaderboard"),
    **{
        f"UNKNOWN_{kind.upper()}": Refusal(Status.NOT_FOUND, f"there is no such {kind} (or it is another tenant's)")
        for kind in sorted({row.subject for row in OPERATIONS if row.subject} | _NAMED_IN_BODIES)
    },
}

ALWAYS: Final = ("VALIDATION", "INTERNAL", "OVERLOADED", "STORE_UNAVAILABLE")
WITH_BODY: Final = ("BODY_INCOMPLETE", "BODY_TOO_LARGE", "CONTENT_TYPE_UNSUPPORTED", "ENCODING_UNSUPPORTED")
OF_EDGES: Final = ("RATE_LIMITED", "CORE_UNAVAILABLE", "UNKNOWN_TENANT")
TOKENS: Final = ("TOKEN_INVALID", "TOKEN_EXPIRED")


def reasons_of(operation: Operation) -> list[str]:
    """The reasons for which Core refuses an operation, whatever the surface adds."""
    found = [*ALWAYS, *(WITH_BODY if operation.has_body else ()), *operation.refusals]
    if operation.subject:
        found.append(f"UNKNOWN_{operation.subject.upper()}")
    if operation.stales:
        found.append("UNKNOWN_TENANT")
    if operation.admin is not None and operation.scoped and operation.verb != "GET" and not operation.admin.signed:
        found.append("FORBIDDEN")
    if operation.suspends:
        found.append("SUSPENDED")
    if operation.keyed:
        found.append("IDEMPOTENCY_MISMATCH")
    return found


def by_http(reasons: Iterable[str]) -> dict[int, list[str]]:
    """Reasons by their HTTP status, both in order."""
    found: dict[int, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        found.setdefault(REFUSALS[reason].http, []).append(reason)
    return dict(sorted(found.items()))
