"""The launch check of the ways to take part: games, or a prize draw in a campaign without games, such as a raffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime import messages as m


def check_ways(campaign: Any, games: Sequence[Any], draws: Sequence[Any]) -> Iterator[m.LaunchItem]:
    """Whether players can take part. draws: the open ones, of sql/launch.sql."""
    if games:
        text = "One game is active" if len(games) == 1 else f"{len(games)} games are active"
        yield m.LaunchItem(m.LaunchLevel.OK, "games", text)
        return
    joined = [draw for draw in draws if draw["without_games"]]
    for draw in joined:
        text = f"Players take part in the prize draw {draw['name']}: no game is needed"
        yield m.LaunchItem(m.LaunchLevel.OK, f"draws/{draw['draw_id']}.tickets", text)
    if joined:
        return
    if campaign["entry"] is not None:
        text = "No game is active and no prize draw among the entries is open: players can enter, but win nothing"
        yield m.LaunchItem(m.LaunchLevel.WARNING, "draws", text)
    elif any(draw["tickets"]["entries"] for draw in draws):
        text = "No game is active. Without a game, the campaign needs an entry form for its prize draw"
        yield m.LaunchItem(m.LaunchLevel.PROBLEM, "entry", text)
    else:
        text = "No game is active. Without a game, the campaign needs an entry form and an open prize draw"
        yield m.LaunchItem(m.LaunchLevel.PROBLEM, "games", text)
