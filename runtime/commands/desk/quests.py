"""`tombola quests`: list, show, make, change and remove quests; rotate the secret that their events are signed with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    print_one,
    refusals_told,
    table,
)
from runtime.commands.desk.filing import filed

app = App(name="quests", help="List, show, make, change and remove quests; rotate the secret of their events.")


@app.command(name="list")
async def list_quests(
    *, status: str = "", campaign: str = "", type: str = "", q: str = "", connection: Connection = DEFAULTS
) -> None:
    """List quests, the newest first.

    Parameters
    ----------
    status
        Only those of this status: draft, active, archived. All but archived where it is left out.
    campaign
        Only those of this campaign.
    type
        Only those that are done so often: one_time, daily, weekly.
    q
        Only those whose name holds this.
    """
    asked = {"status": status, "campaign_id": campaign, "type": type, "q": q}
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = [item async for item in edge.each("/quests", **asked)]
    if connection.json:
        print_json(items)
        return
    shown = table("id", "quest", "type", "status", "takes", "turns")
    for item in items:
        names = [_word(item[name]) for name in ("type", "status")]
        shown.add_row(item["id"], item["name"], *names, _takes(item["condition"]), str(item["turns"]))
    people().print(shown)


@app.command(name="show")
async def show_quest(quest: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a quest."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            found = await edge.get(f"/quests/{quest}")
    print_one(connection, found)


@app.command(name="create")
async def create_quest(file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Make a quest of a file. The secret of one that takes events is printed, this once.

    Parameters
    ----------
    file
        The YAML (or JSON) file of one quest, with the fields that `tombola quests show` shows.
    """
    _told(connection, await filed(connection, file, "/quests", ""))


@app.command(name="update")
async def update_quest(quest: str, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Set the fields of a quest that a file gives; the others stay. One that begins to take events gets a secret,
    which is printed, this once.

    Parameters
    ----------
    quest
        Its id.
    file
        The YAML (or JSON) file.
    """
    _told(connection, await filed(connection, file, "/quests", quest))


@app.command(name="rotate-secret")
async def rotate_secret(
    quest: str,
    /,
    *,
    end_previous: Annotated[bool, Parameter(negative=())] = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Make a new secret for the quest's events, and print it, this once; the one before is believed, too.

    Parameters
    ----------
    quest
        Its id.
    end_previous
        Make none, and end the one before: the newest alone is believed.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(f"/quests/{quest}/rotate-secret", {"end_previous": end_previous})
    if connection.json:
        print_json(done)
    else:
        print(done["secret"] or "the newest alone is believed")


@app.command(name="remove")
async def remove_quest(quest: str, /, *, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Remove a quest that nobody completed; archive one with a history.

    Parameters
    ----------
    quest
        Its id.
    """
    confirmed(connection, yes, f"Remove {quest}? Nobody can complete it any more.")
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.delete(f"/quests/{quest}")
    if connection.json:
        print_json(done)
    else:
        people().print(f"{quest} is {'archived' if done['archived'] else 'removed'}")


def _told(connection: Connection, made: dict[str, Any]) -> None:
    if connection.json:
        print_json(made)
        return
    people().print(f"{made['id']} {made['name']}")
    if made["secret"]:
        print(made["secret"])


def _takes(condition: dict[str, Any] | None) -> str:
    return f"{condition['count']} {_word(condition['kind'])}" if condition else "the player's word"


def _word(value: str) -> str:
    """`QUEST_TYPE_ONE_TIME` as `one_time`"""
    for prefix in ("QUEST_CONDITION_KIND_", "QUEST_STATUS_", "QUEST_TYPE_"):
        value = value.removeprefix(prefix)
    return value.lower()
