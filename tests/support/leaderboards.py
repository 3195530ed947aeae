from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from runtime import ids
from runtime.actors.engine import Engine
from runtime.events import PlayCompleted, event_of
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import Stack

NOON = 1_780_000_000


class Played(NamedTuple):
    """A play: `at` in seconds after NOON."""

    player_id: str
    game_id: str
    score: int = 0
    wins: int = 0
    points: int = 0
    at: float = 0.0


async def write_plays(
    engine: Engine, tenant_id: str, plays: Sequence[Played], *, since: float = NOON, tell: bool = False
) -> None:
    """Writes plays and their counts in one transaction, at seconds after `since`; `tell` publishes their events."""
    if since == NOON:
        await engine.rankings.drain()
    rows = [
        (
            *(tenant_id, ids.make("play"), p.game_id, p.player_id, ids.make("sess")),
            *(p.score, p.wins, p.points, datetime.fromtimestamp(since + p.at, UTC)),
        )
        for p in plays
    ]

    async def work(connection: Any) -> None:
        await connection.executemany(
            "INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed,"
            " payload, outcome, score, wins, points, played_at)"
            " VALUES ($1, $2, $3, $4, $5, 1, '', '', '{}', '{}', $6, $7, $8, $9)",
            rows,
        )
        await connection.executemany(
            "INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays)"
            " VALUES ($1, $2, $3, 1, current_date, 1)"
            " ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET plays = c.plays + 1",
            [(tenant_id, p.game_id, p.player_id) for p in plays],
        )

    await engine.database.transaction(work)
    if tell:
        engine.publisher.events(events_of(tenant_id, plays))


def events_of(tenant_id: str, plays: Iterable[Played]) -> list[Any]:
    def event(p: Played) -> Any:
        data = PlayCompleted("", p.game_id, p.player_id, p.score, p.wins, p.points)
        return event_of(data, occurred_at=NOON + p.at, tenant_id=tenant_id, merchant_id="", campaign_id="")

    return [event(p) for p in plays]


def model(plays: Iterable[Played], metric: str, mode: str) -> list[tuple[str, int]]:
    by_player: dict[str, list[tuple[float, int, int]]] = {}
    for index, p in enumerate(plays):
        value = 1 if metric == "plays" else getattr(p, metric)
        by_player.setdefault(p.player_id, []).append((p.at, index, value))
    ranked = []
    for player_id, values in by_player.items():
        values.sort()
        if mode == "sum":
            score = sum(value for _, _, value in values)
            reached = max((at for at, _, value in values if value), default=values[0][0])
        elif mode == "best":
            score = max(value for _, _, value in values)
            reached = min(at for at, _, value in values if value == score)
        else:
            reached, _, score = values[-1]
        ranked.append((-score, reached, player_id))
    return [(player_id, -score) for score, _, player_id in sorted(ranked)]


async def make_board(stack: Stack, campaign_id: str, **fields: Any) -> dict[str, Any]:
    body = {"campaign_id": campaign_id, "name": "Top", "metric": "score", "mode": "sum", **fields}
    return dict((await stack.admin("POST", "/admin/leaderboards", body)).data)


async def rankings(stack: Stack, board_id: str, **query: Any) -> Any:
    return (await stack.core("GET", f"/leaderboards/{board_id}/rankings", None, **query)).data


async def order(stack: Stack, board_id: str) -> list[tuple[str, int]]:
    items = (await rankings(stack, board_id, limit=100))["items"]
    assert [item["rank"] for item in items] == list(range(1, len(items) + 1))
    return [(item["player_id"], int(item["score"])) for item in items]


async def record(stack: Stack, plays: list[Played]) -> None:
    await write_plays(stack.engine, stack.tenant_id, plays)
    await stack.engine.rankings.refresh(stack.tenant_id, [p.player_id for p in plays], games=[p.game_id for p in plays])


async def open_games(stack: Stack) -> tuple[str, str, str]:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    games = [(await make_game(stack, campaign["id"], prize_id))["id"] for _ in range(2)]
    return campaign["id"], games[0], games[1]
