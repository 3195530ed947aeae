"""`tombola players`: finds, shows, exports, suspends, merges, signs out and erases players."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.commands import templates
from runtime.commands.builder import app_of
from runtime.commands.confirm import Yes, confirmed, replacing
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    print_json,
    print_result,
    progress_console,
    table,
    text_console,
)

app = app_of("players")

DryRun = Annotated[bool, Parameter(negative=())]


@app.command(name="show")
async def show_player(player: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a player and the counts of its plays, rewards and sessions."""
    async with connected(connection) as edge:
        found = await edge.get(f"/players/{player}")
    if connection.json:
        print_json(found)
        return
    record, counts = found["player"], found["counts"]
    shown = table("id", record["id"])
    status = templates.player_status(templates.with_enum_words(record, {"status": "PLAYER_STATUS_"}))
    rows = {
        "name": record["display_name"],
        "contacts": templates.values(record["contacts"]),
        "status": status,
        **counts,
    }
    for name, value in rows.items():
        shown.add_row(name, str(value))
    text_console().print(shown)


@app.command(name="export")
async def export_player(player: str, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Write the stored data of a player to a file, one JSON object per line.

    Parameters
    ----------
    player
        The player's id.
    file
        The file to write.
    """
    count = 0
    with replacing(connection, file) as written:
        async with connected(connection) as edge:
            async for item in edge.each(f"/players/{player}/export"):
                line = json.dumps({"kind": item["kind"], "data": item["data"]}, ensure_ascii=False) + "\n"
                written.write(line.encode())
                count += 1
    if connection.json:
        print_json({"player_id": player, "items": count})
    else:
        progress_console().print(f"{count:,} items", highlight=False)


@app.command(name="erase")
async def erase_player(player: str, /, *, reason: str, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Erase a player's personal data permanently. Plays, rewards and ledgers remain under the id.

    Parameters
    ----------
    player
        The player's id.
    reason
        The reason, for the audit log. Do not name the person.
    """
    async with connected(connection) as edge:
        await edge.get(f"/players/{player}")
        confirmed(connection, yes, f"Erase {player} permanently?")
        done = await edge.post(f"/players/{player}/erase", {"reason": reason})
    print_result(connection, done, f"{player} is erased")


@app.command(name="merge")
async def merge_player(
    player: str, guest: str, /, *, yes: Yes = False, dry_run: DryRun = False, connection: Connection = DEFAULTS
) -> None:
    """Merge a guest into a player, permanently: everything the guest has moves to the player.

    Parameters
    ----------
    player
        The id of the receiving player.
    guest
        The guest's id.
    dry_run
        Show what would move, without moving it.
    """
    from runtime import messages as m  # a slow import that the group's other commands do not need

    path, body = f"/players/{player}/merge", {"guest_id": guest}
    async with connected(connection) as edge:
        done = await edge.post(path, {**body, "preview": True})
        guests = m.MergePlayerReply.from_dict(done, ignore_unknown_fields=True)
        moved = f"{guests.plays} plays, {guests.rewards} rewards, {guests.balances} balances, {guests.turns} turns"
        if not dry_run:
            confirmed(connection, yes, f"Merge {guest} into {player} permanently: {moved}?")
            done = await edge.post(path, body)
    print_result(connection, done, f"{guest} {'would be' if dry_run else 'is'} merged into {player}: {moved}")
