"""`tombola players`: find a player, see what there is of it, export, suspend, merge, sign out or erase it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.commands import forms
from runtime.commands.confirm import Yes, confirmed, file_told
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_done,
    print_json,
    progress_console,
    table,
)
from runtime.commands.loop import app_of

app = app_of("players")

DryRun = Annotated[bool, Parameter(negative=())]


@app.command(name="show")
async def show_player(player: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a player, and how much there is of it."""
    async with connected(connection) as edge:
        found = await edge.get(f"/players/{player}")
    if connection.json:
        print_json(found)
        return
    who, counts = found["player"], found["counts"]
    shown = table("id", who["id"])
    status = forms.standing(forms.worded(who, {"status": "PLAYER_STATUS_"}))
    rows = {"name": who["display_name"], "contacts": forms.values(who["contacts"]), "status": status, **counts}
    for name, value in rows.items():
        shown.add_row(name, str(value))
    people().print(shown)


@app.command(name="export")
async def export_player(player: str, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Write everything that is held of a player to a file, a JSON object a line.

    Parameters
    ----------
    player
        Its id.
    file
        Where to.
    """
    count = 0
    with file_told(connection, file):
        async with connected(connection) as edge:
            with file.open("w", encoding="utf-8") as written:
                async for item in edge.each(f"/players/{player}/export"):
                    written.write(json.dumps({"kind": item["kind"], "data": item["data"]}, ensure_ascii=False) + "\n")
                    count += 1
    if connection.json:
        print_json({"player_id": player, "items": count})
    else:
        progress_console().print(f"{count:,} items", highlight=False)


@app.command(name="erase")
async def erase_player(player: str, /, *, reason: str, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Erase a player's personal data for good. Plays, rewards and ledgers stay under the id.

    Parameters
    ----------
    player
        Its id.
    reason
        Why, for the audit log: name nobody in it.
    """
    async with connected(connection) as edge:
        await edge.get(f"/players/{player}")
        confirmed(connection, yes, f"Erase {player} for good?")
        done = await edge.post(f"/players/{player}/erase", {"reason": reason})
    print_done(connection, done, f"{player} is erased")


@app.command(name="merge")
async def merge_player(
    player: str, guest: str, /, *, yes: Yes = False, dry_run: DryRun = False, connection: Connection = DEFAULTS
) -> None:
    """Give a player all that a guest has, for good: the guest is that player from then on.

    Parameters
    ----------
    player
        The id of the player who gets it.
    guest
        The guest's id.
    dry_run
        Say what would move, and move nothing.
    """
    from runtime import messages as m  # late: the group's other commands need none of them

    path, body = f"/players/{player}/merge", {"guest_id": guest}
    async with connected(connection) as edge:
        done = await edge.post(path, {**body, "preview": True})
        guests = m.MergePlayerReply.from_dict(done, ignore_unknown_fields=True)
        had = f"{guests.plays} plays, {guests.rewards} rewards, {guests.balances} balances, {guests.turns} turns"
        if not dry_run:
            confirmed(connection, yes, f"Give {player} what {guest} has, for good: {had}?")
            done = await edge.post(path, body)
    print_done(connection, done, f"{guest} {'would be' if dry_run else 'is'} {player}: {had}")
