"""What a game's actor refuses by what it has read, never by what it remembers; and what it remembers of a win."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.engine import Engine
from runtime.actors.game import decide
from runtime.actors.game.actor import GameActor, PlayerState, StaleRead, StockState
from runtime.actors.game.awards import Winner, prize_won
from runtime.actors.game.batch import (
    CONTRADICTIONS_MAX,
    Batch,
    _begin_commit,
    _check_access,
    _contradicted,
    _follows,
    _marks,
    _own_sessions,
    _refuse_unshown,
    _shows_what_follows,
)
from runtime.actors.game.decide import _count, play
from runtime.actors.game.pending import Decision, PendingRequest
from runtime.actors.game.sessions import REVISION_CHARACTERS, Session
from runtime.actors.game.snapshot import GameSnapshot, PrizeTerms
from runtime.actors.idempotency import KeyedRequest
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status
from runtime.stores.database import Guarded

NOW: Final = 1_790_000_000.0
HASH: Final = "a" * 64
GUEST: Final = "guest_01m85efpat00dkdjb2mbsyywrp"
ROUND: Final = 3
"""Of the actor: what was read in it is fresh, what before it a memory."""

TERMS: Final[dict[str, Any]] = {
    "version": 7,
    "revision_hash": HASH,
    "shows_plan": False,
    "status": "active",
    "access": "player",
    "suspended": "",
    "campaign_id": "camp",
    "merchant_id": "shop",
    "campaign_status": "active",
    "max_plays_per_user": 0,
    "max_plays_per_day": 0,
    "requires_turn": False,
    "admits_guests": False,
    "scope_key": "camp",
    "played": True,
    "prizes": {},
}


def game(**named: Any) -> GameSnapshot:
    """A game of which nothing is known but this."""
    made = object.__new__(GameSnapshot)
    for name, value in {**TERMS, **named}.items():
        setattr(made, name, value)
    return made


def somebody(name: str = "ann", *, read_in: int = ROUND, **named: Any) -> PlayerState:
    known: dict[str, Any] = {"plays": 0, "day_plays": 0, "turns": 0, "suspended": False, "prizes": {}, "balances": {}}
    return PlayerState(name, **{**known, "grants": {}, **named}, read_in=read_in)


def mug(**named: Any) -> PrizeTerms:
    return replace(PrizeTerms("mug", "Mug", "goods", 0, 0, 0, "on_win", "none", True, 0, active=True), **named)


class Committer:
    """Says what it was asked to commit."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Changes]] = []
        self.go = asyncio.Event()

    async def commit(self, tenant_id: str, changes: Changes) -> dict[str, int | None]:
        self.asked.append((tenant_id, changes))
        await self.go.wait()
        return {}


@pytest.fixture
def actor() -> GameActor:
    clock = SimpleNamespace(now=lambda: NOW)
    settings = SimpleNamespace(session_ttl_seconds=100)
    engine = cast(Engine, SimpleNamespace(clock=clock, settings=settings, committer=Committer()))
    made = GameActor(engine, ("t", "g"))
    assert (made.round, made.compared_in, made.refreshed_at) == (0, 0, 0.0)
    made.round = made.compared_in = ROUND
    made.day, made.resets_at = date(2026, 11, 21), 99
    return made


def pending(request: Any, player_id: str = "ann", **named: Any) -> PendingRequest:
    work: Work[Any] = Work(request, asyncio.get_running_loop().create_future())
    return PendingRequest(work, request, player_id, **named)


def session(
    player_id: str = "ann", *, revision: str = HASH, ordinal: int = -1, age: float = 0, nonce: str = ""
) -> Session:
    milliseconds = int((NOW - age) * 1000)
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    stamp = "".join(digits[milliseconds >> 5 * place & 31] for place in range(9, -1, -1))
    key = cast(Any, None)
    return Session("", key, nonce or stamp + "0" * 16, "g", player_id, revision[:REVISION_CHARACTERS], ordinal, b"")


def told(asked: Callable[[], Any]) -> str:
    """The reason of its refusal; STALE where it wants a fresh look; empty where there is none."""
    try:
        asked()
    except Fault as fault:
        return fault.reason
    except StaleRead:
        return "STALE"
    return ""


# ---------------------------------------------------------------- refusals

CAPPED: Final = {"max_plays_per_user": 5, "max_plays_per_day": 2}

ADMITTED: Final[list[tuple[dict[str, Any], dict[str, Any], str | bool]]] = [
    # The game's terms, what the player is at: the refusal, or whether the play spends a turn.
    ({}, {"plays": 9, "day_plays": 9}, False),
    (CAPPED, {"plays": 4, "day_plays": 1}, False),
    (CAPPED, {"plays": 5}, "CAP_USER"),
    (CAPPED, {"plays": 6, "turns": 9}, "CAP_USER"),
    (CAPPED, {"plays": 4, "day_plays": 2}, "CAP_DAY"),
    (CAPPED, {"plays": 4, "day_plays": 2, "turns": 1}, True),
    ({"requires_turn": True}, {}, "NO_TURNS"),
    ({"requires_turn": True}, {"turns": 1}, True),
    ({**CAPPED, "requires_turn": True}, {"turns": 1, "day_plays": 1}, True),
    ({**CAPPED, "requires_turn": True}, {"turns": 1, "day_plays": 2}, "CAP_DAY"),
    ({**CAPPED, "requires_turn": True}, {"turns": 0, "day_plays": 1}, "NO_TURNS"),
    ({}, {"suspended": True}, "SUSPENDED"),
]


@pytest.mark.parametrize(("terms", "state", "expected"), ADMITTED)
def test_a_play_is_refused_by_the_cap_that_is_reached_and_read_just_now(
    actor: GameActor, terms: dict[str, Any], state: dict[str, Any], expected: str | bool
) -> None:
    snapshot = game(**terms)
    if isinstance(expected, bool):
        assert actor.admit(snapshot, somebody(**state, read_in=ROUND - 1)) is expected
        return
    with pytest.raises(StaleRead):
        actor.admit(snapshot, somebody(**state, read_in=ROUND - 1))
    with pytest.raises(Fault) as refused:
        actor.admit(snapshot, somebody(**state))
    assert refused.value.reason == expected
    facts = {
        "CAP_USER": {"limit": 5, "resets_at": 0},
        "CAP_DAY": {"limit": 2, "resets_at": 99},
        "NO_TURNS": {"resets_at": 0},
    }
    assert refused.value.facts == facts.get(expected, refused.value.facts)
    used = {"CAP_USER": f"{state.get('plays')} of 5 plays used", "CAP_DAY": "2 of 2 plays used today"}
    assert used.get(expected, refused.value.message) == refused.value.message


def test_a_guest_is_refused_where_the_game_is_for_players(actor: GameActor) -> None:
    for terms, guest, reason in (
        ({}, True, "LOGIN_REQUIRED"),
        ({}, False, ""),
        ({"access": "public"}, True, ""),
        ({"admits_guests": True}, True, ""),
    ):
        for read_in, expected in ((ROUND, reason), (ROUND - 1, reason and "STALE")):
            state = somebody(guest=guest, read_in=read_in)
            assert told(lambda terms=terms, state=state: actor.refuse_guest(game(**terms), state)) == expected  # type: ignore[misc]


SESSIONS: Final[list[tuple[str, int, int, str]]] = [
    # Of which revision, of which ordinal, after so many plays: what is told.
    (HASH, -1, 4, ""),
    (HASH, 4, 4, ""),
    (HASH, 0, 0, ""),
    (HASH, 3, 4, "SESSION_PLAYED"),
    (HASH, 0, 4, "SESSION_PLAYED"),
    (HASH, 5, 4, "SESSION_EXPIRED"),
    ("b" * 64, 4, 4, "GAME_CHANGED"),
]


@pytest.mark.parametrize(("revision", "ordinal", "plays", "reason"), SESSIONS)
def test_a_session_plays_the_game_and_the_plan_that_it_promised(
    actor: GameActor, revision: str, ordinal: int, plays: int, reason: str
) -> None:
    promised = session(revision=revision, ordinal=ordinal)
    assert told(lambda: actor.require_session(game(), promised, somebody(plays=plays))) == reason
    actor.compared_in = ROUND - 1
    state = somebody(plays=plays, read_in=ROUND - 1)
    assert told(lambda: actor.require_session(game(), promised, state)) == (reason and "STALE")


WITHHELD: Final[list[tuple[dict[str, Any], tuple[int | None, int, int], int, int, str]]] = [
    # The prize; what is left, went out today and how many codes there are; what the player has, and how many are asked.
    ({}, (1, 0, 0), 0, 1, ""),
    ({}, (1, 0, 0), 0, 2, "OUT_OF_STOCK"),
    ({}, (None, 9, 0), 9, 9, ""),
    ({"type": "points"}, (0, 0, 0), 0, 1, ""),
    ({"max_per_user": 1}, (9, 0, 0), 0, 1, ""),
    ({"max_per_user": 2}, (9, 0, 0), 1, 1, ""),
    ({"max_per_user": 2}, (9, 0, 0), 2, 1, "CAP_USER"),
    ({"max_per_user": 2}, (0, 0, 0), 1, 2, "CAP_USER"),
    ({"max_per_day": 2}, (9, 1, 0), 0, 1, ""),
    ({"max_per_day": 2}, (9, 2, 0), 0, 1, "CAP_DAY"),
    ({"max_per_day": 2}, (0, 2, 0), 0, 1, "OUT_OF_STOCK"),
    ({"channel": "voucher_code"}, (9, 0, 1), 0, 1, ""),
    ({"channel": "voucher_code"}, (9, 0, 1), 0, 2, "OUT_OF_STOCK"),
    ({"active": False}, (9, 0, 0), 0, 1, "OUT_OF_STOCK"),
]


@pytest.mark.parametrize(("terms", "there", "has", "asked", "reason"), WITHHELD)
def test_a_prize_is_withheld_for_the_reason_that_stands_longest(
    actor: GameActor, terms: dict[str, Any], there: tuple[int | None, int, int], has: int, asked: int, reason: str
) -> None:
    of = mug(**terms)
    held = {"mug": has} if has else {}
    actor.stock["mug"] = StockState(*there, read_in=ROUND)
    assert actor.withheld(of, somebody(prizes=held), asked) == reason
    if reason and of.active:
        actor.stock["mug"].read_in = ROUND - 1
        assert told(lambda: actor.withheld(of, somebody(prizes=held), asked)) == "STALE"
        actor.stock["mug"].read_in = ROUND
        assert told(lambda: actor.withheld(of, somebody(prizes=held, read_in=ROUND - 1), asked)) == "STALE"
    assert actor.withheld(None, somebody(), 1) == actor.withheld(mug(prize_id="gone"), somebody(), 1) == "OUT_OF_STOCK"


# ---------------------------------------------------------------- what a win leaves


def test_what_is_taken_is_remembered_of_stock_codes_day_and_player(actor: GameActor) -> None:
    state = somebody(prizes={"mug": 1})
    for terms, left, expected in (
        ({}, 9, (7, 3, 5)),
        ({"channel": "voucher_code"}, 9, (7, 3, 3)),
        ({"type": "points", "channel": "voucher_code"}, 9, (9, 3, 5)),
        ({}, None, (None, 3, 5)),
    ):
        actor.stock["mug"] = StockState(left, 1, 5, read_in=ROUND)
        actor.take(mug(**terms), state, 2)
        stock = actor.stock["mug"]
        assert (stock.remaining, stock.day_awarded, stock.codes) == expected
    assert state.prizes == {"mug": 9}
    newcomer = somebody()
    actor.take(mug(), newcomer, 2)
    assert newcomer.prizes == {"mug": 2}


def test_points_go_to_the_wallet_and_leave_a_reward_where_a_rung_gave_them(actor: GameActor) -> None:
    points = mug(type="points", value=20.0, max_per_user=3, max_per_day=4)
    for winner, reference, recorded in (
        (Winner("ann", "camp", actor.day, "g", "play_1", ""), "play_1", False),
        (Winner("ann", "camp", actor.day, "g", "", "rung"), "rung", True),
        (Winner("ann", "camp", actor.day, "g", "play_1", "rung"), "play_1", True),
    ):
        actor.stock["mug"] = StockState(None, 0, 0, read_in=ROUND)
        state, changes = somebody(balances={"points": 5}), Changes()
        [won] = actor.give(game(), state, points, 2, winner, changes)
        assert (won.prize_id, won.quantity, bool(won.reward_id)) == ("mug", 2, recorded)
        assert state.balances == {"points": 45} and len(changes.rewards) == recorded
        [entry] = changes.ledger
        assert (entry.amount, entry.reason, entry.reference_id) == (40, "play_reward", reference)
        [counted] = changes.prize_players.values()
        assert (counted.player_id, counted.quantity) == ("ann", 2) and not changes.stock
    actor.stock["mug"] = StockState(None, 0, 0, read_in=ROUND)
    changes = Changes()
    actor.give(game(), somebody(), replace(points, value=0.0), 1, winner, changes)
    assert changes.ledger == []


def test_turns_that_are_won_are_the_players_at_once(actor: GameActor) -> None:
    actor.stock["mug"] = StockState(9, 0, 0, read_in=ROUND)
    state = somebody(turns=1)
    winner = Winner("ann", "camp", actor.day, "g", "play_1", "")
    actor.give(game(), state, mug(type="turns", value=3.0), 2, winner, Changes())
    assert state.turns == 7 and actor.stock["mug"].remaining == 7


async def test_an_event_is_the_games_in_the_trace_of_its_request(actor: GameActor) -> None:
    asks = pending(m.PlayRequest())
    asks.work.trace_id = "c" * 32
    winner = Winner("ann", "camp", actor.day, "g", "play_1", "")
    event, second = (actor.event(prize_won(winner, mug(), 1, "r"), game(), asks, NOW, nth=nth) for nth in (0, 1))
    assert (event.type, event.tenant_id, event.merchant_id, event.campaign_id) == ("prize_won", "t", "shop", "camp")
    assert (event.trace_id, event.occurred_at) == ("c" * 32, int(NOW)) and event.id != second.id


async def test_a_look_is_all_that_a_decision_goes_by(actor: GameActor) -> None:
    asks = pending(m.PlayRequest())
    actor.snapshot = game()
    actor.players["ann"] = somebody(plays=1, balances={"coin": 1})
    actor.stock["mug"] = StockState(3, 1, 2, read_in=ROUND)
    look = actor.look_of(asks)
    assert look == actor.look_of(asks)
    actor.players["ann"].read_in = actor.stock["mug"].read_in = 1
    assert look == actor.look_of(asks)
    changes: list[tuple[Any, str, Any]] = [
        *((actor.players["ann"], name, 9) for name in ("plays", "day_plays", "turns", "busy_until")),
        *((actor.players["ann"], name, {"x": 1}) for name in ("prizes", "balances", "grants")),
        *((actor.stock["mug"], name, 9) for name in ("remaining", "day_awarded", "codes")),
        *((actor.snapshot, "version", 8), (actor, "day", date(2026, 11, 22))),
    ]
    for of, name, value in changes:
        before = getattr(of, name)
        setattr(of, name, value)
        assert look != actor.look_of(asks), name
        setattr(of, name, before)
    assert look == actor.look_of(asks)
    newcomer = actor.state_of(pending(m.StartRequest(), "new", newcomer=True))
    assert newcomer == somebody("new") and "new" not in actor.players


# ---------------------------------------------------------------- a batch


async def test_twins_have_a_key_or_a_session_in_common() -> None:
    keyed = KeyedRequest("ann", "k", b"")
    assert _marks(pending(m.StartRequest())) == set()
    assert _marks(pending(m.RedeemRequest(), asked=keyed)) == {("ann", "k")}
    played = pending(m.PlayRequest(), session=session(nonce="n" * 26), asked=keyed)
    assert _marks(played) == {("ann", "k"), ("n" * 26,)}


def batch_of(snapshot: GameSnapshot, *decided: PendingRequest) -> Batch:
    batch = Batch([], snapshot, Changes(snapshot.version))
    batch.decisions += [Decision(one, None) for one in decided]
    return batch


async def test_what_may_yet_be_undone_is_waited_for_by_what_shows_it() -> None:
    play, other = pending(m.PlayRequest()), pending(m.PlayRequest(), "bob")
    for decided, asks, follows in (
        ((), m.PlayRequest(), False),
        ((play,), m.PlayRequest(), True),
        ((other,), m.PlayRequest(), False),
        ((other,), m.RedeemRequest(), True),
        ((), m.RedeemRequest(), False),
    ):
        assert _follows(batch_of(game(), *decided), pending(asks)) == follows
    for shows_plan, shows, shown in (
        (False, m.StartRequest(), False),
        (True, m.StartRequest(), True),
        (True, m.PlayRequest(), False),
        (False, m.EligibilityRequest(), True),
        (False, m.ListMilestonesRequest(), True),
    ):
        batch = batch_of(game(shows_plan=shows_plan), play)
        assert _shows_what_follows(batch, pending(shows)) == shown, shows
        assert not _shows_what_follows(batch, pending(shows, "bob"))


async def test_who_brings_anothers_session_is_refused_and_nobody_else() -> None:
    mine, theirs = pending(m.PlayRequest(), "ann"), pending(m.PlayRequest(), "ann", bearer="eve")
    assert _own_sessions([mine]) == [mine]
    assert _own_sessions([mine, theirs]) == [mine] and not mine.work.answered
    assert cast(Fault, theirs.work.future.exception()).reason == "SESSION_INVALID"


async def test_access_is_told_before_the_games_rules(actor: GameActor) -> None:
    ann, guest = somebody(), somebody(GUEST, guest=True)
    actor.players |= {"ann": ann, GUEST: guest}
    nobody = {"anonymous": True, "newcomer": True}
    merged = m.StartRequest(player_id=GUEST)
    for asks, terms, reason in (
        (pending(m.StartRequest(player_id="ann")), {}, ""),
        (pending(merged, "ann"), {}, "PLAYER_MERGED"),
        (pending(m.StartRequest(player_id="ann")), {"status": "draft"}, "UNKNOWN_GAME"),
        (pending(m.StartRequest(), GUEST, **nobody), {}, "TOKEN_MISSING"),
        (pending(m.StartRequest(), GUEST, **nobody), {"access": "public"}, ""),
        (pending(m.EligibilityRequest(), GUEST, **nobody), {}, ""),
        (pending(m.PlayRequest(), GUEST, session=session(GUEST)), {}, "LOGIN_REQUIRED"),
        (pending(m.RedeemRequest(), GUEST), {}, ""),
        (pending(m.PlayRequest(), session=session(age=99.9)), {}, ""),
        (pending(m.PlayRequest(), session=session(age=100)), {}, ""),
        (pending(m.PlayRequest(), session=session(age=100.1)), {}, "SESSION_EXPIRED"),
        (pending(m.PlayRequest(), session=session()), {"status": "draft"}, ""),
    ):
        assert told(lambda asks=asks, terms=terms: _check_access(actor, game(**terms), asks)) == reason, asks  # type: ignore[misc]


async def test_of_a_game_that_is_not_shown_only_who_has_something_there_hears(actor: GameActor) -> None:
    for asks, state, reason in (
        (m.StartRequest(), {"plays": 1}, "UNKNOWN_GAME"),
        (m.EligibilityRequest(), {"plays": 1}, "UNKNOWN_GAME"),
        (m.ListMilestonesRequest(), {"plays": 1}, ""),
        (m.RedeemRequest(), {"grants": {"mug": 1}}, ""),
        (m.RedeemRequest(), {}, "UNKNOWN_GAME"),
    ):
        actor.players["ann"] = somebody(**state)
        assert told(lambda asks=asks: _refuse_unshown(actor, pending(asks))) == reason, asks  # type: ignore[misc]
    actor.players["ann"] = somebody(read_in=ROUND - 1)
    assert told(lambda: _refuse_unshown(actor, pending(m.RedeemRequest()))) == "STALE"
    actor.compared_in = ROUND - 1
    assert told(lambda: _refuse_unshown(actor, pending(m.StartRequest()))) == "STALE"


async def test_a_guard_that_refuses_what_looks_the_same_again_and_again_is_given_up() -> None:
    asks = pending(m.PlayRequest())
    batch = batch_of(game(), asks)
    assert not _contradicted(batch, Guarded("play_cap"))
    found = []
    for look in ("a", "a", "b", "b", "b"):
        batch.look = look
        found.append(_contradicted(batch, Guarded("play_cap")))
    assert found == [False, False, False, False, True] and CONTRADICTIONS_MAX == 2
    assert not _contradicted(batch, Guarded("codes"))


async def test_who_plays_in_what_is_committed_is_known_where_it_counts(actor: GameActor) -> None:
    committer = cast(Committer, actor.engine.committer)
    assert _begin_commit(actor, batch_of(game())) is None and not actor.committing
    for terms, counted, history in (
        ({}, set(), False),
        ({"shows_plan": True}, {"ann"}, False),
        ({"max_plays_per_day": 1}, {"ann"}, False),
        ({"played": False}, set(), True),
    ):
        committer.go.clear()
        commit = _begin_commit(actor, batch_of(game(**terms), pending(m.PlayRequest())))
        assert commit is not None and actor.committing == {commit: frozenset(counted)}, terms
        committer.go.set()
        await commit
        await asyncio.sleep(0)
        assert not actor.committing
        tenant_id, changes = committer.asked[-1]
        assert tenant_id == "t" and bool(changes.debuts) == history


class Further(Exception):
    """The play is decided."""


class Rules:
    @property
    def seed_generator(self) -> Any:
        raise Further


async def test_no_turn_is_spent_beside_a_play_that_may_yet_be_undone(actor: GameActor) -> None:
    """Where that one is undone, a free play is left."""
    under_way = asyncio.get_running_loop().create_future()
    its = SimpleNamespace(revision=HASH[:REVISION_CHARACTERS], ordinal=-1, seed=b"")
    asks = pending(m.PlayRequest(), session=cast(Session, its))
    for requires, day_plays, committing, expected in (
        (False, 1, {"ann", "bob"}, StaleRead),
        (False, 1, {"bob"}, Further),
        (False, 0, {"ann"}, Further),
        (True, 0, {"ann"}, Further),
    ):
        named = {"requires_turn": requires, "max_plays_per_day": 1, "max_plays_per_user": 0, "revision_hash": HASH}
        terms = SimpleNamespace(refuse_unless_open=lambda now: None, rules=Rules(), **named)
        actor.players["ann"] = somebody(day_plays=day_plays, turns=1)
        actor.committing = {under_way: frozenset(committing)}
        with pytest.raises(expected):
            play(actor, cast(GameSnapshot, terms), asks, Changes())


# ---------------------------------------------------------------- memory


async def test_stock_that_others_left_shows_in_the_next_round_but_not_beside_a_commit(actor: GameActor) -> None:
    actor.stock = {"mug": StockState(9, 0, 0, read_in=1), "tee": StockState(9, 0, 0, read_in=1)}
    actor.note_stock({"mug": 4, "hat": 2})
    actor._take_over_stock()
    assert {name: one.remaining for name, one in actor.stock.items()} == {"mug": 4, "tee": 9} and not actor.left
    under_way: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    actor.note_stock({"mug": 3})
    actor.committing[under_way] = frozenset()
    actor._take_over_stock()
    assert actor.stock["mug"].remaining == 4 and not actor.left
    actor.note_stock({"mug": 2})
    assert not actor.left


async def test_commits_are_waited_for_by_the_starts_that_show_what_they_leave(actor: GameActor) -> None:
    loop = asyncio.get_running_loop()
    of_ann, of_nobody = loop.create_future(), loop.create_future()
    actor.committing = {of_ann: frozenset({"ann"}), of_nobody: frozenset()}
    start, play, other = pending(m.StartRequest()), pending(m.PlayRequest()), pending(m.StartRequest(), "bob")
    assert actor._commits_before([start], everything=False) == []
    actor.snapshot = game(shows_plan=True)
    for requests, everything, waited in (
        ([start], False, [of_ann]),
        ([play], False, []),
        ([other], False, []),
        ([other, start], False, [of_ann]),
        ([play], True, [of_ann, of_nobody]),
    ):
        assert actor._commits_before(requests, everything=everything) == waited
    actor.snapshot = game()
    assert actor._commits_before([start], everything=False) == []


async def test_nothing_is_forgotten_before_what_is_being_committed_can_be_read(actor: GameActor) -> None:
    under_way = asyncio.get_running_loop().create_future()
    actor.committing[under_way] = frozenset()
    actor.players["ann"], actor.merged[GUEST], actor.refreshed_at = somebody(), "ann", NOW
    actor.stock["mug"] = StockState(9, 0, 0, read_in=1)
    forgetting = asyncio.ensure_future(actor._forget())
    await asyncio.sleep(0)
    assert actor.players and actor.stock and not forgetting.done()
    under_way.set_result(None)
    await forgetting
    assert not actor.players and not actor.merged and not actor.stock and actor.refreshed_at == 0.0


async def test_what_came_for_guests_is_turned_to_who_they_are(actor: GameActor) -> None:
    asks, other = pending(m.PlayRequest(), GUEST), pending(m.PlayRequest(), "bob")
    assert not actor._follow_merged([asks, other])
    actor.merged[GUEST] = "ann"
    assert actor._follow_merged([asks, other])
    assert (asks.player_id, other.player_id) == ("ann", "bob")


def test_distrust_of_the_game_outlives_distrust_of_what_is_read(actor: GameActor) -> None:
    assert (actor.distrusted, actor.outdated) == (False, False)
    actor.distrust()
    assert (actor.distrusted, actor.outdated) == (True, False)
    actor.distrust(snapshot=True)
    actor.distrust()
    assert (actor.distrusted, actor.outdated) == (True, True)


@pytest.mark.parametrize(
    ("ordinal", "busy_until", "spends", "requires", "cap", "day_cap", "exact"),
    [
        (-1, 0, False, False, 9, 8, False),
        # Decided for this ordinal or none, and from this moment or none: that no rival played in between is the cap.
        (0, 0, False, False, 5, 8, True),
        (-1, 1, False, False, 5, 8, True),
        # What a turn pays for is beyond the free plays of the day, but where every play needs one.
        (-1, 0, True, False, 9, 3, False),
        (-1, 0, True, True, 9, 8, False),
    ],
)
def test_a_play_is_counted_as_it_was_decided(
    ordinal: int, busy_until: int, spends: bool, requires: bool, cap: int, day_cap: int, exact: bool
) -> None:
    actor = cast(GameActor, SimpleNamespace(game_id="game", day=date(2026, 9, 21), resets_at=7))
    session = cast(Session, SimpleNamespace(ordinal=ordinal, play_id="play_x"))
    terms = game(max_plays_per_user=9, max_plays_per_day=8, requires_turn=requires)
    player, changes = somebody(plays=4, day_plays=2, turns=5), Changes()
    _count(actor, terms, player, session, spends, busy_until, changes)
    counted = changes.play_counts["game", "ann"]
    assert (counted.cap, counted.day_cap, counted.exact, counted.busy_until) == (cap, day_cap, exact, busy_until)
    assert (player.plays, player.day_plays, player.busy_until, player.turns) == (5, 3, busy_until, 5 - spends)
    assert [(entry.amount, entry.balance_after) for entry in changes.turn_entries] == [(-1, 4)] * spends


@pytest.mark.parametrize("guest", [True, False])
def test_what_a_guest_plays_holds_as_long_as_it_is_one(guest: bool) -> None:
    actor = cast(GameActor, SimpleNamespace(game_id="game", day=date(2026, 9, 21), resets_at=7))
    changes = Changes()
    played = cast(Session, SimpleNamespace(ordinal=-1, play_id="play_x"))
    _count(actor, game(), somebody(guest=guest), played, False, 0, changes)
    assert [one.player_id for one in changes.guests.values()] == ["ann"] * guest


def test_a_session_ends_in_time_and_is_of_an_ordinal_where_it_shows_a_plan(
    actor: GameActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued: list[int] = []

    def issue(*_: Any, ordinal: int) -> Any:
        issued.append(ordinal)
        return SimpleNamespace(token="sess_x", seed=b"seed", issued_ms=5_999)

    monkeypatch.setattr(decide, "issue", issue)
    vars(actor.engine)["keyring"] = SimpleNamespace(server=None)
    rules = SimpleNamespace(config=None, seed_generator=SimpleNamespace(plan=lambda *_: ()))
    for shows in (False, True):
        opened = decide._session(actor, game(shows_plan=shows, rules=rules), somebody(plays=3), NOW)
        assert opened.expires_at == 5 + actor.engine.settings.session_ttl_seconds
    assert issued == [-1, 3]


def test_a_play_takes_the_time_that_it_says_and_is_refused_by_a_fresh_look(actor: GameActor) -> None:
    issued_ms = 1_000_000
    played = cast(Session, SimpleNamespace(issued_ms=issued_ms))

    def checked(took_ms: int | None, busy_until: int = 0, *, fresh: bool = True) -> int:
        def check(*_: Any) -> int:
            if took_ms is None:
                raise Fault(Status.FAILED_PRECONDITION, "TOO_FAST", "too fast")
            return took_ms

        terms = game(rules=SimpleNamespace(validator=SimpleNamespace(check=check), reward_handler=None, config=None))
        player = somebody(busy_until=busy_until, read_in=ROUND if fresh else ROUND - 1)
        return decide._check(actor, terms, player, played, {}, (), issued_ms + 60_000)

    assert checked(0) == 0
    assert checked(700) == issued_ms + 700
    assert checked(700, issued_ms + 2_000) == issued_ms + 2_700
    # Only where it is by what is remembered of earlier plays may a fresh look be kinder.
    for busy_until, fresh, expected in (
        (issued_ms, False, "TOO_FAST"),
        (issued_ms + 1, False, "STALE"),
        (issued_ms + 1, True, "TOO_FAST"),
    ):
        assert told(lambda at=busy_until, fresh=fresh: checked(None, at, fresh=fresh)) == expected  # type: ignore[misc]


async def test_a_play_and_each_of_its_prizes_is_told_of_once() -> None:
    def event(data: Any, *_: Any, nth: int = -1) -> Any:
        return type(data).__name__, getattr(data, "reward_id", ""), getattr(data, "milestone_id", ""), nth

    actor: Any = SimpleNamespace(game_id="game", event=event)
    reply = m.PlayReply(
        play_id="play_x",
        rewards=[
            m.WonReward(prize_id="mug", reward_id="r1", quantity=1),
            m.WonReward(name="coin", type="item", quantity=5),
            m.WonReward(prize_id="mug", reward_id="r2", quantity=1),
        ],
        milestones_granted=[m.GrantedMilestone(id="cup", prize_id="mug", reward_id="r3")],
    )
    outcome: Any = SimpleNamespace(score=7)
    winner = Winner("ann", "camp", date(2026, 11, 26), "game", "play_x")
    about = (game(prizes={"mug": mug()}), pending(m.PlayRequest()), winner, outcome, reply, 0, NOW)
    assert decide._events(actor, *about) == [
        ("PlayCompleted", "", "", -1),
        ("PrizeWon", "r1", "", 0),
        ("PrizeWon", "r2", "", 1),
        ("PrizeWon", "r3", "cup", 2),
    ]
