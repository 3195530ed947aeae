"""The remedy for each reason in refusals.py, for docs/reference/errors.md. Generation fails if one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.http.docs.refusals import REFUSALS

_RETRY: Final = "Retry after `Retry-After` with the same `Idempotency-Key`."
_UNKNOWN: Final = "Check the id and the tenant of the request."

REMEDIES: Final[Mapping[str, str]] = {
    "VALIDATION": "Correct the fields listed in `violations`.",
    "BAD_REQUEST": "Compare the request with the OpenAPI document.",
    "MALFORMED_REQUEST": "Send valid HTTP/1.1. Check whether a proxy alters the request.",
    "BODY_INCOMPLETE": "Send the whole body and retry.",
    "BODY_TOO_LARGE": "Send a smaller body, or split it over several requests.",
    "MESSAGE_TOO_LARGE": "Send a smaller message. If a list is too large, ask for it with a smaller `limit`.",
    "ENCODING_UNSUPPORTED": "Send the body uncompressed.",
    "CONTENT_TYPE_UNSUPPORTED": "Send JSON, or text or CSV if the route accepts it.",
    "EXPECTATION_FAILED": "Remove the `Expect` header.",
    "UNKNOWN_ROUTE": "Check the path. All paths begin with `/api/v1`.",
    "METHOD_NOT_ALLOWED": "Use a method listed in the `Allow` header.",
    "UNIMPLEMENTED": "Upgrade the service, or call another operation.",
    "INTERNAL": "Find `trace_id` in the service's log and report it.",
    "OVERLOADED": _RETRY,
    "STORE_UNAVAILABLE": f"{_RETRY} The request may have taken effect. Operators: check that Postgres is running and "
    "writable, has free connections (`DATABASE_POOL_SIZE`) and answers in time "
    "(`DATABASE_STATEMENT_TIMEOUT_SECONDS`). Valkey is not the cause.",
    "CORE_UNAVAILABLE": f"{_RETRY} Operators: check that Core is running.",
    "SENDER_UNAVAILABLE": "Retry later. Operators: check `LOGIN_SENDER` and the provider behind it.",
    "CODE_UNAVAILABLE": "Operators: restore the missing key in `CODE_KEYS`. Then claim again.",
    "NOT_READY": "Wait. Operators: check the stores listed in `failed_checks`.",
    "TOKEN_MISSING": "Send `Authorization: Bearer TOKEN`.",
    "TOKEN_INVALID": "Sign in again. A guest's token is invalid from about a second after the guest has signed in: "
    "use the player's.",
    "TOKEN_EXPIRED": "Refresh the token and resend the request.",
    "CODE_WRONG": "Ask the player to enter the code again.",
    "CODE_EXPIRED": "Send a new code.",
    "SIGNATURE_INVALID": "Sign the raw body with the secret and the current time. Call the URL exactly as received.",
    "ROLE_REQUIRED": "Use a token with one of `roles`.",
    "FORBIDDEN": "Use a token of the tenant's own staff, add the page's origin to `origins`, or add the host to "
    "`CORE_HOSTS`.",
    "SUSPENDED": "An admin can set the status back to active.",
    "SESSION_INVALID": "Start a session with the same token that plays it.",
    "TOO_MANY_TOKENS": "Delete unused API tokens.",
    "IDEMPOTENCY_MISMATCH": "Use a new key for each new request.",
    "IDEMPOTENCY_IN_PROGRESS": "Wait briefly, then retry with the same key.",
    "RATE_LIMITED": "Wait for `Retry-After`, then lower the request rate.",
    "CHALLENGE_EXISTS": "Use another id.",
    "LOGIN_EXISTS": "Use another id.",
    "RESEND_TOO_SOON": "Wait for `Retry-After`. The code that was already sent still works.",
    "GAME_INACTIVE": "Show that the game is paused. Staff: set its status to active.",
    "CAMPAIGN_CLOSED": "Show the start date, or that the campaign has ended. Staff: change its dates or status.",
    "CAP_USER": "Show that no plays are left. Staff: raise the limit.",
    "CAP_DAY": "Show when plays are available again: `resets_at`.",
    "ENTRY_REQUIRED": "Show the entry form (GET /campaigns/{id}/entry) and submit the `missing` parts.",
    "NOT_ELIGIBLE": "Tell the player why. Staff: check the entry form's minimum age, countries and limits.",
    "CONSENT_CHANGED": "Get the form again, show the new texts and ask again.",
    "NO_TURNS": "Show the quests that grant turns.",
    "SESSION_EXPIRED": "Start a new session.",
    "SESSION_PLAYED": "Start a new session. If the response was lost, repeat the play with its original key.",
    "GAME_CHANGED": "Start a new session.",
    "CAPTCHA_REQUIRED": "Solve `captcha` and send the entry again with the solution as `captcha`.",
    "ASSETS_UNAVAILABLE": "Retry. If it persists: check ASSETS_URL and its keys. The reason is in Core's log.",
    "CAPTCHA_UNAVAILABLE": "Retry. If it persists: check CAPTCHA_VERIFY_URL and CAPTCHA_SECRET.",
    "NO_ODDS": "For `score_to_tier`, set `tiers`. For a plugin, add `odds` to it (docs/how-to/plugins.md).",
    "NOT_IN_PLAN": "Send ids from the `drop_plan` of this session's start.",
    "IMPLAUSIBLE_SCORE": "Send the actual score and duration. Staff: check `max_score` and `max_score_per_second`.",
    "PLAYER_MERGED": "Discard the guest's token and use the player's. The edges answer so for about a second after the "
    "sign-in, later with `TOKEN_INVALID`; Core always answers so.",
    "LOGIN_REQUIRED": "Ask the player to sign in.",
    "THRESHOLD_NOT_REACHED": "Show how much is missing: `GET /games/{id}/milestones`.",
    "ALREADY_GRANTED": "Show the milestone as granted. Nothing was spent.",
    "ALREADY_CLAIMED": "Show the reward as claimed: `GET /rewards/me`.",
    "ALREADY_COMPLETED": "Show the quest as completed until the next period begins.",
    "REFERRAL_REFUSED": "Let the player play on; the invitation does not count.",
    "CONDITION_NOT_MET": "Show the player's progress: `GET /players/me/quests`.",
    "QUEST_CLOSED": "Staff: set the quest's status to active, or change its dates.",
    "NO_CONTACT": "Show the code (`POST /admin/rewards/{id}/reveal-code`) and pass it on in another way.",
    "NOT_RELEASED": "Offer to try again later.",
    "OUT_OF_STOCK": "Show that the prize is sold out. Staff: add stock or codes.",
    "INSUFFICIENT_BALANCE": "Deduct no more than the player's balance.",
    "CODE_USED": "Show that the code has been used. If `own` is true, the player has used it.",
    "CODE_ENDED": "Show that the code is no longer valid. Staff: change the pack's `until`.",
    "BALANCE_FULL": "Credit a smaller amount.",
    "CONTACT_TAKEN": "Sign in with that contact, or ask staff to merge the players.",
    "APPROVAL_NEEDED": "Ask another member of staff to approve the request.",
    "ODDS_NEED_APPROVAL": "Send that part as a separate request, and ask another member of staff to approve it.",
    "OWN_REQUEST": "Ask another member of staff to decide, or withdraw the request.",
    "STALE_REVISION": "Read the resource again and apply the change to the current revision.",
    "IN_USE": "First change or archive the resources listed in `used_by`.",
    "QUOTA_EXCEEDED": "Delete pictures that are not used, or raise `ASSET_QUOTA_BYTES`.",
    "SECRET_UNAVAILABLE": "Restore the missing key in `CODE_KEYS`, or set the secret again.",
    "FROZEN": "None: the campaign's players were promised it. Copy the campaign and change the copy.",
    "NOT_SETTLED": "Settle what `open` lists, or wait until the campaign is over for ARCHIVE_AFTER_DAYS.",
    "FILE_DIFFERS": "Write the dossier again. If the reason stays, look for deleted plays with `tombola audit`.",
    "CAMPAIGN_ARCHIVED": "Read the plays in that file, which the operator keeps.",
    "PLAY_ARCHIVED": "Ask the operator for the play's line in that file, which `tombola verify` checks.",
    "HAS_HISTORY": "Do what `message` says, such as to copy the campaign and change the copy.",
    "STOCK_BELOW_AWARDED": "Set a total of at least the number already awarded.",
    "ILLEGAL_TRANSITION": "Read the current status, and choose a change that it allows (docs/reference/api.md).",
    "BOARD_FINALIZED": "None: a finalized leaderboard cannot change.",
    "RANDOMNESS_KNOWN": "Set `randomness.at` to a later time, then close the draw.",
    "RANDOMNESS_PENDING": "Draw the winners at `available_at` or later.",
    "IMPORT_RUNNING": "Wait briefly, then send the same part again.",
    "NOT_IMPORTED": "Set `tickets.imported` of the open draw first.",
    "NO_ALTERNATE": "Draw more alternates next time; award this prize in another draw.",
    "DISQUALIFIED": "None: a disqualified player has no score to adjust.",
}


def markdown() -> str:
    """The table in docs/reference/errors.md."""
    named = {reason for reason in REFUSALS if not reason.startswith("UNKNOWN_") or reason == "UNKNOWN_ROUTE"}
    assert named == REMEDIES.keys(), f"reasons without a remedy, or the reverse: {named ^ REMEDIES.keys()}"
    rows = [
        f"| `{reason}` | {one.status.name} {one.http} | {one.cause} | {REMEDIES.get(reason, _UNKNOWN)} |"
        for reason, one in sorted(REFUSALS.items())
    ]
    return "\n".join(["| Reason | Status | Cause | Remedy |", "|---|---|---|---|", *rows]) + "\n"
