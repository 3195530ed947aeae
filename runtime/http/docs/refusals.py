"""Every reason for refusing a request, with its status and cause.

The OpenAPI documents and docs/reference/errors.md show this table. A test compares it with the faults that the code
raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.errors import HTTP_STATUS, Status
from runtime.operations import OPERATIONS, Operation


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason's status, its cause, an example of its facts, and its HTTP status if not the default of its status."""

    status: Status
    cause: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    http_status: int = 0

    @property
    def http(self) -> int:
        return self.http_status or HTTP_STATUS[self.status]


_BAD: Final = Status.INVALID_ARGUMENT
_LATER: Final = Status.UNAVAILABLE
_NOT_NOW: Final = Status.FAILED_PRECONDITION

_NAMED_IN_BODIES: Final = frozenset(
    {
        *("challenge", "code", "contact", "delivery", "entry", "milestone", "player", "referral", "tenant"),
    }
)
"""Kinds that no path names, but that a request may still fail to find."""

REFUSALS: Final[Mapping[str, Refusal]] = {
    # any request
    "VALIDATION": Refusal(
        _BAD,
        "`violations` lists every invalid field",
        {"violations": [{"field": "name", "description": "is required"}]},
    ),
    "BAD_REQUEST": Refusal(_BAD, "the request cannot be served"),
    "MALFORMED_REQUEST": Refusal(_BAD, "the request is not valid HTTP"),
    "BODY_INCOMPLETE": Refusal(_BAD, "the body did not arrive completely", http_status=408),
    "BODY_TOO_LARGE": Refusal(_BAD, "the body exceeds `limit_bytes`", {"limit_bytes": 262_144}, 413),
    "MESSAGE_TOO_LARGE": Refusal(_BAD, "an RPC message exceeds `limit_bytes`", {"limit_bytes": 4_194_304}, 413),
    "ENCODING_UNSUPPORTED": Refusal(_BAD, "compressed bodies and RPC messages are not accepted", http_status=415),
    "CONTENT_TYPE_UNSUPPORTED": Refusal(_BAD, "the route does not accept this content type", http_status=415),
    "EXPECTATION_FAILED": Refusal(_BAD, "only Expect: 100-continue is supported", http_status=417),
    "UNKNOWN_ROUTE": Refusal(Status.NOT_FOUND, "the path does not exist"),
    "METHOD_NOT_ALLOWED": Refusal(
        Status.UNIMPLEMENTED, "the path does not accept this method; see the Allow header", http_status=405
    ),
    "UNIMPLEMENTED": Refusal(Status.UNIMPLEMENTED, "this version does not have the operation"),
    "INTERNAL": Refusal(Status.INTERNAL, "an internal error, logged under `trace_id`"),
    "OVERLOADED": Refusal(_LATER, "too many requests are queued"),
    "STORE_UNAVAILABLE": Refusal(_LATER, "Postgres does not answer in time, or accepts no writes"),
    "CORE_UNAVAILABLE": Refusal(_LATER, "no replica of Core responds"),
    "SENDER_UNAVAILABLE": Refusal(_LATER, "the code could not be sent"),
    "CODE_UNAVAILABLE": Refusal(_LATER, "no configured key decrypts the reward's code; nothing was consumed"),
    "NOT_READY": Refusal(_LATER, "the stores in `failed_checks` do not respond", {"failed_checks": ["redis"]}),
    # authentication and authorization
    "TOKEN_MISSING": Refusal(Status.UNAUTHENTICATED, "a Bearer token is required"),
    "TOKEN_INVALID": Refusal(Status.UNAUTHENTICATED, "the token is not valid"),
    "TOKEN_EXPIRED": Refusal(Status.UNAUTHENTICATED, "the token has expired"),
    "CODE_WRONG": Refusal(
        Status.UNAUTHENTICATED, "the code is wrong; `attempts_left` attempts remain", {"attempts_left": 4}
    ),
    "CODE_EXPIRED": Refusal(Status.UNAUTHENTICATED, "the code has expired; request a new one"),
    "SIGNATURE_INVALID": Refusal(Status.UNAUTHENTICATED, "the callback has no valid signature"),
    "ROLE_REQUIRED": Refusal(Status.PERMISSION_DENIED, "requires one of `roles`", {"roles": ["admin", "designer"]}),
    "FORBIDDEN": Refusal(
        Status.PERMISSION_DENIED,
        "merchant staff may only read the tenant's own resources; or the page's origin is not allowed; or, on Core, "
        "the Host header is not allowed",
    ),
    "SUSPENDED": Refusal(
        Status.PERMISSION_DENIED,
        "the tenant, merchant or player named in `suspended` is suspended",
        {"suspended": "player"},
    ),
    "SESSION_INVALID": Refusal(Status.PERMISSION_DENIED, "the session is forged or belongs to another player"),
    "TOO_MANY_TOKENS": Refusal(_NOT_NOW, "the tenant has reached its limit of API tokens", {"limit": 1_000}),
    # idempotency and rate limits
    "IDEMPOTENCY_MISMATCH": Refusal(_BAD, "the key was used with another request", http_status=422),
    "IDEMPOTENCY_IN_PROGRESS": Refusal(Status.ABORTED, "a request with this key is still running"),
    "RATE_LIMITED": Refusal(
        Status.RESOURCE_EXHAUSTED, "the rate limit named in `policy` is exceeded", {"policy": "player"}
    ),
    "CHALLENGE_EXISTS": Refusal(Status.ALREADY_EXISTS, "a challenge with this id exists"),
    "LOGIN_EXISTS": Refusal(Status.ALREADY_EXISTS, "a login with this id exists"),
    "RESEND_TOO_SOON": Refusal(Status.RESOURCE_EXHAUSTED, "a code was sent moments ago"),
    # plays and rewards
    "GAME_INACTIVE": Refusal(_NOT_NOW, "the game is not active"),
    "CAMPAIGN_CLOSED": Refusal(_NOT_NOW, "the campaign has not started or has ended", {"closed_at": 1_767_225_600}),
    "CAP_USER": Refusal(
        _NOT_NOW,
        "the game's max_plays_per_user or the prize's max_per_user is reached",
        {"limit": 10, "resets_at": 0},
    ),
    "CAP_DAY": Refusal(
        _NOT_NOW,
        "today's free plays are used, or the prize's max_per_day is reached",
        {"limit": 2, "resets_at": 1_767_225_600},
    ),
    "ENTRY_REQUIRED": Refusal(
        _NOT_NOW,
        "the campaign requires a complete entry first; `missing` lists what it lacks",
        {"missing": ["fields.email", "consents.terms"]},
    ),
    "CAPTCHA_REQUIRED": Refusal(
        _NOT_NOW,
        "a new entry needs the solution of `captcha`, which has the fields of its kind",
        {"captcha": {"kind": "altcha", "algorithm": "SHA-256"}},
    ),
    "ASSETS_UNAVAILABLE": Refusal(_LATER, "the object storage of uploads does not answer, or is not configured"),
    "CAPTCHA_UNAVAILABLE": Refusal(_LATER, "the captcha's service does not answer, or is not configured"),
    "NOT_ELIGIBLE": Refusal(
        Status.PERMISSION_DENIED,
        "the player may not enter: `why.reason` is AGE, COUNTRY, MAX_ENTRIES, CONTACT, MAX_CONTACTS or THROWAWAY",
        {"why": {"reason": "AGE", "min_age": 18}},
    ),
    "CONSENT_CHANGED": Refusal(
        _NOT_NOW, "the texts of `consents` have changed since the player saw them", {"consents": ["terms"]}
    ),
    "NO_TURNS": Refusal(_NOT_NOW, "the play costs a turn, and the player has none", {"resets_at": 0}),
    "SESSION_EXPIRED": Refusal(_NOT_NOW, "the session has expired; start a new one"),
    "SESSION_PLAYED": Refusal(Status.ALREADY_EXISTS, "the session has already been played"),
    "GAME_CHANGED": Refusal(_NOT_NOW, "the game's terms changed after the session started; start a new one"),
    "NO_ODDS": Refusal(_NOT_NOW, "nothing says yet what a play of this game wins, which a forecast needs"),
    "NOT_IN_PLAN": Refusal(_BAD, "a caught item is not in the session's drop plan, or has not fallen yet"),
    "IMPLAUSIBLE_SCORE": Refusal(
        _BAD, "the score exceeds the game's limits, or its duration exceeds the time since the start"
    ),
    "PLAYER_MERGED": Refusal(Status.PERMISSION_DENIED, "this guest has signed in; use the player's token"),
    "LOGIN_REQUIRED": Refusal(Status.PERMISSION_DENIED, "guests are not admitted; the player must sign in"),
    "THRESHOLD_NOT_REACHED": Refusal(_NOT_NOW, "the balance is below the milestone's threshold"),
    "ALREADY_GRANTED": Refusal(Status.ALREADY_EXISTS, "the milestone has already been granted"),
    "ALREADY_CLAIMED": Refusal(Status.ALREADY_EXISTS, "the reward has already been claimed"),
    "ALREADY_COMPLETED": Refusal(Status.ALREADY_EXISTS, "the quest has already been completed in this period"),
    "CONDITION_NOT_MET": Refusal(_NOT_NOW, "the player has not met the quest's condition"),
    "REFERRAL_REFUSED": Refusal(
        _NOT_NOW,
        "the code cannot invite the player; `why` is OWN, PLAYED (in the campaign before) or INVITED (by another)",
        {"why": "PLAYED"},
    ),
    "QUEST_CLOSED": Refusal(_NOT_NOW, "the quest is not open"),
    "NO_CONTACT": Refusal(_NOT_NOW, "the player has no verified contact that LOGIN_SENDER reaches"),
    "OUT_OF_STOCK": Refusal(_NOT_NOW, "the prize is out of stock"),
    "NOT_RELEASED": Refusal(_NOT_NOW, "the prize's release schedule has no free unit yet"),
    "INSUFFICIENT_BALANCE": Refusal(_NOT_NOW, "the balance would become negative"),
    "CODE_USED": Refusal(Status.ALREADY_EXISTS, "the code has been used"),
    "CODE_ENDED": Refusal(_NOT_NOW, "the pack of the code has ended, or the code was withdrawn"),
    "BALANCE_FULL": Refusal(_NOT_NOW, "the balance would exceed the maximum"),
    "CONTACT_TAKEN": Refusal(Status.ALREADY_EXISTS, "the contact belongs to another player"),
    # administration
    "APPROVAL_NEEDED": Refusal(
        _NOT_NOW,
        "not executed yet: the request awaits a second person's approval (GET /admin/approvals/{id})",
        {"approval": {"id": "approval_01kgk3w4d8fzgs0v6ha2tn9c5b", "status": "APPROVAL_STATUS_WAITING"}},
        http_status=202,
    ),
    "ODDS_NEED_APPROVAL": Refusal(
        _NOT_NOW, "part of the change requires approval; send that part as a separate request"
    ),
    "OWN_REQUEST": Refusal(Status.PERMISSION_DENIED, "the requester cannot decide their own request"),
    "STALE_REVISION": Refusal(Status.ABORTED, "a concurrent update changed the resource", {"revision": 7}),
    "IN_USE": Refusal(
        _NOT_NOW,
        "the active resources in `used_by` refer to it",
        {"used_by": [{"type": "game", "id": "game_01k0", "name": "Spin to win"}]},
    ),
    "QUOTA_EXCEEDED": Refusal(
        _NOT_NOW, "the tenant's pictures and fonts would exceed ASSET_QUOTA_BYTES", {"quota_bytes": 104_857_600}
    ),
    "SECRET_UNAVAILABLE": Refusal(_NOT_NOW, "no key in CODE_KEYS decrypts the receiver's secret"),
    "FROZEN": Refusal(
        _NOT_NOW,
        "the campaign is frozen and was launched: `field` cannot change, or only grow",
        {"campaign_id": "camp_1", "field": "handler_config"},
    ),
    "NOT_SETTLED": Refusal(
        _NOT_NOW,
        "the campaign cannot be archived while what `open` lists is not settled",
        {"open": ["draws", "rewards"]},
    ),
    "FILE_DIFFERS": Refusal(_NOT_NOW, "the file does not have exactly the campaign's plays that are in the log"),
    "CAMPAIGN_ARCHIVED": Refusal(
        _NOT_NOW,
        "the campaign's plays were archived in the file with this SHA-256, and deleted",
        {"campaign_id": "camp_1", "file_sha256": "9f86d081884c7d65..."},
    ),
    "PLAY_ARCHIVED": Refusal(
        Status.NOT_FOUND,
        "the play was archived with its campaign, in the file with this SHA-256, and deleted",
        {"campaign_id": "camp_1", "file_sha256": "9f86d081884c7d65..."},
    ),
    "HAS_HISTORY": Refusal(
        _NOT_NOW,
        "after the first play, wallet scope, merchant, currency, or a type of points or turns cannot change; nor can"
        " a channel that undelivered rewards rely on, a merchant whose wallet a pack or open draw uses,"
        " or the campaign of a completed quest. `field` is the one that cannot",
        {"field": "wallet_scope"},
    ),
    "STOCK_BELOW_AWARDED": Refusal(_NOT_NOW, "the total would be below the number already awarded"),
    "ILLEGAL_TRANSITION": Refusal(_NOT_NOW, "the current status does not allow this transition"),
    "BOARD_FINALIZED": Refusal(_NOT_NOW, "the leaderboard is finalized"),
    "RANDOMNESS_KNOWN": Refusal(_NOT_NOW, "the draw's random value may be known before its tickets are frozen"),
    "RANDOMNESS_PENDING": Refusal(
        _NOT_NOW, "the draw's random value cannot be known before `available_at`", {"available_at": 1_767_225_600}
    ),
    "IMPORT_RUNNING": Refusal(Status.ABORTED, "another request changes the draw's tickets at the same time"),
    "NOT_IMPORTED": Refusal(_NOT_NOW, "the draw's tickets come from elsewhere, not from an imported list"),
    "NO_ALTERNATE": Refusal(_NOT_NOW, "the draw has no alternate left"),
    "DISQUALIFIED": Refusal(_NOT_NOW, "the player is disqualified from this leaderboard"),
    # the log; the same for a tenant that does not exist
    "UNKNOWN_LOG": Refusal(Status.NOT_FOUND, "there is no log, or it has no checkpoint yet"),
    "UNKNOWN_STAMP": Refusal(Status.NOT_FOUND, "there is no log, or no authority has stamped it yet"),
    "UNKNOWN_TILE": Refusal(Status.NOT_FOUND, "there is no such tile, or the log has not grown so far yet"),
    **{
        f"UNKNOWN_{kind.upper()}": Refusal(Status.NOT_FOUND, f"the {kind} does not exist, or belongs to another tenant")
        for kind in sorted({row.subject for row in OPERATIONS if row.subject} | _NAMED_IN_BODIES)
    },
}

ALWAYS: Final = ("VALIDATION", "INTERNAL", "OVERLOADED", "STORE_UNAVAILABLE")
WITH_BODY: Final = ("BODY_INCOMPLETE", "BODY_TOO_LARGE", "CONTENT_TYPE_UNSUPPORTED", "ENCODING_UNSUPPORTED")
OF_EDGES: Final = ("RATE_LIMITED", "CORE_UNAVAILABLE", "UNKNOWN_TENANT")
TOKENS: Final = ("TOKEN_INVALID", "TOKEN_EXPIRED")


def reasons_of(operation: Operation) -> list[str]:
    """The reasons for which Core itself refuses an operation. Surfaces add their own."""
    found = [*ALWAYS, *(WITH_BODY if operation.has_body else ()), *operation.refusals]
    if operation.subject:
        found.append(f"UNKNOWN_{operation.subject.upper()}")
    if operation.invalidates_cache:
        found.append("UNKNOWN_TENANT")
    if operation.admin is not None and operation.scoped and operation.verb != "GET" and not operation.admin.signed:
        found.append("FORBIDDEN")
    if operation.refused_while_suspended:
        found.append("SUSPENDED")
    if operation.keyed:
        found.append("IDEMPOTENCY_MISMATCH")
    return found


def by_http(reasons: Iterable[str]) -> dict[int, list[str]]:
    """Groups reasons by HTTP status: statuses ascending, reasons in the given order."""
    found: dict[int, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        found.setdefault(REFUSALS[reason].http, []).append(reason)
    return dict(sorted(found.items()))
