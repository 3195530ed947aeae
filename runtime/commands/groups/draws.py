"""`tombola draws`: prize draws. `verify` checks an evidence file, `tickets` sends a list; rows define the others."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn

from runtime.commands.builder import app_of
from runtime.commands.confirm import file_errors
from runtime.commands.connection import DEFAULTS, Connection, connected, print_result
from runtime.commands.documents import InvalidFile, Problem
from runtime.commands.environment import EXIT_FILE
from runtime.commands.evidence.draws import verify as findings_of
from runtime.commands.evidence.findings import printable, report
from runtime.commands.progress import progress

app = app_of("draws")

PART: Final = 3_000
"""Players per request."""


@app.command(name="tickets")
async def set_tickets(draw: str, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Set players' tickets in the list of an open draw with imported tickets. 0 removes a player.

    The list is sent in parts of 3,000 players. If it stops midway, run it again: the same file has the same effect.

    Parameters
    ----------
    draw
        The draw's id.
    file
        CSV with the player's id and the number of tickets, each player once; a heading `player_id,tickets` is skipped.
    """
    with file_errors(connection, file):
        holders = _read_holders(file)
    sent: dict[str, Any] = {}
    with progress(connection.json, BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task("importing", total=len(holders))
        async with connected(connection) as edge:
            for start in range(0, len(holders), PART):
                part = holders[start : start + PART]
                sent = await edge.post(f"/draws/{draw}/tickets", {"holders": part})
                bar.advance(task, len(part))
    counts = "{ticket_count:,} tickets of {holder_count:,} players".format_map(sent)
    print_result(connection, sent, f"{len(holders):,} players set; the list has {counts}")


def _read_holders(file: Path) -> list[dict[str, Any]]:
    """The players and tickets of a CSV file. InvalidFile names each wrong line."""
    problems, tickets_of = list[Problem](), dict[str, int]()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidFile(str(file), [Problem("", "must be UTF-8", 1)]) from None
    head = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=next((one for one in ",;\t" if one in head), ","))
    for line, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (line == 1 and cells == ["player_id", "tickets"]):
            continue
        if len(cells) != 2 or not cells[0] or not (cells[1].isascii() and cells[1].isdigit()):
            problems.append(Problem("", "must be a player's id and a number of tickets, such as player_1,3", line))
        elif cells[0] in tickets_of:
            problems.append(Problem("", f"player {cells[0]} has a line already", line))
        else:
            tickets_of[cells[0]] = int(cells[1])
    if not (problems or tickets_of):
        problems.append(Problem("", "has no players", 1))
    if problems:
        raise InvalidFile(str(file), problems)
    return [{"player_id": player, "tickets": tickets} for player, tickets in tickets_of.items()]


@app.command
def verify(file: Path, *, root: str = "") -> None:
    """Check the evidence file of a draw, without a server: its tickets, its random value and its winners.

    Exits with 1 if a check fails.

    Parameters
    ----------
    file
        The file, from GET /api/v1/draws/ID/file.
    root
        The Merkle root that was published when the draw was closed, if you have a copy.
    """
    try:
        findings = findings_of(file, root)
    except (OSError, ValueError) as error:
        print(f"tombola draws verify: {printable(str(error))}", file=sys.stderr)
        sys.exit(EXIT_FILE)
    report(findings)
