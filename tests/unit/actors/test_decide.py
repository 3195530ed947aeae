from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from runtime import messages as m
from runtime.actors.changes import Changes, TurnMove
from runtime.actors.game.awards import Effects, Winner, record
from runtime.actors.game.decide import decide, play
from runtime.actors.game.pending import Answer, Decision, PendingRequest
from runtime.actors.game.state import GameState, PlayerState, Price, RungTerms
from runtime.errors import Fault
from runtime.rules.entry import EntryTerms
from tests.support.game_state import (
    COINS,
    GUEST,
    NOBODY,
    NOW,
    TODAY,
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

BY_PLAY = Winner("ann", "camp", TODAY, "g", "play_1")
AGED = EntryTerms.of([("age", ["age"])], None)
MUG_AT_2 = RungTerms("cup", "Cup", "coin", 2, "mug")
POINTS = mug(type="points", value=20.0, max_per_user=3, max_per_day=4)


def recorded(state: GameState, effects: Effects) -> Changes:
    changes = Changes()
    record(state, effects, changes)
    return changes


def test_play_wins_what_the_rule_decides_and_leaves_the_state_as_it_was() -> None:
    state = state_of(ann(plays=3, prizes={"mug": 1}), stocks={"mug": stock(9, 1, 5)})
    before, opened = deepcopy((state.players, state.stock)), session()
    decided = play(state, play_of(opened, client_seed="clover"))
    assert (state.players, state.stock) == before
    reply, row = decided.reply, decided.effects.play
    assert row is not None and reply.play_id == row.play_id == opened.play_id
    assert [(won.prize_id, won.quantity) for won in reply.rewards] == [("mug", 1)] and reply.next is None
    expected = ("ann", opened.token, "clover", 1, 0)
    assert (row.player_id, row.session_id, row.client_seed, row.wins, row.points) == expected
    changes = recorded(state, decided.effects)
    assert changes.plays == [row] and [reward.play_id for reward in changes.rewards] == [row.play_id]
    assert (state.players["ann"].plays, state.players["ann"].prizes) == (4, {"mug": 2})
    assert (state.stock["mug"].remaining, state.stock["mug"].day_awarded) == (8, 2)


def test_play_that_is_refused_changes_nothing() -> None:
    state = state_of(ann(suspended=True))
    before = deepcopy((state.players, state.stock))
    assert refusal_of(decide, state, play_of()) == "SUSPENDED"
    assert (state.players, state.stock) == before


def test_play_goes_by_what_the_plays_before_it_left() -> None:
    state = state_of(stocks={"mug": stock(1)})
    rewards = []
    for _ in range(2):
        decided = play(state, play_of())
        recorded(state, decided.effects)
        rewards.append(len(decided.reply.rewards))
    assert rewards == [1, 0] and state.stock["mug"].remaining == 0


def test_credits_of_a_play_are_in_its_reply_and_its_ledger() -> None:
    state = state_of(ann(balances={"coin": 5}), snapshot=game(COINS, prizes={}))
    decided = play(state, play_of())
    assert [(own.currency, own.balance) for own in decided.reply.balances] == [("coin", 7)]
    assert [(won.name, won.type, won.quantity) for won in decided.reply.rewards] == [("coin", "item", 2)]
    [entry] = recorded(state, decided.effects).ledger
    assert (entry.amount, entry.balance_after, entry.reference_id) == (2, 7, decided.reply.play_id)
    assert state.players["ann"].balances == {"coin": 7}


def test_next_session_is_given_where_a_start_would_be_admitted() -> None:
    snapshot = game(max_plays_per_user=2)
    assert play(state_of(ann(plays=0), snapshot=snapshot), play_of(next=True)).reply.next.session_id
    assert play(state_of(ann(plays=1), snapshot=snapshot), play_of(next=True)).reply.next is None
    assert play(state_of(ann(plays=1, read_in=1), snapshot=snapshot), play_of(next=True)).reply.next is None


@pytest.mark.parametrize(("shows_plan", "ordinal"), [(False, -1), (True, 3)])
def test_session_ends_in_time_and_has_an_ordinal_where_it_shows_a_plan(shows_plan: bool, ordinal: int) -> None:
    state = state_of(ann(plays=3), snapshot=game(shows_plan=shows_plan))
    answer = decide(state, pending(m.StartRequest(player_id="ann")))
    assert isinstance(answer, Answer) and answer.reply.guest_player_id == ""
    assert answer.reply.expires_at == int(NOW) + state.session_seconds
    assert int(answer.reply.session_id.split(".")[2].partition("-")[2] or -1) == ordinal


def test_start_of_a_newcomer_names_the_guest_that_it_makes() -> None:
    state = state_of(snapshot=game(access="public"))
    asks = pending(m.StartRequest(), GUEST, anonymous=True, newcomer=True)
    assert decide(state, asks).reply.guest_player_id == GUEST and GUEST not in state.players


@pytest.mark.parametrize(
    ("terms", "asks", "reason"),
    [
        ({"status": "draft"}, pending(m.StartRequest(player_id="ann")), "UNKNOWN_GAME"),
        ({"status": "paused"}, pending(m.StartRequest(player_id="ann")), "GAME_INACTIVE"),
        ({"max_plays_per_user": 1}, pending(m.StartRequest(player_id="ann")), "CAP_USER"),
        ({"status": "paused"}, play_of(), "GAME_INACTIVE"),
        ({}, play_of(session(age_seconds=101)), "SESSION_EXPIRED"),
    ],
)
def test_request_is_refused_by_access_dates_and_caps(terms: dict[str, Any], asks: PendingRequest, reason: str) -> None:
    assert refusal_of(decide, state_of(ann(plays=1), snapshot=game(**terms)), asks) == reason


@pytest.mark.parametrize(
    ("terms", "can_play", "reason", "free", "resets_at"),
    [
        *(({}, True, "", -1, 0), ({"max_plays_per_day": 5}, True, "", 3, 99)),
        ({"max_plays_per_day": 5, "max_plays_per_user": 4}, True, "", 1, 99),
        ({"max_plays_per_user": 4}, True, "", 1, 0),
        ({"max_plays_per_user": 3, "max_plays_per_day": 9}, False, "CAP_USER", 0, 0),
        *(({"requires_turn": True}, True, "", 0, 0), ({"status": "paused"}, False, "PAUSED", -1, 0)),
    ],
)
def test_eligibility_of_a_start(terms: dict[str, Any], can_play: bool, reason: str, free: int, resets_at: int) -> None:
    state = state_of(ann(plays=3, day_plays=2, turns=1), snapshot=game(**terms))
    reply = decide(state, pending(m.EligibilityRequest(player_id="ann"))).reply
    shown = (reply.can_play, reply.reason, reply.free_plays_remaining, reply.resets_at, reply.remaining_turns)
    assert shown == (can_play, reason, free, resets_at, 1)


@pytest.mark.parametrize(
    ("asked", "by", "access", "reason"),
    [
        *(({"player_id": GUEST}, {}, "player", "LOGIN_REQUIRED"), ({}, NOBODY, "player", "LOGIN_REQUIRED")),
        *(({}, NOBODY, "public", ""), ({"player_id": "guest_before"}, {}, "public", "PLAYER_MERGED")),
    ],
)
def test_eligibility_of_a_guest_or_nobody_agrees_with_a_start(asked: Any, by: Any, access: str, reason: str) -> None:
    state = state_of(ann(GUEST, guest=True), snapshot=game(access=access))
    reply = decide(state, pending(m.EligibilityRequest(**asked), GUEST, **by)).reply
    assert (reply.can_play, reply.reason) == (not reason, reason)
    assert bool(refusal_of(decide, state, pending(m.StartRequest(**asked), GUEST, **by))) == bool(reason)


@pytest.mark.parametrize(
    ("terms", "left", "expected"),
    [
        *(({}, 9, (7, 3, 5)), ({"channel": "voucher_code"}, 9, (7, 3, 3))),
        *(({"type": "points", "channel": "voucher_code"}, 9, (9, 3, 5)), ({}, None, (None, 3, 5))),
    ],
)
def test_win_takes_from_stock_codes_day_and_player(terms: dict[str, Any], left: int | None, expected: Any) -> None:
    state = state_of(ann(prizes={"mug": 1}), stocks={"mug": stock(left, 1, 5)})
    effects = Effects.on(state.players["ann"])
    effects.give(mug(**terms), 2, BY_PLAY)
    assert effects.taken("mug") == 2 and effects.taken("hat") == 0
    recorded(state, effects)
    own = state.stock["mug"]
    assert (own.remaining, own.day_awarded, own.codes) == expected and state.players["ann"].prizes == {"mug": 3}


@pytest.mark.parametrize(
    ("winner", "reference", "rewarded"),
    [
        *((BY_PLAY, "play_1", False), (BY_PLAY._replace(play_id="", milestone_id="rung"), "rung", True)),
        (BY_PLAY._replace(milestone_id="rung"), "play_1", True),
    ],
)
def test_points_go_to_the_wallet_and_a_rungs_leave_a_reward(winner: Winner, reference: str, rewarded: bool) -> None:
    state = state_of(ann(balances={"points": 5}))
    effects = Effects.on(state.players["ann"])
    [won] = effects.give(POINTS, 2, winner)
    changes = recorded(state, effects)
    assert (won.prize_id, won.quantity, bool(won.reward_id)) == ("mug", 2, rewarded)
    assert state.players["ann"].balances == {"points": 45} and len(changes.rewards) == rewarded
    [entry] = changes.ledger
    assert (entry.amount, entry.reason, entry.reference_id) == (40, "play_reward", reference)
    assert entry.reward_id == won.reward_id
    [counted] = changes.prize_players.values()
    assert (counted.player_id, counted.quantity, counted.cap) == ("ann", 2, 3) and not changes.stock


def test_points_of_no_value_and_items_make_no_balance_or_event() -> None:
    effects = Effects.on(ann())
    effects.give(replace(POINTS, value=0.0), 1, BY_PLAY)
    assert effects.credits == () and effects.player.balances == {}
    decided = play(state_of(snapshot=game(COINS, prizes={})), play_of())
    assert [event.type for event in decided.events] == ["play_completed"]


def test_turns_that_are_won_follow_the_turn_that_is_spent() -> None:
    state = state_of(ann(turns=1), snapshot=game(requires_turn=True, prizes={"mug": mug(type="turns", value=3.0)}))
    changes = recorded(state, play(state, play_of()).effects)
    assert [(entry.amount, entry.balance_after) for entry in changes.turn_entries] == [(-1, 0), (3, 3)]
    assert state.players["ann"].turns == 3 and changes.turns["ann", "camp"] == TurnMove("ann", "camp", 1, 3)


@pytest.mark.parametrize(
    ("ordinal", "busy_until", "price", "requires", "cap", "day_cap", "exact"),
    [
        (-1, 0, Price.FREE, False, 9, 8, False),
        # Decided for this ordinal or none, and from this moment or none: that no rival played in between is the cap.
        (0, 0, Price.FREE, False, 5, 8, True),
        (-1, 1, Price.FREE, False, 5, 8, True),
        # What a turn pays for is beyond the free plays of the day, but where every play needs one.
        (-1, 0, Price.TURN, False, 9, 3, False),
        (-1, 0, Price.TURN, True, 9, 8, False),
    ],
)
def test_play_is_counted_under_the_caps_that_it_was_decided_by(
    ordinal: int, busy_until: int, price: Price, requires: bool, cap: int, day_cap: int, exact: bool
) -> None:
    terms = game(max_plays_per_user=9, max_plays_per_day=8, requires_turn=requires)
    state, spent = state_of(ann(plays=4, day_plays=2, turns=5), snapshot=terms), price is Price.TURN
    effects = Effects.on(state.players["ann"])
    effects.count_play(state, session(ordinal=ordinal), price, busy_until)
    changes = recorded(state, effects)
    counted, player = changes.play_counts["g", "ann"], state.players["ann"]
    assert (counted.cap, counted.day_cap, counted.exact, counted.busy_until) == (cap, day_cap, exact, busy_until)
    assert (counted.plays, counted.day, counted.day_ends) == (1, TODAY, 99)
    assert (player.plays, player.day_plays, player.busy_until, player.turns) == (5, 3, busy_until, 5 - spent)
    assert [(entry.amount, entry.balance_after) for entry in changes.turn_entries] == [(-1, 4)] * spent


@pytest.mark.parametrize(
    ("terms", "quantities", "status", "codes", "tasks"),
    [
        *(({}, [2], "fulfilled", 0, ["delivered"]), ({"redemption_mode": "on_claim"}, [2], "won", 0, [])),
        ({"channel": "webhook", "instant": False}, [2], "won", 0, ["pending"]),
        ({"channel": "voucher_code"}, [1, 1], "fulfilled", 2, ["delivered"] * 2),
    ],
)
def test_win_writes_rewards_codes_and_tasks(
    terms: dict[str, Any], quantities: list[int], status: str, codes: int, tasks: list[str]
) -> None:
    state = state_of()
    effects = Effects.on(state.players["ann"])
    effects.give(mug(**terms), 2, BY_PLAY)
    changes = recorded(state, effects)
    assert [(own.quantity, own.status) for own in changes.rewards] == [(units, status) for units in quantities]
    assert len(changes.codes) == codes and [task.status for task in changes.tasks] == tasks


@pytest.mark.parametrize("guest", [True, False])
def test_effects_on_a_guest_hold_as_long_as_it_is_one(guest: bool) -> None:
    state = state_of(ann(guest=guest))
    assert list(recorded(state, Effects.on(state.players["ann"])).guests) == ["ann"] * guest


def with_rungs(player: PlayerState, *, mugs: int, **terms: Any) -> GameState:
    return state_of(player, snapshot=game(**terms), stocks={"mug": stock(mugs)})


def test_rung_that_a_play_reaches_is_granted_once_and_not_beyond_the_stock_that_the_play_left() -> None:
    terms = {"auto_grant": True, "rungs": (replace(MUG_AT_2, threshold=1),)}
    for mugs, granted in ((2, ["cup"]), (1, [])):
        state = with_rungs(ann(balances={"coin": 1}), mugs=mugs, **terms)
        decided = play(state, play_of())
        assert [rung.id for rung in decided.reply.milestones_granted] == granted
        changes = recorded(state, decided.effects)
        assert [(it.milestone_id, it.idempotency_key) for it in changes.grants] == [(own, None) for own in granted]
        assert state.stock["mug"].remaining == mugs - 1 - len(granted)
    again = play(with_rungs(ann(balances={"coin": 1}, grants={"cup": 1}), mugs=2, **terms), play_of())
    assert again.reply.milestones_granted == []


def test_points_of_a_rung_reach_the_next_one() -> None:
    rungs = (RungTerms("high", "High", "points", 40, "mug"), RungTerms("low", "Low", "coin", 2, "gold"))
    prizes = {"mug": mug(), "gold": replace(POINTS, prize_id="gold", value=40.0, max_per_user=0, max_per_day=0)}
    snapshot = game(COINS, auto_grant=True, rungs=rungs, prizes=prizes)
    decided = play(state_of(snapshot=snapshot, stocks={"mug": stock(), "gold": stock()}), play_of())
    assert [rung.id for rung in decided.reply.milestones_granted] == ["low", "high"]
    row = decided.effects.play
    assert row is not None and row.points == 0, "a rung's points are not the play's own"


def redeem(state: GameState) -> Decision | Answer:
    return decide(state, pending(m.RedeemRequest(player_id="ann", milestone_id="cup")))


@pytest.mark.parametrize(("spends", "coins"), [(False, 3), (True, 1)])
def test_redeem_gives_the_prize_and_takes_its_price_where_the_block_spends(spends: bool, coins: int) -> None:
    entered = ann(balances={"coin": 3}, entry=(7, frozenset({"age"})))
    state = with_rungs(entered, mugs=1, rungs=(MUG_AT_2,), spends=spends, entry=AGED)
    decided = redeem(state)
    assert isinstance(decided, Decision) and decided.reply.milestone.status is m.MilestoneStatus.GRANTED
    assert [(own.currency, own.balance) for own in decided.reply.balances] == [("coin", coins)]
    changes = recorded(state, decided.effects)
    [grant], [reward] = changes.grants, changes.rewards
    assert [held.revision for held in changes.entries] == [7]
    assert grant.reward_id == reward.reward_id == decided.reply.reward.id and reward.milestone_id == "cup"
    assert [(entry.amount, entry.reward_id) for entry in changes.ledger] == [(-2, reward.reward_id)] * spends
    assert [event.data.reward_id for event in decided.events] == [reward.reward_id]
    assert refusal_of(redeem, state) == "ALREADY_GRANTED"


@pytest.mark.parametrize(
    ("coins", "mugs", "read_in", "reason"),
    [(1, 1, 3, "THRESHOLD_NOT_REACHED"), (1, 1, 2, "STALE"), (2, 0, 3, "OUT_OF_STOCK"), (2, 0, 2, "STALE")],
)
def test_redeem_is_refused_by_what_was_just_read(coins: int, mugs: int, read_in: int, reason: str) -> None:
    state = with_rungs(ann(balances={"coin": coins}, read_in=read_in), mugs=mugs, rungs=(MUG_AT_2,))
    assert refusal_of(redeem, state) == reason
    unentered = with_rungs(ann(balances={"coin": coins}), mugs=mugs, rungs=(MUG_AT_2,), entry=AGED)
    assert refusal_of(redeem, unentered) == "ENTRY_REQUIRED"


@pytest.mark.parametrize(
    ("terms", "reason", "facts"),
    [
        ({"max_per_user": 1, "max_per_day": 9}, "CAP_USER", {"limit": 1, "resets_at": 0}),
        ({"max_per_user": 9, "max_per_day": 2}, "CAP_DAY", {"limit": 2, "resets_at": 99}),
        ({"active": False}, "OUT_OF_STOCK", {}),
    ],
)
def test_redeem_of_a_capped_prize_names_the_cap_and_its_end(terms: Any, reason: str, facts: dict[str, int]) -> None:
    snapshot = game(rungs=(MUG_AT_2,), prizes={"mug": mug(**terms)})
    rich = ann(balances={"coin": 3}, prizes={"mug": 1})
    with pytest.raises(Fault) as refused:
        redeem(state_of(rich, snapshot=snapshot, stocks={"mug": stock(9, 2)}))
    assert (refused.value.reason, refused.value.facts) == (reason, facts)


def play_with_three_wins() -> tuple[PendingRequest, Decision]:
    rungs = (replace(MUG_AT_2, threshold=0), replace(MUG_AT_2, id="pot", threshold=1, prize_id="hat"))
    prizes = {"mug": mug(value=2.0), "hat": mug(prize_id="hat", name="Hat")}
    snapshot = game(auto_grant=True, rungs=rungs, prizes=prizes)
    asks = play_of()
    asks.work.trace_id = "c" * 32
    state = state_of(ann(balances={"coin": 1}), snapshot=snapshot, stocks={"mug": stock(), "hat": stock()})
    return asks, play(state, asks)


def test_play_tells_of_itself_and_then_of_each_prize_under_the_next_number() -> None:
    _, decided = play_with_three_wins()
    completed, *won = decided.events
    row = decided.effects.play
    nonce = row.play_id.removeprefix("play_")
    assert (completed.type, completed.id) == ("play_completed", f"evt_{nonce}")
    said = completed.data
    found = (said.play_id, said.game_id, said.player_id, said.score, said.wins, said.points)
    assert found == (row.play_id, "g", "ann", row.score, row.wins, row.points)
    assert [(event.type, event.id) for event in won] == [("prize_won", f"evt_{nonce}_{nth}") for nth in range(3)]
    found = [(event.data.prize_id, event.data.milestone_id) for event in won]
    assert found == [("mug", ""), ("mug", "cup"), ("hat", "pot")]
    rewards = [reward.reward_id for win in decided.effects.wins for reward in win.rewards]
    assert [it.data.reward_id for it in won] == rewards and all(it.data.play_id == row.play_id for it in won)
    assert won[0].data.value == 2.0


def test_event_is_the_games_in_the_trace_of_its_request() -> None:
    asks, decided = play_with_three_wins()
    for event in decided.events:
        assert (event.tenant_id, event.merchant_id, event.campaign_id) == ("t", "shop", "camp")
        assert (event.trace_id, event.occurred_at) == (asks.work.trace_id, int(NOW))


def test_decision_inputs_include_all_state_that_a_decision_uses() -> None:
    state = state_of(ann(plays=1, balances={"coin": 1}), stocks={"mug": stock(3, 1, 2)})
    player, own = state.players["ann"], state.stock["mug"]
    inputs = state.inputs_of(player)
    player.read_in = own.read_in = 1
    assert inputs == state.inputs_of(player)
    changes: list[tuple[Any, str, Any]] = [
        *((player, name, 9) for name in ("plays", "day_plays", "turns", "busy_until")),
        *((player, name, {"x": 1}) for name in ("prizes", "balances", "grants")),
        *((own, name, 9) for name in ("remaining", "day_awarded", "codes")),
        *((state.snapshot, "version", 8), (state, "day", TODAY.replace(day=22))),
    ]
    for of, name, value in changes:
        before = getattr(of, name)
        setattr(of, name, value)
        assert inputs != state.inputs_of(player), name
        setattr(of, name, before)
    assert inputs == state.inputs_of(player)
