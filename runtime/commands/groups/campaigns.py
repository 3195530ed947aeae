"""`tombola campaigns`: list and check them; a whole one as one YAML file, out and in again."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from cyclopts import Parameter

from runtime import messages as m
from runtime.commands import campaign_files, documents
from runtime.commands.confirm import confirmed, fail_of_file, file_told
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    Edge,
    Refused,
    connected,
    fail,
    people,
    print_json,
    progress_console,
    table,
    tell_refused,
)
from runtime.commands.documents import Document
from runtime.commands.environment import EXIT_USE
from runtime.commands.loop import app_of
from runtime.commands.resources import for_machines, show
from runtime.http import gallery
from runtime.wire.enums import token
from runtime.wire.times import unix

app = app_of("campaigns")


@app.command(name="check")
async def check_campaign(campaign: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Look whether a campaign could go in front of players: what stands in the way, and what is perhaps not meant.

    Ends with 1 where something stands in the way.

    Parameters
    ----------
    campaign
        Its id or its name.
    """
    async with connected(connection) as edge:
        one = await _one(connection, edge, campaign)
        done = await edge.get(f"/campaigns/{one['id']}/launch-check")
    items = m.LaunchCheckReply.from_dict(done, ignore_unknown_fields=True).items
    if connection.json:
        print_json(done["items"])
    else:
        shown = table("", "what", "where")
        for item in items:
            shown.add_row(token(item.level), item.message, item.field)
        people().print(shown)
    if any(item.level is m.LaunchLevel.PROBLEM for item in items):
        sys.exit(EXIT_REFUSED)


@app.command(name="duplicate")
async def duplicate_campaign(
    campaign: str,
    /,
    *,
    name: str = "",
    start: datetime | None = None,
    end: datetime | None = None,
    connection: Connection = DEFAULTS,
) -> None:
    """Copy a campaign with its games, prizes at full stock, quests, leaderboards and paused integrations, as a draft.

    Parameters
    ----------
    campaign
        Its id or its name.
    name
        What the copy is called; else as the original, with " (copy)".
    start
        When it begins, in the campaign's time zone where none is said: 2027-01-31T09:00. All that is dated moves along.
        Left out: at the next hour that the original began at.
    end
        When it ends. Left out: it lasts as long as the original.
    """
    async with connected(connection) as edge:
        one = await _one(connection, edge, campaign)
        zone = ZoneInfo(one["timezone"])
        body = {"name": name, "start_date": unix(start, zone), "end_date": unix(end, zone)}
        made = await edge.post(f"/campaigns/{one['id']}/duplicate", body)
    if connection.json:
        print_json(made)
    else:
        moved = f"; its dates are {made['shift_days']} days later" if made["shift_days"] else ""
        people().print(f"{made['name']} is made, as a draft: {made['id']}{moved}", markup=False, highlight=False)


@app.command(name="export")
async def export_campaign(campaign: str, file: Path | None = None, /, *, connection: Connection = DEFAULTS) -> None:
    """Write a campaign with its prizes, games, quests and leaderboards as one YAML file.

    Codes, secrets, stock counts, plays and archived things are not in it.

    Parameters
    ----------
    campaign
        Its id or its name.
    file
        Where to; standard output where left out.
    """
    async with connected(connection) as edge:
        state = await campaign_files.load(edge, await _one(connection, edge, campaign))
    try:
        made, notes = campaign_files.exported(state)
    except ValueError as error:
        fail(connection, EXIT_REFUSED, str(error))
    if connection.json:
        print_json(made)
    elif file is None:
        print(documents.write(made), end="")
    else:
        with file_told(connection, file):
            documents.save(file, made)
    for note in notes:
        progress_console().print(f"note: {note}", highlight=False)


@app.command(name="import")
async def import_campaign(
    file: Path,
    /,
    *,
    into: str = "",
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Apply a campaign's file: make what is not there, change what differs, leave the rest alone.

    What would change is shown first. A file with anything wrong in it changes nothing. Applying the same
    file again changes nothing either. All of it is done, or nothing is.

    Parameters
    ----------
    file
        The YAML file, as `campaigns export` writes it.
    into
        The id or name of the campaign to change; otherwise the one of the file's name, or a new one.
    yes
        Apply without asking.
    dry_run
        Show what would change, and stop there.
    """
    with file_told(connection, file):
        document = documents.read(file)
        changes = campaign_files.read(document)
        async with connected(connection) as edge:
            state = await campaign_files.plan(edge, document, changes, into)
            show(connection, changes)
            wanted = [change for change in changes if change.action != "keep"]
            if wanted and not dry_run:
                confirmed(connection, yes)
                await _apply(connection, edge, document, state.campaign["id"] if state else "")
    if connection.json:
        print_json({"applied": bool(wanted) and not dry_run, "changes": [for_machines(change) for change in wanted]})
    elif wanted and not dry_run:
        people().print("done")


@app.command(name="gallery")
def show_gallery(name: str = "", file: Path | None = None, /, *, connection: Connection = DEFAULTS) -> None:
    """List the ready campaigns that one may begin with, or write one's file, to be changed and imported.

    Parameters
    ----------
    name
        Whose file to write; all are listed where left out.
    file
        Where to; standard output where left out.
    """
    if name and name not in gallery.ABOUT:
        fail(connection, EXIT_USE, f"there is no ready campaign {name!r}: {', '.join(gallery.ABOUT)}")
    if name and file is not None:
        with file_told(connection, file):
            file.write_text(gallery.text_of(name), "utf-8")
    elif name:
        print(gallery.text_of(name), end="")
    elif connection.json:
        print_json([{"name": name, "about": about} for name, about in gallery.ABOUT.items()])
    else:
        shown = table("name", "about")
        for row in gallery.ABOUT.items():
            shown.add_row(*row)
        people().print(shown)


async def _apply(connection: Connection, edge: Edge, document: Document, into: str) -> None:
    """Has the service make it so, all or nothing. What it finds wrong is told with its line."""
    try:
        await edge.post("/campaigns/import", {"file": document.value, "into": into}, key=uuid4().hex)
    except Refused as refused:
        problems = [(row["field"], row["description"]) for row in refused.violations]
        if problems and refused.http < 500:
            fail_of_file(connection, document.wrong(problems))
        tell_refused(connection, refused, f"{document.name}: ")


async def _one(connection: Connection, edge: Edge, name: str) -> dict[str, Any]:
    """The campaign of this id or name. Ends the process where there is none, or several."""
    found = await campaign_files.find_campaigns(edge, name)
    if len(found) != 1:
        several = f"{len(found)} campaigns are called {name!r}: say one of {', '.join(item['id'] for item in found)}"
        fail(connection, EXIT_REFUSED, several if found else f"there is no campaign {name!r}")
    return found[0]
