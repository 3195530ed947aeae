"""`tombola players`: find a player, see what there is of it, export, suspend, merge, sign out or erase it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from runtime.commands.confirm import Yes, confirmed, file_told
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    progress_console,
    refusals_told,
    table,
)

app = App(name="players", help="Find players; see, export, suspend, merge and erase one; sign it out; give it turns.")

DryRun = Annotated[bool, Parameter(negative=())]


@app.command(name="list")
async def list_players(q: str = "", /, *, status: str = "", most: int = 100, connection: Connection = DEFAULTS) -> None:
    """List players, the newest first.

    Parameters
    ----------
    q
        An id, a part of a name, or a whole e-mail address or phone number.
    status
        Only those of this status: active, suspended.
    most
        How many at most.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = await edge.first("/players", most, q=q, status=status)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "name", "contacts", "status")
    for item in items:
        shown.add_row(item["id"], item["display_name"], _contacts(item), _standing(item))
    people().print(shown)


@app.command(name="show")
async def show_player(player: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a player, and how much there is of it."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            found = await edge.get(f"/players/{player}")
    if connection.json:
        print_json(found)
        return
    who, counts = found["player"], found["counts"]
    shown = table("id", who["id"])
    rows = {"name": who["display_name"], "contacts": _contacts(who), "status": _standing(who), **counts}
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
    with refusals_told(connection), file_told(connection, file):
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
    with refusals_told(connection):
        async with connected(connection) as edge:
            await edge.get(f"/players/{player}")
            confirmed(connection, yes, f"Erase {player} for good?")
            done = await edge.post(f"/players/{player}/erase", {"reason": reason})
    _told(connection, done, f"{player} is erased")


@app.command(name="sign-out")
async def sign_out_player(player: str, /, *, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Sign a player out everywhere."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(f"/players/{player}/logout", {"reason": reason})
    _told(connection, done, f"{done['ended']} sessions ended")


@app.command(name="suspend")
async def suspend_player(player: str, /, *, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Let a player neither play nor win nor log in until it is restored."""
    await _set(connection, player, "SUSPENDED", reason)


@app.command(name="restore")
async def restore_player(player: str, /, *, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Let a player that was suspended play again."""
    await _set(connection, player, "ACTIVE", reason)


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
    path, body = f"/players/{player}/merge", {"guest_id": guest}
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(path, {**body, "preview": True})
            had = ", ".join(f"{done[name]} {name}" for name in ("plays", "rewards", "balances", "turns"))
            if not dry_run:
                confirmed(connection, yes, f"Give {player} what {guest} has, for good: {had}?")
                done = await edge.post(path, body)
    _told(connection, done, f"{guest} {'would be' if dry_run else 'is'} {player}: {had}")


@app.command(name="unlink")
async def unlink_contact(player: str, contact: str, /, *, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Take a contact from a player, who logs in by it no more.

    Parameters
    ----------
    player
        Its id.
    contact
        The contact's id, as `players show --json` has it.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            confirmed(connection, yes, f"Take {contact} from {player}?")
            done = await edge.delete(f"/players/{player}/contacts", contact_id=contact)
    _told(connection, done, f"{contact} is no contact of {player}")


@app.command(name="grant")
async def grant_turns(
    player: str, campaign: str, amount: int, /, *, reason: str, key: str = "", connection: Connection = DEFAULTS
) -> None:
    """Give a player turns in a campaign.

    Parameters
    ----------
    player
        Its id.
    campaign
        The campaign's id.
    amount
        How many.
    reason
        Why, for the audit log.
    key
        An Idempotency-Key: under one the turns are given once, however often this is run.
    """
    body = {"campaign_id": campaign, "amount": amount, "reason": reason}
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(f"/players/{player}/turns", body, key=key)
    _told(connection, done, f"{done['balance_after']} turns left")


async def _set(connection: Connection, player: str, status: str, reason: str) -> None:
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.put(f"/players/{player}", {"status": f"PLAYER_STATUS_{status}", "reason": reason})
    _told(connection, done, f"{player} is {status.lower()}")


def _contacts(player: dict[str, Any]) -> str:
    return ", ".join(contact["value"] for contact in player["contacts"])


def _standing(player: dict[str, Any]) -> str:
    if player["merged_into"]:
        return f"is {player['merged_into']}"
    return "erased" if player["erased_at"] else player["status"].removeprefix("PLAYER_STATUS_").lower()


def _told(connection: Connection, done: dict[str, Any], text: str) -> None:
    if connection.json:
        print_json(done)
    else:
        people().print(text)
