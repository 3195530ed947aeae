from dataclasses import replace
from typing import Any, Final

import pytest

from runtime import messages as m
from runtime.actors.game import eligibility
from runtime.actors.game.eligibility import AHEAD_MS, begins_ms, left_ms, makes_player, needs_token
from runtime.actors.game.pending import PendingRequest
from runtime.actors.game.state import Price, StaleRead
from runtime.errors import Fault
from runtime.rules import NETWORK_SLACK_MS
from runtime.rules.release import schedule
from tests.support.game_state import (
    COINS,
    GUEST,
    HASH,
    NOBODY,
    NOW,
    ROUND,
    ann,
    game,
    mug,
    pending,
    play_of,
    refusal_of,
    session,
    state_of,
    stock,
)

CAPPED: Final = {"max_plays_per_user": 5, "max_plays_per_day": 2}

ADMITTED: Final[list[tuple[dict[str, Any], dict[str, Any], str | Price]]] = [
    # The game's terms, what the player is at: the refusal, or the price of the play.
    *(({}, {"plays": 9, "day_plays": 9}, Price.FREE), (CAPPED, {"plays": 4, "day_plays": 1}, Price.FREE)),
    *((CAPPED, {"plays": 5}, "CAP_USER"), (CAPPED, {"plays": 6, "turns": 9}, "CAP_USER")),
    (CAPPED, {"plays": 4, "day_plays": 2}, "CAP_DAY"),
    *((CAPPED, {"plays": 4, "day_plays": 2, "turns": 1}, Price.TURN), ({"requires_turn": True}, {}, "NO_TURNS")),
    ({"requires_turn": True}, {"turns": 1}, Price.TURN),
    ({**CAPPED, "requires_turn": True}, {"turns": 1, "day_plays": 1}, Price.TURN),
    ({**CAPPED, "requires_turn": True}, {"turns": 1, "day_plays": 2}, "CAP_DAY"),
    ({**CAPPED, "requires_turn": True}, {"turns": 0, "day_plays": 1}, "NO_TURNS"),
    ({}, {"suspended": True}, "SUSPENDED"),
]


@pytest.mark.parametrize(("terms", "at", "expected"), ADMITTED)
def test_play_is_refused_by_a_reached_cap(terms: dict[str, Any], at: dict[str, Any], expected: str | Price) -> None:
    state, memory = state_of(snapshot=game(**terms)), ann(**at, read_in=ROUND - 1)
    if isinstance(expected, Price):
        assert eligibility.admit(state, memory) is expected and eligibility.admits(state, memory)
        return
    with pytest.raises(StaleRead):
        eligibility.admit(state, memory)
    assert not eligibility.admits(state, memory) and not eligibility.admits(state, ann(**at))
    with pytest.raises(Fault) as refused:
        eligibility.admit(state, ann(**at))
    assert refused.value.reason == expected
    facts = {"CAP_USER": {"limit": 5, "resets_at": 0}, "CAP_DAY": {"limit": 2, "resets_at": 99}}
    facts["NO_TURNS"] = {"resets_at": 0}
    assert refused.value.facts == facts.get(expected, refused.value.facts)
    used = {"CAP_USER": f"{at.get('plays')} of 5 plays used", "CAP_DAY": "2 of 2 plays used today"}
    assert used.get(expected, refused.value.message) == refused.value.message


@pytest.mark.parametrize(
    ("terms", "guest", "reason"),
    [
        *(({}, True, "LOGIN_REQUIRED"), ({}, False, ""), ({"access": "public"}, True, "")),
        ({"admits_guests": True}, True, ""),
    ],
)
def test_guest_is_refused_on_a_players_game(terms: dict[str, Any], guest: bool, reason: str) -> None:
    state = state_of(snapshot=game(**terms))
    assert refusal_of(eligibility.refuse_guest, state, ann(guest=guest)) == reason
    assert refusal_of(eligibility.refuse_guest, state, ann(guest=guest, read_in=1)) == (reason and "STALE")


@pytest.mark.parametrize(
    ("revision", "ordinal", "plays", "reason"),
    [
        *((HASH, -1, 4, ""), (HASH, 4, 4, ""), (HASH, 0, 0, ""), (HASH, 3, 4, "SESSION_PLAYED")),
        *((HASH, 0, 4, "SESSION_PLAYED"), (HASH, 5, 4, "SESSION_EXPIRED"), ("b" * 64, 4, 4, "GAME_CHANGED")),
    ],
)
def test_session_plays_only_its_own_game_and_plan(revision: str, ordinal: int, plays: int, reason: str) -> None:
    state, promised = state_of(), session(revision=revision, ordinal=ordinal)
    assert refusal_of(eligibility.admit_play, state, promised, ann(plays=plays)) == reason
    guests = session("gus", revision=revision, ordinal=ordinal)
    assert refusal_of(eligibility.admit_play, state, guests, ann(plays=plays)) == reason.replace("PLAYED", "EXPIRED")
    memory = ann(plays=plays, read_in=ROUND - 1)
    assert refusal_of(eligibility.admit_play, replace(state, compared=False), promised, memory) == (reason and "STALE")


@pytest.mark.parametrize(
    ("requires_turn", "day_plays", "under_way", "reason"),
    [(False, 1, {"ann", "bob"}, "STALE"), (False, 1, {"bob"}, ""), (False, 0, {"ann"}, ""), (True, 0, {"ann"}, "")],
)
def test_play_spends_no_turn_beside_one_that_may_yet_be_undone(
    requires_turn: bool, day_plays: int, under_way: set[str], reason: str
) -> None:
    snapshot = game(requires_turn=requires_turn, max_plays_per_day=1)
    state = state_of(snapshot=snapshot, under_way=[frozenset(under_way)])
    assert refusal_of(eligibility.admit_play, state, session(), ann(day_plays=day_plays, turns=1)) == reason


WITHHELD: Final[list[tuple[dict[str, Any], tuple[int | None, int, int], int, int, str]]] = [
    # The prize; what is left, went out today and how many codes there are; what the player has, and how many are asked.
    *(({}, (1, 0, 0), 0, 1, ""), ({}, (1, 0, 0), 0, 2, "OUT_OF_STOCK"), ({}, (None, 9, 0), 9, 9, "")),
    *(({"type": "points"}, (0, 0, 0), 0, 1, ""), ({"max_per_user": 1}, (9, 0, 0), 0, 1, "")),
    *(({"max_per_user": 2}, (9, 0, 0), 1, 1, ""), ({"max_per_user": 2}, (9, 0, 0), 2, 1, "CAP_USER")),
    *(({"max_per_user": 2}, (0, 0, 0), 1, 2, "CAP_USER"), ({"max_per_day": 2}, (9, 1, 0), 0, 1, "")),
    *(({"max_per_day": 2}, (9, 2, 0), 0, 1, "CAP_DAY"), ({"max_per_day": 2}, (0, 2, 0), 0, 1, "OUT_OF_STOCK")),
    ({"channel": "voucher_code"}, (9, 0, 1), 0, 1, ""),
    ({"channel": "voucher_code"}, (9, 0, 1), 0, 2, "OUT_OF_STOCK"),
    ({"active": False}, (9, 0, 0), 0, 1, "OUT_OF_STOCK"),
]


@pytest.mark.parametrize(("terms", "there", "has", "asked", "reason"), WITHHELD)
def test_prize_is_withheld_for_the_reason_that_stands_longest(
    terms: dict[str, Any], there: tuple[int | None, int, int], has: int, asked: int, reason: str
) -> None:
    prize, held = mug(**terms), {"mug": has} if has else {}
    state = state_of(snapshot=game(prizes={"mug": prize}), stocks={"mug": stock(*there)})
    found = eligibility.withheld(state, ann(prizes=held), prize, asked)
    assert (found.name if found else "") == reason
    assert eligibility.available(state, ann(prizes=held), "mug", asked) == (not reason)
    if reason and prize.active:
        assert refusal_of(eligibility.withheld, state, ann(prizes=held, read_in=ROUND - 1), prize, asked) == "STALE"
        state.stock["mug"].read_in = ROUND - 1
        assert refusal_of(eligibility.withheld, state, ann(prizes=held), prize, asked) == "STALE"


def test_prize_is_withheld_until_its_units_are_free() -> None:
    prize = mug(release=schedule({"kind": "TIMES", "times": [[0, 1], [NOW + 9, 3]]}, b""))
    for free, asked, reason in ((4, 1, None), (4, 2, "NOT_RELEASED"), (3, 1, "NOT_RELEASED"), (0, 1, "OUT_OF_STOCK")):
        state = state_of(snapshot=game(prizes={"mug": prize}), stocks={"mug": stock(free)})
        found = eligibility.withheld(state, ann(), prize, asked)
        assert (found.name if found else None) == reason
        assert eligibility.sold_out(state) == (not free)


def test_prize_that_is_not_there_is_out_of_stock() -> None:
    state = state_of()
    for prize in (None, mug(prize_id="gone")):
        assert eligibility.withheld(state, ann(), prize, 1) is eligibility.Withheld.OUT_OF_STOCK
    assert not eligibility.available(state, ann(), "gone", 1)


@pytest.mark.parametrize(
    ("terms", "there", "taken", "reason"),
    [
        *(({}, (2, 0, 0), 1, ""), ({}, (2, 0, 0), 2, "OUT_OF_STOCK")),
        *(({"channel": "voucher_code"}, (9, 0, 2), 2, "OUT_OF_STOCK"), ({"max_per_day": 2}, (9, 0, 0), 2, "CAP_DAY")),
    ],
)
def test_prize_is_withheld_by_what_the_same_decision_took(
    terms: dict[str, Any], there: tuple[int, int, int], taken: int, reason: str
) -> None:
    found = eligibility.withheld(state_of(stocks={"mug": stock(*there)}), ann(), mug(**terms), 1, taken=taken)
    assert (found.name if found else "") == reason


@pytest.mark.parametrize(
    ("asks", "terms", "reason"),
    [
        (pending(m.StartRequest(player_id="ann")), {}, ""),
        (pending(m.StartRequest(player_id=GUEST), "ann"), {}, "PLAYER_MERGED"),
        (pending(m.StartRequest(player_id="ann")), {"status": "draft"}, "UNKNOWN_GAME"),
        (pending(m.StartRequest(), GUEST, **NOBODY), {}, "TOKEN_MISSING"),
        (pending(m.StartRequest(), GUEST, **NOBODY), {"access": "public"}, ""),
        *((pending(m.EligibilityRequest(), GUEST, **NOBODY), {}, ""), (play_of(session(GUEST)), {}, "LOGIN_REQUIRED")),
        *((pending(m.RedeemRequest(), GUEST), {}, ""), (play_of(session(age_seconds=99.9)), {}, "")),
        *((play_of(session(age_seconds=100)), {}, ""), (play_of(session(age_seconds=100.1)), {}, "SESSION_EXPIRED")),
        (play_of(), {"status": "draft"}, ""),
    ],
)
def test_access_is_refused_before_the_games_rules(asks: PendingRequest, terms: dict[str, Any], reason: str) -> None:
    state = state_of(ann(), ann(GUEST, guest=True), snapshot=game(**terms))
    assert refusal_of(eligibility.check_access, state, asks) == reason


@pytest.mark.parametrize(
    ("request_", "at", "reason"),
    [
        *((m.StartRequest(), {"plays": 1}, "UNKNOWN_GAME"), (m.EligibilityRequest(), {"plays": 1}, "UNKNOWN_GAME")),
        *((m.ListMilestonesRequest(), {"plays": 1}, ""), (m.RedeemRequest(), {"grants": {"mug": 1}}, "")),
        *((m.RedeemRequest(), {}, "UNKNOWN_GAME"), (m.RedeemRequest(), {"read_in": ROUND - 1}, "STALE")),
    ],
)
def test_hidden_game_answers_only_players_with_something_there(request_: Any, at: dict[str, Any], reason: str) -> None:
    state = state_of(ann(**at), snapshot=game(status="draft"))
    assert refusal_of(eligibility.check_access, state, pending(request_)) == reason
    assert refusal_of(eligibility.check_access, replace(state, compared=False), pending(request_)) == "STALE"


@pytest.mark.parametrize(
    ("asks", "terms", "makes"),
    [
        *((pending(m.StartRequest()), {}, True), (play_of(), {}, True), (pending(m.EligibilityRequest()), {}, False)),
        *((pending(m.ListMilestonesRequest()), {}, False), (pending(m.StartRequest()), {"status": "draft"}, False)),
        *((play_of(), {"status": "draft"}, True), (pending(m.StartRequest(), anonymous=True), {}, False)),
        (pending(m.StartRequest(), GUEST, anonymous=True), {"access": "public"}, False),
        (pending(m.PlayRequest(), GUEST, anonymous=True, session=session(GUEST)), {"access": "public"}, True),
        *((play_of(session(GUEST)), {}, False), (play_of(session(GUEST)), {"admits_guests": True}, True)),
        (pending(m.StartRequest(), GUEST), {"admits_guests": True}, False),
    ],
)
def test_player_row_is_made_by_an_act_that_is_allowed(asks: PendingRequest, terms: dict[str, Any], makes: bool) -> None:
    assert makes_player(game(**terms), asks) == makes


@pytest.mark.parametrize(
    ("asks", "terms", "needs"),
    [
        *((pending(m.StartRequest()), {}, False), (pending(m.StartRequest(), anonymous=True), {}, True)),
        (pending(m.StartRequest(), anonymous=True), {"access": "public"}, False),
        (pending(m.PlayRequest(), anonymous=True, session=session(GUEST)), {"access": "public"}, False),
        (pending(m.PlayRequest(), anonymous=True, session=session(GUEST)), {}, True),
        (pending(m.PlayRequest(), anonymous=True, session=session("ann")), {"access": "public"}, True),
    ],
)
def test_token_is_needed_except_on_a_public_game(asks: PendingRequest, terms: dict[str, Any], needs: bool) -> None:
    assert needs_token(game(**terms), asks) == needs


NOW_MS: Final = int(NOW * 1000)
TIMED: Final = {
    "seed_generator": "none",
    "reward_handler": "score_to_tier",
    "validator": "basic",
    "handler_config": {"tiers": [], "prize_groups": {}, "max_score_per_second": 1},
}


def left(busy_until: int, issued_ms: int) -> int:
    return left_ms(begins_ms(busy_until, issued_ms, NOW_MS), NOW_MS)


@pytest.mark.parametrize(
    ("busy_until", "ms"),
    [
        *((0, 5_000), (NOW_MS - 9_000, 5_000), (NOW_MS - 2_000, 2_000), (NOW_MS, 0)),
        *((NOW_MS + AHEAD_MS - NETWORK_SLACK_MS, 0), (NOW_MS + AHEAD_MS, -NETWORK_SLACK_MS)),
        (NOW_MS + AHEAD_MS + NETWORK_SLACK_MS, -2 * NETWORK_SLACK_MS),
        *((NOW_MS + AHEAD_MS + NETWORK_SLACK_MS + 1, 5_000), (NOW_MS + 10 * AHEAD_MS, 5_000)),
    ],
    ids=["none", "before it", "in it", "all of it", "ahead", "too far ahead", "farthest", "set back", "far back"],
)
def test_play_has_the_time_that_earlier_plays_have_left(busy_until: int, ms: int) -> None:
    assert left(busy_until, NOW_MS - 5_000) == ms


def test_plays_at_once_take_no_more_than_the_time_that_passed_and_the_slack_of_a_few() -> None:
    issued_ms, busy_until, took = NOW_MS - 60_000, 0, []
    while len(took) < 1_000 and (ms := left(busy_until, issued_ms) + NETWORK_SLACK_MS) > 0:
        busy_until = begins_ms(busy_until, issued_ms, NOW_MS) + ms
        took.append(ms)
    assert sum(took) == 60_000 + AHEAD_MS


def test_play_takes_the_time_that_it_says() -> None:
    opened = session(age_seconds=60)
    state, payload = state_of(snapshot=game(TIMED, verify_timing=True)), {"score": 0, "duration_ms": 700}
    for busy_until, expected in ((0, opened.issued_ms + 700), (opened.issued_ms + 2_000, opened.issued_ms + 2_700)):
        assert eligibility.check_payload(state, opened, ann(busy_until=busy_until), payload, ()) == expected
    assert eligibility.check_payload(state_of(), opened, ann(), {}, ()) == 0
    payload, untimed = {"score": 0, "duration_ms": 10**9}, state_of(snapshot=game(TIMED))
    assert eligibility.check_payload(untimed, opened, ann(busy_until=NOW_MS), payload, ()) == 0
    payload = {"score": -1, "duration_ms": 1}
    assert refusal_of(eligibility.check_payload, untimed, opened, ann(), payload, ()) == "VALIDATION"


@pytest.mark.parametrize(
    ("ahead", "read_in", "reason"),
    [(0, ROUND - 1, "IMPLAUSIBLE_SCORE"), (1, ROUND - 1, "STALE"), (1, ROUND, "IMPLAUSIBLE_SCORE")],
)
def test_payload_is_refused_by_remembered_time_only_after_a_fresh_read(ahead: int, read_in: int, reason: str) -> None:
    opened = session(age_seconds=60)
    player = ann(busy_until=opened.issued_ms + ahead, read_in=read_in)
    payload = {"score": 0, "duration_ms": 90_000}
    state = state_of(snapshot=game(TIMED, verify_timing=True))
    assert refusal_of(eligibility.check_payload, state, opened, player, payload, ()) == reason


@pytest.mark.parametrize(
    ("left", "codes", "named", "sold_out"),
    [
        *((1, 0, {}, False), (0, 0, {}, True), (None, 0, {"channel": "voucher_code"}, True)),
        *((None, 1, {"channel": "voucher_code"}, False), (0, 0, {"type": "points"}, False)),
        (None, 0, {"active": False}, True),
    ],
)
def test_game_is_sold_out_of_drawn_prizes(left: int | None, codes: int, named: dict[str, Any], sold_out: bool) -> None:
    stocks = {"mug": stock(left, codes=codes)}
    made = state_of(snapshot=game(prizes={"mug": mug(**named)}), stocks=stocks)
    assert eligibility.sold_out(made) == sold_out
    assert not eligibility.sold_out(state_of(snapshot=game(COINS), stocks=stocks)), "a wallet's items never run out"
    consoled = replace(made.snapshot.game, on_unavailable="fallback", fallback_prize_id="pen")
    prizes = {**made.snapshot.prizes, "pen": mug(prize_id="pen")}
    made = state_of(snapshot=game(prizes=prizes, game=consoled), stocks={**stocks, "pen": stock(None)})
    assert eligibility.sold_out(made) == sold_out, "a consolation does not count"
