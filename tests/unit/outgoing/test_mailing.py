from typing import Any, Final

import pytest

from runtime.actors.mailing import _why_not

FACTS: Final[dict[str, Any]] = {"email": "ann@example.com", "status": "won", "unsubscribed": ["code_delivered"]}
UNKNOWN: Final[dict[str, Any]] = {"is_erased": False, "is_suspended": False, "draw_status": "", "ciphertext": None}


@pytest.mark.parametrize(
    ("kind", "changed", "why"),
    [
        *(("won", {}, ""), ("won", {"status": "claimed"}, ""), ("reminder", {}, "")),
        ("reminder", {"status": "claimed"}, "the reward is claimed"),
        *(("won", {"status": gone}, f"the reward is {gone}") for gone in ("expired", "revoked", "failed")),
        ("won", {"is_erased": True}, "the player was erased"),
        ("won", {"is_suspended": True}, "the player is suspended"),
        ("won", {"email": ""}, "the player has no e-mail address"),
        ("code_delivered", {}, "the player unsubscribed"),
        ("code_delivered", {"unsubscribed": []}, "the reward has no code"),
        ("code_delivered", {"unsubscribed": [], "ciphertext": b"sealed"}, ""),
        ("drawn", {"draw_status": "cancelled"}, "the draw was cancelled"),
    ],
)
def test_message_that_is_not_sent_names_the_first_reason(kind: str, changed: dict[str, Any], why: str) -> None:
    assert _why_not(kind, FACTS | UNKNOWN | changed) == why
