"""What to do about each reason of refusals.py, for docs/reference/errors.md. The page fails where one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.http.docs.refusals import REFUSALS

_RETRY: Final = "Try again after `Retry-After`, with the same `Idempotency-Key`."
_UNKNOWN: Final = "Check the id, and that the request is of the right tenant."

REMEDIES: Final[Mapping[str, str]] = {
    "VALIDATION": "Correct the fields that `violations` name.",
    "BAD_REQUEST": "Compare the request with the API's document.",
    "MALFORMED_REQUEST": "Send HTTP/1.1. A proxy in between may have changed the request.",
    "BODY_INCOMPLETE": "Send the whole body, and try again.",
    "BODY_TOO_LARGE": "Send less, or in several requests.",
    "ENCODING_UNSUPPORTED": "Send the body uncompressed.",
    "CONTENT_TYPE_UNSUPPORTED": "Send JSON, or text or CSV where the route takes it.",
    "EXPECTATION_FAILED": "Leave the header `Expect` out.",
    "UNKNOWN_ROUTE": "Check the path. All begin with `/api/v1`.",
    "METHOD_NOT_ALLOWED": "Use a method that the header `Allow` names.",
    "UNIMPLEMENTED": "Upgrade the service, or call another operation.",
    "INTERNAL": "Look for `trace_id` in the service's log, and report it.",
    "OVERLOADED": _RETRY,
    "STORE_UNAVAILABLE": f"{_RETRY} Operators: look at Postgres and Valkey.",
    "CORE_UNAVAILABLE": f"{_RETRY} Operators: look whether Core runs.",
    "SENDER_UNAVAILABLE": "Try again later. Operators: look at `LOGIN_SENDER` and what it sends through.",
    "CODE_UNAVAILABLE": "Operators: put the missing key back into `CODE_KEYS`. Then claim again.",
    "NOT_READY": "Wait. Operators: look at the stores that `failed_checks` names.",
    "TOKEN_MISSING": "Send `Authorization: Bearer TOKEN`.",
    "TOKEN_INVALID": "Sign in again. A guest's token ends when the guest signs in.",
    "TOKEN_EXPIRED": "Refresh the token, and send the request again.",
    "CODE_WRONG": "Let the player type the code again.",
    "CODE_EXPIRED": "Send a new code.",
    "SIGNATURE_INVALID": "Sign the raw body with the secret, now, and call the URL as it was given.",
    "ROLE_REQUIRED": "Use a token with one of `roles`.",
    "FORBIDDEN": "Let the tenant's own staff do it; add the page's origin to `origins`; add the host to `CORE_HOSTS`.",
    "SUSPENDED": "An admin can set the status to active again.",
    "SESSION_INVALID": "Start a session with the token that plays it.",
    "TOO_MANY_TOKENS": "Delete API tokens that nobody uses.",
    "IDEMPOTENCY_MISMATCH": "Take a new key for another request.",
    "IDEMPOTENCY_IN_PROGRESS": "Wait a moment, and try again with the same key.",
    "RATE_LIMITED": "Wait for `Retry-After`, and send less.",
    "CHALLENGE_EXISTS": "Take another id.",
    "LOGIN_EXISTS": "Take another id.",
    "RESEND_TOO_SOON": "Wait for `Retry-After`, and let the player use the code that was sent.",
    "GAME_INACTIVE": "Show that the game is paused. Staff: set its status to active.",
    "CAMPAIGN_CLOSED": "Show when it begins, or that it is over. Staff: change the campaign's dates or status.",
    "CAP_USER": "Show that no play is left. Staff: raise the limit.",
    "CAP_DAY": "Show when plays come back: `resets_at`.",
    "NO_TURNS": "Show the quests that give turns.",
    "SESSION_EXPIRED": "Start another session.",
    "SESSION_PLAYED": "Start another session. If an answer was lost, repeat the play with its own key.",
    "GAME_CHANGED": "Start another session.",
    "NOT_IN_PLAN": "Send ids of the `drop_plan` of this session's start.",
    "IMPLAUSIBLE_SCORE": "Send what was reached, in the time that passed. Staff: check `max_score` and its kin.",
    "PLAYER_MERGED": "Drop the guest's token, and use the player's.",
    "LOGIN_REQUIRED": "Let the player sign in.",
    "THRESHOLD_NOT_REACHED": "Show how much is missing: `GET /games/{id}/milestones`.",
    "ALREADY_GRANTED": "Show it as granted. Nothing was spent.",
    "ALREADY_CLAIMED": "Show it as claimed: `GET /rewards/me`.",
    "ALREADY_COMPLETED": "Show it as done until the next day or week.",
    "CONDITION_NOT_MET": "Show how far the player is: `GET /players/me/quests`.",
    "QUEST_CLOSED": "Staff: set the quest's status to active, or change its dates.",
    "OUT_OF_STOCK": "Show that the prize is gone. Staff: add stock or codes.",
    "INSUFFICIENT_BALANCE": "Take away no more than the player has.",
    "BALANCE_FULL": "Credit less.",
    "CONTACT_TAKEN": "Sign in by that contact instead, or let staff merge the players.",
    "APPROVAL_NEEDED": "Let another person approve it.",
    "ODDS_NEED_APPROVAL": "Change that part by itself, and let another person approve it.",
    "OWN_REQUEST": "Let another person decide, or withdraw it.",
    "STALE_REVISION": "Read it again, and make the change to what is there now.",
    "IN_USE": "Change or archive what `used_by` names first.",
    "SECRET_UNAVAILABLE": "Put the missing key back into `CODE_KEYS`, or give the secret anew.",
    "HAS_HISTORY": "Copy the campaign, and change the copy.",
    "STOCK_BELOW_AWARDED": "Set a total of at least what is awarded.",
    "ILLEGAL_TRANSITION": "Read its status. The page on it says what may follow.",
    "BOARD_FINALIZED": "Nothing: a finalized board stays as it is.",
    "DISQUALIFIED": "Nothing: a disqualified player has no score to adjust.",
}


def markdown() -> str:
    """The table of docs/reference/errors.md."""
    named = {reason for reason in REFUSALS if not reason.startswith("UNKNOWN_") or reason == "UNKNOWN_ROUTE"}
    assert named == REMEDIES.keys(), f"reasons without a remedy, or the reverse: {named ^ REMEDIES.keys()}"
    rows = [
        f"| `{reason}` | {one.status.name} {one.http} | {one.means} | {REMEDIES.get(reason, _UNKNOWN)} |"
        for reason, one in sorted(REFUSALS.items())
    ]
    return "\n".join(["| Reason | Status | Cause | Remedy |", "|---|---|---|---|", *rows]) + "\n"
