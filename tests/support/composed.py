"""Arguments of statements whose arguments hang together: arrays of a length, and what was read before."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from ops.simulation.postgres.values import datetime_of, loads
from runtime.actors import changes as c
from tests.support.batches import SCHEDULE, TENANT, TODAY, Draw

COMPOSED: dict[str, Callable[[Draw], tuple[Any, ...]]] = {}


def composed(name: str) -> Callable[[Callable[[Draw], tuple[Any, ...]]], Callable[[Draw], tuple[Any, ...]]]:
    def register(compose: Callable[[Draw], tuple[Any, ...]]) -> Callable[[Draw], tuple[Any, ...]]:
        COMPOSED[name] = compose
        return compose

    return register


# -- what a batch commits --------------------------------------------------------------------------


def changes(draw: Draw) -> c.Changes:
    """A batch of a player: what a play, a redeem or a finalized board moves, mostly as it is by then."""
    made = c.Changes(draw.version() if draw.random.random() < 0.2 else 0)
    player_id, game_id = draw.somebody(), draw.game()
    parts = (_play, _turns, _balance, _prize, _reward, _grant, _award, _holds)
    for part in draw.random.sample(parts, draw.random.choice([1, 2, 3, 4])):
        part(draw, made, player_id, game_id)
    return made


def _play(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    play_id = draw.play() if draw.random.random() < 0.1 else draw.new("play")
    key = draw.key() if draw.random.random() < 0.3 else None
    kept = [row.revision_hash for row in draw.rows("promised_terms")]
    promised = draw.random.choice(kept)[:32] if kept and draw.flag() else "none"
    rewards = [{"prize_id": draw.prize(), "type": "points", "quantity": 2, "value": 3.0}] if draw.flag() else []
    outcome = {"rewards": rewards, "milestones_granted": []}
    made.plays.append(
        c.NewPlay(
            play_id=play_id,
            game_id=game_id,
            player_id=player_id,
            session_id=f"sess_a.b.{promised}.c",
            revision=1,
            seed=b"seed",
            client_seed="",
            payload={"score": 1},
            outcome=msgspec.json.encode(outcome),
            score=draw.random.choice([0, 5, 10]),
            wins=len(rewards),
            points=6 * len(rewards),
            idempotency_key=key,
            request_hash=draw.hash() if key else None,
        )
    )
    cap, day_cap, exact = draw.random.choice([*[(0, 0, False)] * 4, (4, 0, False), (0, 2, False), (1, 0, True)])
    day_ends = draw.random.choice([0, 0, 0, 0, 1_600_000_000, 1_900_000_000])
    caps = {"cap": cap, "day_cap": day_cap, "day_ends": day_ends, "exact": exact}
    made.count_play(game_id, player_id, draw.day(), **caps, busy_until=draw.random.choice([0, 5, 9]))
    if rewards:
        before = _balance_of(draw, player_id, "campaign_a", "points")
        own = ("campaign_a", "points", before, 6, "play_reward", play_id)
        made.move_balance(draw.new("entry"), player_id, *own)


def _balance_of(draw: Draw, player_id: str, scope_key: str, currency: str) -> int | None:
    for row in draw.rows("balances"):
        if (row.player_id, row.scope_key, row.currency) == (player_id, scope_key, currency):
            return int(row.balance) + (draw.random.random() < 0.05)
    return None


def _turns(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    if draw.random.random() < 0.3:  # Won by who has none, or by who is thought to have none.
        made.move_turns(draw.new("entry"), player_id, draw.campaign(), 0, 3, "prize", draw.reward())
        return
    for row in draw.rows("turn_balances"):
        if row.player_id == player_id and row.balance > 0:
            before = row.balance + (draw.random.random() < 0.1)
            made.move_turns(draw.new("entry"), player_id, row.campaign_id, before, -1, "play", game_id)
            return


def _balance(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    before = _balance_of(draw, player_id, TENANT, "coin")
    reward_id = draw.random.choice(["", draw.reward()])
    made.move_balance(
        draw.new("entry"), player_id, TENANT, "coin", before, draw.amount(), "milestone_spend", game_id, reward_id
    )


def _prize(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    caps = {"per_user": draw.random.choice([0, 0, 2]), "per_day": draw.random.choice([0, 0, 3])}
    made.take_prize(draw.prize(), player_id, 1, TODAY, stocked=True, **caps)


def _reward(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    for _ in range(draw.one_or_two()):
        reward_id, prize_id = draw.new("reward"), draw.random.choice(["prize_c", "prize_d", draw.prize()])
        status = draw.random.choice(["won", "won", "won", "fulfilled"])
        play_id = made.plays[0].play_id if made.plays and draw.flag() else ""
        own = ("", "A name 1", "coupon", 2.5, 1, status, draw.random.choice([0, 30]))
        made.rewards.append(c.NewReward(reward_id, player_id, prize_id, "campaign_a", game_id, play_id, *own))
        if prize_id in ("prize_c", "prize_d") and draw.flag():
            made.take_code(reward_id, prize_id)
        if draw.flag():
            status = "delivered" if status == "fulfilled" else "pending"
            channel = draw.random.choice(["webhook", "manual"])
            own = (reward_id, prize_id, "campaign_a", player_id, channel, status)
            made.tasks.append(c.NewTask(draw.new("task"), *own))


def _grant(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    key = draw.key() if draw.flag() else None
    reward_id = made.rewards[0].reward_id if made.rewards else draw.reward()
    own = (key, draw.hash() if key else None, b'{"a":1}' if key else None)
    milestone_id = draw.random.choice(["rung_a", "rung_b", "rung_c"])
    made.grants.append(c.NewGrant(game_id, player_id, milestone_id, reward_id, *own))


def _award(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    if draw.flag():
        made.awards.append(c.StandingAward(draw.board(), draw.one_or_two(), draw.new("reward")))


def _holds(draw: Draw, made: c.Changes, player_id: str, game_id: str) -> None:
    if draw.flag():
        made.hold_guest(draw.guest())
    else:
        made.catalog_version = draw.version()
        made.begin_history(game_id)


# -- the others ------------------------------------------------------------------------------------


@composed("play.keep_terms")
def keep_terms(draw: Draw) -> tuple[Any, ...]:
    terms = f"terms {draw.random.randrange(6)}".encode()
    return TENANT, sha256(terms).hexdigest(), draw.game(), terms, draw.version()


@composed("play.terms")
def terms(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.some("promised_terms", "revision_hash"), draw.asking(), draw.flag()


@composed("play.refresh")
def refresh(draw: Draw) -> tuple[Any, ...]:
    players = draw.players()
    new = [draw.new("player")] if draw.random.random() < 0.2 else []
    prizes = draw.prizes()
    scope_key = draw.random.choice(["campaign_a", TENANT])
    return TENANT, draw.game(), players, prizes, [*players, *new], "campaign_a", scope_key, draw.day()


@composed("play.set_back")
def set_back(draw: Draw) -> tuple[Any, ...]:
    ends = draw.random.choice([1_600_000_000, 1_999_999_999])
    return TENANT, draw.game(), draw.players(), draw.day(), ends


@composed("play.find")
def find(draw: Draw) -> tuple[Any, ...]:
    players = draw.players()
    keys = [draw.key() for _ in players]
    return TENANT, list({draw.play() for _ in range(3)}), players, keys, draw.game()


@composed("play.find_redeems")
def find_redeems(draw: Draw) -> tuple[Any, ...]:
    players = [row.player_id for row in draw.rows("milestone_grants") if row.idempotency_key][:4]
    return TENANT, players, [draw.key() for _ in players], draw.game()


@composed("claims.claim")
def claim(draw: Draw) -> tuple[Any, ...]:
    wanted = draw.rows("rewards")
    rows = draw.random.sample(wanted, min(len(wanted), 4))
    players = [row.player_id if draw.random.random() < 0.9 else "nobody" for row in rows]
    keys = [draw.random.choice([None, f"key {row.reward_id}"]) for row in rows]
    tasks = [draw.new("task") for _ in rows]
    answers = [draw.random.choice([{}, {"size": draw.random.choice(["M", "XL"])}, {"note": "x" * 201}]) for _ in rows]
    return TENANT, [row.reward_id for row in rows], players, keys, tasks, ["none", "voucher_code"], answers


@composed("quests.complete")
def complete(draw: Draw) -> tuple[Any, ...]:
    quest = draw.random.choice(draw.rows("quests"))
    key = draw.random.choice([None, draw.key()])
    period = draw.random.choice(["once", "2026-11-20", "2026-11-21"])
    player_id = draw.somebody() if draw.random.random() < 0.9 else draw.new("player")
    own = (period, quest.type, quest.turns + (draw.random.random() < 0.1), quest.campaign_id)
    kept = (draw.new("entry"), key, draw.hash() if key else None, draw.new("event"))
    looked = None if quest.condition is None else loads(quest.condition)
    since = draw.random.choice([0, 0, 1_900_000_000])
    return TENANT, quest.quest_id, player_id, *own, *kept, looked, since


@composed("codes.add")
def add(draw: Draw) -> tuple[Any, ...]:
    count = draw.random.choice([1, 4])
    ids = [draw.new("code") for _ in range(count)]
    key_ids = [draw.random.choice(["1", "1", "2", "old" if draw.random.random() < 0.1 else "1"]) for _ in ids]
    hashes = [draw.random.randbytes(1) + b"!" for _ in ids]
    arrays = (ids, key_ids, [b"sealed" for _ in ids], hashes, [hashes[0]], [ids[0]])
    ends = [draw.random.choice([0, 1_700_000_000, 1_900_000_000]) for _ in ids]
    return TENANT, draw.coded_prize(), *arrays, draw.asking(), ends


@composed("codes.hold")
def hold_codes(draw: Draw) -> tuple[Any, ...]:
    return some_codes(draw)


@composed("codes.withdraw")
def withdraw(draw: Draw) -> tuple[Any, ...]:
    return some_codes(draw)


@composed("codes.ending_otherwise")
def ending_otherwise(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.coded_prize(), draw.random.choice(["free", "expired"]), *_ends(draw), 2


@composed("codes.set_expiry")
def set_expiry(draw: Draw) -> tuple[Any, ...]:
    return *some_codes(draw), draw.random.choice(["", "", "free", "expired"]), *_ends(draw)


def _ends(draw: Draw) -> tuple[int, int]:
    """When codes end now, mostly whenever, and when they shall."""
    return draw.random.choice([0, 0, 1_700_000_000, 1_900_000_000]), draw.random.choice([0, 1_900_000_000])


@composed("codes.states")
def some_codes(draw: Draw) -> tuple[Any, ...]:
    """A pool, and a few of its codes; one of them is another's, now and then."""
    prize_id, codes = draw.coded_prize(), draw.rows("codes")
    own = [row.code_id for row in codes if row.prize_id == prize_id or draw.random.random() < 0.1]
    return TENANT, prize_id, draw.random.sample(own, min(len(own), 2))


@composed("rewards.hold_movements")
def hold_movements(draw: Draw) -> tuple[Any, ...]:
    entries = [row for row in draw.rows("ledger_entries") if row.reward_id]
    row = draw.random.choice(entries) if entries else None
    return TENANT, row.player_id if row else "nobody", row.reward_id if row else "none"


@composed("rewards.take_turns")
def take_turns(draw: Draw) -> tuple[Any, ...]:
    given = [row for row in draw.rows("rewards") if row.type == "turns"]
    row = draw.random.choice(given) if given and draw.random.random() < 0.9 else None
    return TENANT, row.player_id if row else draw.somebody(), row.reward_id if row else draw.reward(), draw.new("turn")


@composed("merging.turns")
def turns(draw: Draw) -> tuple[Any, ...]:
    guest = draw.guest()
    rows = [row for row in draw.rows("quest_completions") if row.player_id == guest]
    return TENANT, guest, [row.quest_id for row in rows], [row.period for row in rows]


@composed("merging.give_turns")
def give_turns(draw: Draw) -> tuple[Any, ...]:
    guest = draw.guest()
    rows = [row for row in draw.rows("turn_balances") if row.player_id == guest and row.balance > 0]
    kept = [draw.random.choice([0, row.balance - 1]) for row in rows]
    amounts = [row.balance - stays for row, stays in zip(rows, kept, strict=True)]
    left, right = ([draw.new("entry") for _ in rows] for _ in range(2))
    return TENANT, guest, draw.registered(), [row.campaign_id for row in rows], amounts, left, right, kept


@composed("merging.note_surplus")
def note_surplus(draw: Draw) -> tuple[Any, ...]:
    plays = sorted({draw.play(), draw.play()})
    return TENANT, plays, [draw.random.choice([0, 1, 9]) for _ in plays], [draw.random.choice([0, 3, 9]) for _ in plays]


@composed("merging.move_ledger")
def move_ledger(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.guest(), draw.registered()


@composed("merging.move_prize_counts")
def move_prize_counts(draw: Draw) -> tuple[Any, ...]:
    prizes = draw.prizes()
    return TENANT, draw.guest(), draw.registered(), prizes, [draw.random.choice([0, 1, 9]) for _ in prizes]


def _board(draw: Draw, board_id: str) -> tuple[Any, ...]:
    campaign_id = draw.random.choice([row.campaign_id for row in draw.rows("campaigns")])
    games = [row.game_id for row in draw.rows("games") if row.campaign_id == campaign_id]
    game_id = draw.random.choice(["", *games, draw.game()])
    metric = draw.random.choice(["score", "plays", "wins", "points"])
    mode = draw.random.choice(["sum", "best", "latest"])
    prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": draw.prize()}]
    end = draw.random.choice([0, 0, 1_700_000_000])
    return TENANT, board_id, campaign_id, game_id, draw.name(), metric, mode, 0, end, prizes, draw.asking()


@composed("leaderboards.insert")
def insert_board(draw: Draw) -> tuple[Any, ...]:
    return _board(draw, draw.new("board"))


@composed("leaderboards.update")
def update_board(draw: Draw) -> tuple[Any, ...]:
    return _board(draw, draw.board())


@composed("leaderboards.keep_standings")
def keep_standings(draw: Draw) -> tuple[Any, ...]:
    players = draw.players()
    prizes = [draw.random.choice(["", draw.prize()]) for _ in players]
    names = [draw.name() for _ in players]
    return TENANT, draw.board(), players, names, [9 for _ in players], [1_700_000_000_000_123 for _ in players], prizes


@composed("leaderboards.remove")
def remove_board(draw: Draw) -> tuple[Any, ...]:
    tables = ("leaderboard_adjustments", "leaderboard_disqualifications")
    used = {row.board_id for table in tables for row in draw.rows(table)}
    played = {row.game_id for row in draw.rows("game_players")}
    campaigns = {row.campaign_id for row in draw.rows("games") if row.game_id in played}
    found = [row for row in draw.rows("leaderboards") if row.board_id not in used and row.campaign_id not in campaigns]
    spare = [row.board_id for row in found if row.status == "active" and row.game_id not in played]
    return TENANT, draw.random.choice(spare or [draw.board()])


@composed("games.boards_that_count")
def boards_that_count(draw: Draw) -> tuple[Any, ...]:
    found = [row.game_id for row in draw.rows("leaderboards") if row.game_id and row.status == "active"]
    return TENANT, draw.random.choice([*found, draw.game()])


@composed("integrations.prune_deliveries")
def prune_deliveries(draw: Draw) -> tuple[Any, ...]:
    told = [row.integration_id for row in draw.rows("integration_deliveries") if row.status != "retry"]
    return TENANT, draw.random.choice([*told, draw.integration()]), 1


@composed("leaderboards.withhold")
def withhold(draw: Draw) -> tuple[Any, ...]:
    owed = [row for row in draw.rows("leaderboard_standings") if row.reason == "PENDING"]
    board_id, rank = draw.random.choice([(row.board_id, row.rank) for row in owed] or [("board_0", 1)])
    return TENANT, board_id, rank, "OUT_OF_STOCK"


def _rooms(draw: Draw) -> tuple[list[str], list[int]]:
    prizes = draw.prizes() if draw.flag() else []
    return prizes, [draw.random.choice([0, 1, 5]) for _ in prizes]


@composed("fulfillment.lock_due")
def lock_due(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.many(), *_rooms(draw)


@composed("fulfillment.lease")
def lease(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.seconds(), draw.every_task(), draw.random.choice(["lease_a", "lease_b"]), *_rooms(draw)


@composed("fulfillment.record")
def record(draw: Draw) -> tuple[Any, ...]:
    leased = [row for row in draw.rows("tasks") if row.status == "delivering"]
    rows = draw.random.sample(leased, min(len(leased), 4))
    owners = [row.lease_owner if draw.random.random() < 0.9 else "nobody" for row in rows]
    words = ["delivered", "awaiting", "awaiting", "awaiting", "retry", "dead", "put_back"]
    statuses = [draw.random.choice(words) for _ in rows]
    delays = [draw.random.choice([0.0, 0.00001, 0.00001, 60.0]) for _ in rows]
    texts = ([draw.random.choice(["", word]) for _ in rows] for word in ("oops", "ext"))
    told = [draw.random.choice(["", "ok"]) for _ in rows], [draw.random.choice([0, 7]) for _ in rows]
    return TENANT, [row.task_id for row in rows], owners, statuses, *texts, delays, *told


@composed("gaps.keep")
def keep(draw: Draw) -> tuple[Any, ...]:
    marks = draw.rows("event_marks")
    lease = datetime_of(marks[0].leased_until) if marks else draw.long_ago()
    return TENANT, draw.long_ago(), draw.past_seconds(), lease


@composed("integrations.note_deliveries")
def note_deliveries(draw: Draw) -> tuple[Any, ...]:
    found = [row.integration_id for row in draw.rows("integrations")]
    pairs = sorted({(draw.random.choice([*found, "gone"]), draw.event()) for _ in range(4)})
    columns: list[list[Any]] = [[] for _ in range(12)]
    for integration_id, event_id in pairs:
        status = draw.random.choice(["delivered", "stubbed", "retry", "retry", "dead"])
        tells = status == "retry" or draw.random.random() < 0.5
        attempts, pause = draw.random.choice([0, 1, 9]), draw.random.choice([-60.0, 0.0, 600.0])
        event = {"id": event_id, "told": attempts} if tells else None
        own = (integration_id, draw.new("delivery"), event_id, "play.completed", status, attempts, event)
        answer = draw.random.choice(["", "ok"])
        for column, value in zip(columns, (*own, 200, "", 3, pause, answer), strict=True):
            column.append(value)
    return TENANT, *columns, [-60.0, *SCHEDULE], draw.random.choice([0.0, 86_400.0])


@composed("integrations.delivery")
def delivery(draw: Draw) -> tuple[Any, ...]:
    rows = draw.rows("integration_deliveries")
    one = draw.random.choice(rows) if rows else None
    ids = (one.integration_id, one.delivery_id) if one else ("gone", "gone")
    return TENANT, *ids, draw.random.choice(["", "merchant_a"])


@composed("integrations.lease_retries")
def lease_retries(draw: Draw) -> tuple[Any, ...]:
    found = [row.integration_id for row in draw.rows("integrations")]
    return TENANT, found, [draw.random.choice([1, 5]) for _ in found], draw.seconds()


@composed("games.revise")
def revise(draw: Draw) -> tuple[Any, ...]:
    game = draw.random.choice(draw.rows("games"))
    revision = game.revision - (draw.random.random() < 0.1)
    return TENANT, game.game_id, revision, draw.name(), "wheel", draw.active(), draw.definition()


def _prize_fields(draw: Draw) -> tuple[Any, ...]:
    kind = draw.random.choice(["coupon", "points"])
    mode = draw.random.choice(["on_win", "on_claim", "manual"])
    channel = draw.random.choice(["none", "webhook", "voucher_code", "manual"])
    campaign_id, cap = draw.random.choice(["", "campaign_a"]), draw.random.choice([0, 0, 2])
    content = (draw.name(), "https://example.com/mug.png", draw.name(), draw.random.choice(["", "EUR"]))
    low = draw.random.choice([0, 3])
    told = (*content, low, _claim_fields(draw))
    return draw.name(), kind, 2.5, campaign_id, cap, 0, mode, channel, draw.config(), 0, "active", *told


def _claim_fields(draw: Draw) -> list[dict[str, Any]]:
    """Of one prize in two a choice, with a text beside it or without."""
    size = {"key": "size", "label": draw.name(), "kind": "choice", "options": ["M", "L"]}
    note = {"key": "note", "label": draw.name(), "kind": "text", "options": []}
    asked = draw.random.choice([[], [], [size], [note, size]])
    return [{**field, "required": draw.random.random() < 0.3} for field in asked]


@composed("prizes.insert")
def insert_prize(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.new("prize"), *_prize_fields(draw), draw.total()


@composed("prizes.set_total_stock")
def set_total_stock(draw: Draw) -> tuple[Any, ...]:
    total, change = draw.random.choice([(draw.total(), None), (None, draw.random.choice([-50, -2, -1, 1, 2, 2**31]))])
    return TENANT, draw.prize(), total, change, draw.name(), draw.name()


@composed("prizes.update")
def update_prize(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.prize(), *_prize_fields(draw)


def _campaign_fields(draw: Draw) -> tuple[Any, ...]:
    end = draw.random.choice([0, 0, 1_700_000_000])
    owner = draw.random.choice(["", "merchant_a", "merchant_b"])
    status = draw.random.choice(["active", "active", "paused"])
    budget = draw.random.choice([(0.0, ""), (12.5, "EUR")])
    settings = {"a": draw.name()}
    return draw.name(), owner, status, 0, end, draw.unix_time(), draw.zone(), settings, draw.origins(), *budget


@composed("campaigns.insert")
def insert_campaign(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.new("campaign"), *_campaign_fields(draw)


@composed("campaigns.update")
def update_campaign(draw: Draw) -> tuple[Any, ...]:
    return TENANT, draw.campaign(), *_campaign_fields(draw), draw.random.choice([0, 0, 1, 2])


_COPIES: dict[str, tuple[str, bool]] = {
    "campaign": ("campaign_id", True),
    "prize": ("prize_id", False),
    "game": ("game_id", False),
    "quest": ("quest_id", True),
    "board": ("board_id", True),
    "integration": ("integration_id", False),
}


def _copy(thing: str) -> Callable[[Draw], tuple[Any, ...]]:
    key, dated = _COPIES[thing]

    def compose(draw: Draw) -> tuple[Any, ...]:
        fields: dict[str, Any] = {key: draw.new(thing)}
        if thing == "prize":
            fields["channel_config"] = draw.config()
        if thing == "board":
            fields["prizes"] = [{"prize_id": draw.prize()}]
        later = (draw.random.choice([1, 200]), draw.zone()) if dated else ()
        return TENANT, getattr(draw, thing)(), fields, *later

    return compose


for _thing in _COPIES:
    COMPOSED[f"campaigns.copy_{_thing}"] = _copy(_thing)
