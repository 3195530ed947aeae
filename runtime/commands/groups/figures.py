"""`tombola figures`: the figures of a campaign or one of its games."""

from __future__ import annotations

from rich.table import Table

from runtime import messages as m
from runtime.commands.builder import app_of
from runtime.commands.connection import DEFAULTS, Connection, connected, print_json, table, text_console

app = app_of("figures")


@app.default
async def figures(
    campaign: str,
    /,
    *,
    game: str = "",
    from_day: str = "",
    to_day: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Show a campaign's figures, optionally between two days.

    Parameters
    ----------
    campaign
        The campaign's id.
    game
        Only the game with this id.
    from_day
        The first day, such as 2026-03-01, in the campaign's time zone.
    to_day
        The last day, inclusive.
    """
    async with connected(connection) as edge:
        done = await edge.get(f"/campaigns/{campaign}/figures", game_id=game, from_day=from_day, to_day=to_day)
    if connection.json:
        print_json(done)
        return
    console, found = text_console(), m.CampaignFigures.from_dict(done, ignore_unknown_fields=True)
    steps = ", ".join(f"{count:,} {step}" for step, count in done["funnel"].items())
    console.print(f"{steps}; {found.players:,} players, {found.returning_players:,} returning")
    costs = [f"{one.amount:,.2f} {one.currency}".strip() for one in found.costs] or ["0.00"]
    console.print(f"cost {' and '.join(costs)}, times in {found.timezone}")
    tables = {"days": _days(found), "prizes": _prizes(found), "odds, since the first play": _odds(found)}
    for title, shown in tables.items():
        if shown.row_count:
            console.print(f"\n{title}")
            console.print(shown)


def _days(found: m.CampaignFigures) -> Table:
    shown = table("day", "plays", "wins", "players")
    for day in found.by_day:
        shown.add_row(day.day, f"{day.plays:,}", f"{day.wins:,}", f"{day.players:,}")
    return shown


def _prizes(found: m.CampaignFigures) -> Table:
    shown = table("prize", "name", "given", "cost", "currency")
    for prize in found.prizes:
        shown.add_row(prize.prize_id, prize.name, f"{prize.units:,}", f"{prize.cost:,.2f}", prize.currency)
    return shown


def _odds(found: m.CampaignFigures) -> Table:
    shown = table("game", "revision", "drawn", "declared", "draws", "expected", "by chance")
    for one in found.odds:
        for row in one.odds:
            expected, fine = f"{row.low:,.0f} to {row.high:,.0f}", "yes" if row.by_chance else "NO"
            drawn = (row.name or "nothing", f"{row.declared:.4%}", f"{row.draws:,}")
            shown.add_row(one.game_id, str(one.revision), *drawn, expected, fine)
    return shown
