"""`tombola campaigns`: checks and archives campaigns; exports and imports a campaign as one YAML file."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from cyclopts import Parameter
from rich.progress import BarColumn

from runtime import messages as m
from runtime.commands import archives, campaign_files, documents, dossiers
from runtime.commands.builder import app_of
from runtime.commands.confirm import confirmed, fail_invalid_file, file_errors, replacing
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    Edge,
    Refused,
    connected,
    fail,
    fail_refused,
    print_json,
    print_result,
    progress_console,
    table,
    text_console,
)
from runtime.commands.documents import Document
from runtime.commands.environment import EXIT_FILE, EXIT_USE, problem_of_url
from runtime.commands.progress import progress
from runtime.commands.resources import change_json, show
from runtime.http import gallery
from runtime.rules.sealing import Seal
from runtime.wire.enums import token
from runtime.wire.times import unix

app = app_of("campaigns")


@app.command(name="check")
async def check_campaign(campaign: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Check whether a campaign is ready to launch: problems and warnings.

    Exits with 1 if there is a problem.

    Parameters
    ----------
    campaign
        The campaign's id or name.
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
        text_console().print(shown)
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
    """Copy a campaign with its games, prizes at full stock, quests, leaderboards, packs, draws and paused integrations.

    Parameters
    ----------
    campaign
        The campaign's id or name.
    name
        The name of the copy; default: the original's with " (copy)".
    start
        When the copy starts, in the campaign's time zone by default: 2027-01-31T09:00. All other dates shift with it.
        Default: the original's start, or the next day at that hour if it is past.
    end
        When the copy ends. Default: after the same duration as the original.
    """
    async with connected(connection) as edge:
        one = await _one(connection, edge, campaign)
        zone = ZoneInfo(one["timezone"])
        body = {"name": name, "start_date": unix(start, zone), "end_date": unix(end, zone)}
        made = await edge.post(f"/campaigns/{one['id']}/duplicate", body)
    if connection.json:
        print_json(made)
    else:
        shifted = f"; its dates are {made['shift_days']} days later" if made["shift_days"] else ""
        text_console().print(f"created the draft {made['name']}: {made['id']}{shifted}")


@app.command(name="export")
async def export_campaign(campaign: str, file: Path | None = None, /, *, connection: Connection = DEFAULTS) -> None:
    """Write a campaign with its prizes, games, quests, leaderboards, packs and draws to one YAML file.

    The file omits codes, secrets, stock counts, plays and archived resources.

    Parameters
    ----------
    campaign
        The campaign's id or name.
    file
        The file to write; default: standard output.
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
        with file_errors(connection, file):
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
    """Apply a campaign's file: create missing resources and update different ones; others are unchanged.

    Shows the changes first. The import is atomic: a file with an error changes nothing. Applying the same file again
    changes nothing either.

    Parameters
    ----------
    file
        The YAML file, as written by `campaigns export`.
    into
        The id or name of the campaign to update; default: the campaign with the file's name, or a new one.
    yes
        Apply without asking.
    dry_run
        Show the changes without applying them.
    """
    with file_errors(connection, file):
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
        print_json({"applied": bool(wanted) and not dry_run, "changes": [change_json(change) for change in wanted]})
    elif wanted and not dry_run:
        text_console().print("done")


@app.command(name="dossier")
async def write_dossier(
    campaign: str,
    file: Path,
    /,
    *,
    authority_key: Path | None = None,
    consumer_url: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Write a campaign's dossier, which `tombola verify` checks: terms, plays, rewards, draws, stock and audit log.

    Players are pseudonyms.

    Parameters
    ----------
    campaign
        The campaign's id or name.
    file
        The file to write.
    authority_key
        A public key (X25519, PEM): adds the players' entries and contacts, encrypted for its owner.
    consumer_url
        The consumer edge, which has the evidence of draws; default: as the service names it.
    """
    if consumer_url and (wrong := problem_of_url("--consumer-url", consumer_url)):
        fail(connection, EXIT_USE, wrong)
    with file_errors(connection, authority_key or file):
        try:
            authority = Seal.read(authority_key) if authority_key is not None else None
        except ValueError:
            fail(connection, EXIT_FILE, f"--authority-key: {authority_key} is not an X25519 public key (PEM)")
    async with connected(connection) as edge:
        one = await _one(connection, edge, campaign)
        with file_errors(connection, file):
            earlier, hashed = archives.campaign_in(file), archives.sha256_of(file)
        if earlier not in ("", one["id"]):
            fail(
                connection,
                EXIT_REFUSED,
                f"{file} may be the only copy of the plays of campaign {earlier}: choose another file",
            )
        if (archive := one["archive"]) is not None:
            if hashed == archive["file_sha256"]:
                print_result(connection, archive, f"{file} has the plays of {one['name']} already")
                return
            text = f"the plays of {one['name']} were archived: use the file with SHA-256 {archive['file_sha256']}"
            fail(connection, EXIT_REFUSED, text)
        with replacing(connection, file) as target:
            counts = await dossiers.write(edge, one, target, authority, consumer_url)
    print_result(connection, counts, f"{sum(counts.values()):,} lines in {file}: {counts.get('play', 0):,} plays")


@app.command(name="archive")
async def archive_campaign(
    campaign: str,
    file: Path,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Delete the plays of a campaign that is over, once its dossier has them. Repeat it after an interruption.

    Keep the file: it has the only copy of the plays.

    Parameters
    ----------
    campaign
        The campaign's id or name.
    file
        Its dossier, as written by `campaigns dossier` and checked with `tombola verify`.
    yes
        Delete without asking.
    """
    async with connected(connection) as edge:
        one = await _one(connection, edge, campaign)
        try:
            with file_errors(connection, file):
                plays = archives.read_plays(file, one["id"])
        except (ValueError, KeyError, TypeError) as error:
            fail(connection, EXIT_FILE, f"{file}: {error}")
        confirmed(connection, yes, f"Delete {plays.plays:,} plays of {one['name']}? {file} keeps the only copy.")
        with progress(connection.json, BarColumn()) as shown:
            compared, deleted = (shown.add_task(what, total=plays.plays) for what in ("compared", "deleted"))
            archive: dict[str, Any] = {}
            while not archive.get("finished_at"):
                done = await edge.post(f"/campaigns/{one['id']}/archive", plays._asdict())
                archive = done["archive"] or {}
                shown.update(compared, completed=done["compared"])
                shown.update(deleted, completed=archive.get("deleted", 0))
    text = f"deleted {archive['deleted']:,} plays. Keep {file}: SHA-256 {archive['file_sha256']}"
    print_result(connection, archive, text)


@app.command(name="gallery")
def show_gallery(name: str = "", file: Path | None = None, /, *, connection: Connection = DEFAULTS) -> None:
    """List the campaign templates, or write one to a file, to edit and import.

    Parameters
    ----------
    name
        The template to write; default: list all.
    file
        The file to write; default: standard output.
    """
    if name and name not in gallery.ABOUT:
        fail(connection, EXIT_USE, f"there is no template {name!r}. Use one of {', '.join(gallery.ABOUT)}")
    if name and file is not None:
        with file_errors(connection, file):
            file.write_text(gallery.text_of(name), "utf-8")
    elif name:
        print(gallery.text_of(name), end="")
    elif connection.json:
        print_json([{"name": name, "about": about} for name, about in gallery.ABOUT.items()])
    else:
        shown = table("name", "about")
        for row in gallery.ABOUT.items():
            shown.add_row(*row)
        text_console().print(shown)


async def _apply(connection: Connection, edge: Edge, document: Document, into: str) -> None:
    """Imports the file in the service. Prints its errors with their lines and ends the process."""
    try:
        await edge.post("/campaigns/import", {"file": document.value, "into": into}, key=uuid4().hex)
    except Refused as refused:
        problems = [(row["field"], row["description"]) for row in refused.violations]
        if problems and refused.http < 500:
            fail_invalid_file(connection, document.invalid(problems))
        fail_refused(connection, refused, f"{document.name}: ")


async def _one(connection: Connection, edge: Edge, name: str) -> dict[str, Any]:
    """The campaign with this id or name. Ends the process if there is none, or several."""
    found = await campaign_files.find_campaigns(edge, name)
    if len(found) != 1:
        several = f"{len(found)} campaigns are named {name!r}. Use one of {', '.join(item['id'] for item in found)}"
        fail(connection, EXIT_REFUSED, several if found else f"there is no campaign {name!r}")
    return found[0]
