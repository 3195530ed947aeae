"""`tombola games`: lists, shows and tries games; validates and applies a game's YAML file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from runtime import messages as m
from runtime.commands import documents
from runtime.commands.builder import app_of
from runtime.commands.confirm import confirmed, file_errors
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    Edge,
    Refused,
    connected,
    fail,
    print_json,
    print_result,
    table,
    text_console,
)
from runtime.commands.documents import Document
from runtime.commands.environment import EXIT_USE
from runtime.commands.resources import change_json, filed, show
from runtime.operations.files.kinds import GAMES, Change, Found, normalized
from runtime.operations.games.definitions import definition_of, prizes_named
from runtime.wire import codec

app = app_of("games")

_OWN = ("id", "campaign_id", "revision")
"""The fields of a game's file that identify it: the game, its campaign, and the revision the file is based on."""


@app.command(name="show")
async def show_game(game: str, /, *, revision: int = 0, connection: Connection = DEFAULTS) -> None:
    """Show a game as YAML, for `games apply`.

    Parameters
    ----------
    game
        The game's id.
    revision
        Show this revision. Applying it restores the revision, unless the game changes in between.
    """
    async with connected(connection) as edge:
        item = await edge.get(f"/games/{game}")
        if revision:
            page = await edge.get(f"/games/{game}/revisions", revision=revision)
            if not page["items"]:
                fail(
                    connection,
                    EXIT_REFUSED,
                    f"{game} has no revision {revision}; its current revision is {item['revision']}",
                )
            then = page["items"][0]["game"]
            item = {**then, "revision": item["revision"], "milestones": then["milestones"] or {"rungs": []}}
    if connection.json:
        print_json(item)
    else:
        own = {name: item[name] for name in _OWN}
        # Include the empty fields of an old revision: an omitted field would keep its current value.
        names = GAMES.settable - {"status"} if revision else None
        print(documents.write({**own, **filed(GAMES, item, names=names)}), end="")


@app.command(name="try")
async def try_game(
    game: str, /, *, times: int = 1000, payload: str = "", client_seed: str = "", connection: Connection = DEFAULTS
) -> None:
    """Run test plays and compare the outcomes with the declared odds. Changes no stock, balances or rewards.

    Parameters
    ----------
    game
        The game's id.
    times
        The number of plays, at most 1000.
    payload
        The payload of each play, as JSON: {"score": 12, "duration_ms": 60000} for an egg catcher.
    client_seed
        A client seed, as a player may send.
    """
    body: dict[str, Any] = {"times": times, "client_seed": client_seed}
    if payload:
        try:
            body["payload"] = json.loads(payload)
        except ValueError as error:
            fail(connection, EXIT_USE, f"--payload is not JSON: {error}")
    async with connected(connection) as edge:
        run = await edge.post(f"/games/{game}/test-plays", body)
    if connection.json:
        print_json(run)
        return
    shown = table("outcome", "prize", "plays", "observed", "declared")
    for row in map(partial(m.TestFrequency.from_dict, ignore_unknown_fields=True), run["frequencies"]):
        declared = "" if row.declared < 0 else f"{row.declared:.2%}"
        shown.add_row(row.name or row.outcome, row.prize_id, str(row.count), f"{row.share:.2%}", declared)
    text_console().print(shown)


@app.command(name="validate")
async def validate_game(file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Check a game's file: every field, and that its campaign and prizes exist.

    Parameters
    ----------
    file
        The YAML (or JSON) file of one game.
    """
    with file_errors(connection, file):
        document = documents.read(file)
        change = read(document)
        async with connected(connection) as edge:
            await check_references(edge, document, change)
    print_result(connection, {"valid": True, "name": change.name}, f"{file}: valid")


@app.command(name="apply")
async def apply_game(
    file: Path,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Create or update a game from a file. Shows the changes first; applying the same file again changes nothing.

    The game is found by the file's `id`, otherwise by its name in the campaign; if there is none, it is created.
    Omitted fields are unchanged. With a `revision`, the update is refused if the game has changed since.

    Parameters
    ----------
    file
        The YAML (or JSON) file of one game.
    yes
        Apply without asking.
    dry_run
        Show the changes without applying them.
    """
    with file_errors(connection, file):
        document = documents.read(file)
        change = read(document)
        async with connected(connection) as edge:
            await check_references(edge, document, change)
            change.current = await _current(edge, document, change)
            change.compare()
            show(connection, [change])
            game = change.current or {}
            if change.action != "keep" and not dry_run:
                confirmed(connection, yes)
                game = await _apply(edge, document, change)
    if connection.json:
        applied = change.action != "keep" and not dry_run
        print_json({"applied": applied, "changes": [change_json(change)], "game": game})
    elif change.action != "keep" and not dry_run:
        text_console().print(f"{game['id']} is at revision {game['revision']}")


def read(document: Document) -> Change:
    """The change that a game's file describes. Raises InvalidFile."""
    row = document.value
    if not isinstance(row, dict):
        raise document.invalid([("", "must be an object with the fields of one game")])
    found: Found = []
    for name in _OWN:
        value = row.get(name)
        if value is not None and not isinstance(value, int if name == "revision" else str):
            found.append((name, "must be a whole number" if name == "revision" else "must be text"))
    if not row.get("id") and not row.get("campaign_id"):
        found.append(("campaign_id", "or id is required"))
    if found:
        raise document.invalid(found)
    given = {name: value for name, value in row.items() if name not in _OWN}
    wanted = normalized(GAMES, given, "", found)
    if found:
        raise document.invalid(found)
    return Change(GAMES, str(row.get("name", "")), "", wanted)


async def check_references(edge: Edge, document: Document, change: Change) -> None:
    """Checks that the file's campaign and prizes exist. Raises InvalidFile."""
    found: Found = []
    campaign_id = document.value.get("campaign_id")
    if campaign_id and await _missing(edge, f"/campaigns/{campaign_id}"):
        found.append(("campaign_id", f"there is no campaign {campaign_id!r}"))
    made, _ = codec.read(GAMES.message, dict(change.wanted))
    missing: dict[str, bool] = {}
    for path, prize_id in prizes_named(definition_of(made)):
        if prize_id not in missing:
            missing[prize_id] = await _missing(edge, f"/prizes/{prize_id}")
        if missing[prize_id]:
            found.append((path, f"there is no prize {prize_id!r}"))
    if found:
        raise document.invalid(found)


async def _missing(edge: Edge, path: str) -> bool:
    """Whether the resource at a path is missing or archived."""
    try:
        item = await edge.get(path)
    except Refused as refused:
        if refused.http not in (400, 404):
            raise
        return True
    return str(item["status"]).endswith("_ARCHIVED")


async def _current(edge: Edge, document: Document, change: Change) -> dict[str, Any] | None:
    row = document.value
    if row.get("id"):
        game = await edge.get(f"/games/{row['id']}")
        if row.get("campaign_id", game["campaign_id"]) != game["campaign_id"]:
            raise document.invalid(
                [("campaign_id", f"must be {game['campaign_id']}, the campaign of game {game['id']}")]
            )
        return game
    listed = edge.each("/games", campaign_id=row["campaign_id"], q=change.name)
    same = [game async for game in listed if game["name"] == change.name and game["status"] != "GAME_STATUS_ARCHIVED"]
    if len(same) > 1:
        ids = ", ".join(game["id"] for game in same)
        raise document.invalid([("name", f"is the name of several games. Use the id of one of {ids}")])
    return same[0] if same else None


async def _apply(edge: Edge, document: Document, change: Change) -> dict[str, Any]:
    """Creates or updates the game. Raises InvalidFile with the service's errors by line."""
    row = document.value
    try:
        if change.current is None:
            return await edge.post("/games", {**change.sent(), "campaign_id": row["campaign_id"]})
        revision = row.get("revision") or change.current["revision"]
        path = f"/games/{change.current['id']}"
        return await edge.call("PUT", path, {}, {**change.sent(), "revision": revision})
    except Refused as refused:
        if not refused.violations:
            raise
        raise document.invalid([(one["field"], one["description"]) for one in refused.violations]) from None


@app.command
async def forecast(
    game: str,
    /,
    *,
    plays: int = 10_000,
    per_player: int = 0,
    days: int = 0,
    budget: int = 0,
    currency: str = "",
    tiers: str = "",
    caught: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Forecast what a game will cost, and which prizes run out.

    Parameters
    ----------
    game
        The game's id.
    plays
        The plays to expect from now on.
    per_player
        How often each player plays; it matters for caps per player.
    days
        The days over which the plays are spread; by default until the game ends.
    budget
        Also show the probability of a higher cost, and odds that keep this amount.
    currency
        The currency of the cost; required if the prizes have several.
    tiers
        For score_to_tier: the share of plays that reach each tier, such as 0.6,0.3,0.1. By default as in the
        newest plays.
    caught
        For collect_items: the share of the falling items that players catch, such as 0.7, or of each drop: 0.9,0.5. By
        default as in the newest plays, or all.
    """
    query: dict[str, Any] = {
        "plays": plays,
        "plays_per_player": per_player,
        "days": days,
        "budget": budget,
        "currency": currency,
        "tiers": tiers,
        "caught": caught,
    }
    async with connected(connection) as edge:
        done = await edge.get(f"/games/{game}/forecast", **{name: value for name, value in query.items() if value})
    if connection.json:
        print_json(done)
        return
    console, found = text_console(), m.GameForecast.from_dict(done, ignore_unknown_fields=True)
    console.print(f"{found.plays:,} plays, cost in {found.currency or 'units of value'}")
    console.print(
        f"mean {found.mean:,.2f}, median {found.median:,.2f}, 90 % {found.cost_90:,.2f}, 99 % {found.cost_99:,.2f}, "
        f"at most {found.liability:,.2f}"
    )
    if budget:
        console.print(f"above {budget:,} with a probability of {found.over_budget:.4%}")
    if found.cost_error > 0:
        console.print(f"amounts are off by at most about {found.cost_error:,.2f}")
    # Plays that may win several units have no odds, but a number of units per play.
    catches = {"CATCHES_DECLARED", "CATCHES_OBSERVED", "ALL_CAUGHT"}
    several = any(prize.chance > 1 for prize in found.prizes) or not catches.isdisjoint(found.assumptions)
    rate = "units per play" if several else "chance"

    def shown_rate(chance: float) -> str:
        return "" if chance < 0 else f"{chance:,.4f}" if several else f"{chance:.4%}"

    shown = table("prize", "name", rate, "stock", "units", "99 %", "runs out", "at play", f"{rate} within budget")
    for prize in found.prizes:
        stock = "unlimited" if prize.stock < 0 else f"{prize.stock:,}"
        at = f"{prize.run_out_play:,.0f}" if prize.run_out_play else ""
        figures = (shown_rate(prize.chance), stock, f"{prize.units_mean:,.1f}", f"{prize.units_99:,}")
        within = shown_rate(prize.chance_within_budget)
        shown.add_row(prize.prize_id, prize.name, *figures, f"{prize.run_out:.2%}", at, within)
    console.print(shown)
    if found.assumptions:
        console.print(f"{'assumptions' if found.exact else 'not exact'}: {', '.join(found.assumptions)}")
