import json
from typing import Any, Final

import pytest

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.snapshot import segments_of
from runtime.actors.game.state import GameSnapshot, PrizeTerms
from runtime.actors.game.terms import write_terms
from runtime.actors.idempotency import WITHOUT_KEY
from runtime.errors import Fault
from runtime.rules.campaign_state import REASONS, State, state_of
from tests.support.game_state import GUEST, game, pending

START: Final = 1_000
END: Final = 2_000
LATER: Final = 3_000
DOOR: Final = 1_500


def snapshot(**named: Any) -> GameSnapshot:
    return game(**{"start_date": START, "end_date": END, "redeem_until": LATER, **named})


Told = tuple[str, dict[str, Any]]
OPEN: Final[Told] = ("", {})
PAUSED: Final[Told] = ("this game is paused", {})
CLOSED: Final[Told] = ("this game is closed", {})
INACTIVE: Final[Told] = ("the campaign is not active", {})
EARLY: Final[Told] = ("the campaign has not begun", {"opens_at": START})
LATE: Final[Told] = ("the campaign has ended", {"closed_at": END})
OVER: Final[Told] = ("redeeming has ended at 1970-01-01T00:50:00+00:00", {"closed_at": LATER})
AT_END: Final[Told] = ("redeeming has ended at 1970-01-01T00:33:20+00:00", {"closed_at": END})
BY_HAND: Final[Told] = ("redeeming has ended, with the campaign", {})

STATES: Final[list[tuple[dict[str, Any], float, Told, Told]]] = [
    # What it is, and when; what a play is told, and what a redeem is.
    *(({}, START - 0.1, EARLY, EARLY), ({}, START, OPEN, OPEN), ({}, END - 0.1, OPEN, OPEN), ({}, END, LATE, OPEN)),
    *(({}, LATER - 0.1, LATE, OPEN), ({}, LATER, LATE, OVER), ({"redeem_until": 0}, END - 0.1, OPEN, OPEN)),
    *(({"redeem_until": 0}, END, LATE, AT_END), ({"end_date": 0, "redeem_until": 0}, LATER, OPEN, OPEN)),
    *(({"start_date": 0, "end_date": 0}, 0, OPEN, OPEN), ({"status": "paused"}, START, PAUSED, PAUSED)),
    *(({"status": "paused"}, END, PAUSED, PAUSED), ({"status": "draft"}, START, CLOSED, CLOSED)),
    *(({"status": "archived"}, END, CLOSED, CLOSED), ({"campaign_status": "paused"}, START, INACTIVE, INACTIVE)),
    *(({"campaign_status": "paused"}, END, INACTIVE, OPEN), ({"campaign_status": "paused"}, LATER, INACTIVE, OVER)),
    *(({"campaign_status": "draft"}, END, INACTIVE, INACTIVE), ({"campaign_status": "ended"}, START, INACTIVE, OPEN)),
    ({"campaign_status": "ended", "redeem_until": 0}, START, INACTIVE, BY_HAND),
    ({"campaign_status": "ended", "redeem_until": 0}, END, INACTIVE, AT_END),
    ({"campaign_status": "ended", "redeem_until": 0, "end_date": 0}, END, INACTIVE, BY_HAND),
    ({"campaign_status": "ended"}, LATER, INACTIVE, OVER),
    ({"opens_at": DOOR}, DOOR - 1, ("this game has not begun", {"opens_at": DOOR}), OPEN),
    ({"closes_at": DOOR}, DOOR - 1, OPEN, OPEN),
    ({"closes_at": DOOR}, DOOR, ("this game has ended", {"closed_at": DOOR}), OPEN),
]


@pytest.mark.parametrize(("state", "now", "play", "redeem"), STATES)
def test_refusal_says_what_is_closed_and_when(state: dict[str, Any], now: float, play: Told, redeem: Told) -> None:
    made = snapshot(**state)
    for refuse, expected in ((made.refuse_unless_open, play), (made.refuse_unless_redeemable, redeem)):
        try:
            refuse(now)
        except Fault as fault:
            assert (fault.message, fault.facts) == expected
            assert fault.reason == ("GAME_INACTIVE" if "game" in fault.message else "CAMPAIGN_CLOSED")
        else:
            assert expected == OPEN


@pytest.mark.parametrize(
    ("state", "now", "expected"),
    [
        *(({}, START - 0.1, State.ANNOUNCED), ({}, START, State.RUNNING), ({}, LATER - 0.1, State.CLAIMS_OPEN)),
        *(({}, LATER, State.ENDED), ({"redeem_until": 0}, END, State.ENDED), ({"end_date": 0}, LATER, State.RUNNING)),
        ({"campaign_status": "paused"}, START - 1, State.PAUSED),
        ({"campaign_status": "paused"}, LATER, State.ENDED),
        *(({"campaign_status": "ended"}, START - 1, State.CLAIMS_OPEN), ({"status": "paused"}, START, State.PAUSED)),
        *(({"status": "paused"}, LATER, State.ENDED), ({"opens_at": DOOR}, DOOR - 1, State.ANNOUNCED)),
        ({"opens_at": START - 1, "closes_at": END + 1}, LATER, State.ENDED),
        ({"closes_at": DOOR}, DOOR, State.CLAIMS_OPEN),
    ],
)
def test_state_is_the_one_that_lasts_longest(state: dict[str, Any], now: float, expected: State) -> None:
    made = snapshot(**state)
    assert state_of(made.status, made.campaign_status, made.dates, now) is expected
    assert made.closed_reason(now) == REASONS[expected]
    sold_out = state_of(made.status, made.campaign_status, made.dates, now, sold_out=True)
    assert sold_out is (State.SOLD_OUT if expected is State.RUNNING else expected)


@pytest.mark.parametrize("now", [START, END])
def test_suspension_is_told_before_any_other_refusal(now: float) -> None:
    made = snapshot(suspended="merchant", status="paused", campaign_status="draft")
    for refuse in (made.refuse_unless_open, made.refuse_unless_redeemable):
        with pytest.raises(Fault) as refused:
            refuse(now)
        assert refused.value.reason == "SUSPENDED"


@pytest.mark.parametrize(
    ("status", "campaign", "shown"),
    [
        *(("active", "active", True), ("paused", "active", True), ("active", "ended", True)),
        *(("active", "draft", False), ("draft", "active", False), ("archived", "active", False)),
    ],
)
def test_game_is_shown_once_it_and_its_campaign_were_begun(status: str, campaign: str, shown: bool) -> None:
    assert snapshot(status=status, campaign_status=campaign).shown == shown


def test_prize_unit_gives_what_its_type_says() -> None:
    def prize(type: str, channel: str = "none", mode: str = "on_win", *, instant: bool = True) -> PrizeTerms:
        return PrizeTerms("p", "P", type, 2.9, 0, 0, mode, channel, instant, 0, True)

    assert [(one.points, one.turns, one.is_points) for one in map(prize, ("points", "turns", "goods"))] == [
        *((2, 0, True), (0, 2, False), (0, 0, False))
    ]
    assert [prize(*of).takes_code for of in (("coupon", "voucher_code"), ("points", "voucher_code"), ("coupon",))] == [
        *(True, False, False)
    ]
    ways = {("none", "on_win", True): (True, True), ("webhook", "on_win", False): (True, False)}
    ways |= {("manual", "on_win", False): (True, False), ("none", "on_claim", True): (False, False)}
    for (channel, mode, instant), due in ways.items():
        made = prize("goods", channel, mode, instant=instant)
        assert (made.due_at_win, made.delivered_at_win) == due


def test_request_of_a_guest_keeps_its_key_and_bearer_when_turned_to_its_player() -> None:
    asks = pending(m.PlayRequest(), GUEST, bearer="ann", idempotency=WITHOUT_KEY._replace(player_id=GUEST, key="k"))
    asks.redirect_to("ann")
    assert (asks.player_id, asks.bearer, asks.idempotency.player_id) == ("ann", "", "ann")
    other = pending(m.PlayRequest(), GUEST, bearer="bob")
    other.redirect_to("ann")
    assert (other.player_id, other.bearer, other.idempotency) == ("ann", "bob", WITHOUT_KEY)


@pytest.mark.parametrize(
    ("ui", "segments"),
    [
        *((None, None), ({"wheel": None}, None), ({"wheel": {"segments": []}}, None)),
        *(({"wheel": {"segments": {"a": {"prize_id": "p"}}}}, None), ({"wheel": {"segments": "p"}}, None)),
        ({"wheel": {"segments": [{"prize_id": "p"}, {"prize_id": ""}, {}, 7]}}, ("p", None, None, None)),
        ({"wheel": {"segments": [{"prize_id": ["p"]}, {"prize_id": {}}, {"prize_id": 3}]}}, (None, None, None)),
    ],
)
def test_wheel_segments_are_read_where_the_ui_has_some(ui: Any, segments: Any) -> None:
    assert segments_of({"ui": ui}) == segments


def test_catalogues_version_never_goes_back() -> None:
    engine = object.__new__(Engine)  # It needs no stores for this.
    engine.catalog_versions = {}
    for tenant, version in (("a", 0), ("b", 1), ("c", 3), ("c", 2), ("d", 3), ("d", 4)):
        engine.catalog_changed(tenant, version)
    assert engine.catalog_versions == {"b": 1, "c": 3, "d": 4}


def test_terms_name_the_fallback_prize() -> None:
    parts = dict.fromkeys(("reward_handler", "seed_generator", "validator"), "")
    terms = [json.loads(write_terms("game", parts | own, [])) for own in ({}, {"fallback_prize_id": "pen"})]
    assert [one["fallback_prize_id"] for one in terms] == ["", "pen"]
