"""What a campaign's file wants, read and checked as a whole.

    tombola: 1
    campaign: {name: Spring sale, timezone: Europe/Berlin, status: active}
    prizes: [{name: Fair mug, type: goods, value: 8, stock: {total: 100}}]
    games: [{name: Wheel, reward_handler: probability, handler_config: {prizes: [{prize_id: Fair mug, ...}]}}]
    quests: [...]
    leaderboards: [{name: Best, game_id: Wheel, metric: plays, mode: sum}]

Things have names in place of ids: `prize_id`, `fallback_prize_id` and `game_id` hold the name of a prize or
game of the file (or an id as it is, of something outside of it). A prize with `shared: true` is the
tenant's and not the campaign's. Names are what is matched, so that importing twice changes nothing the
second time; what the file does not have is left alone, and so are fields that it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from runtime.operations.files.kinds import (
    BOARDS,
    CAMPAIGN,
    GAMES,
    PRIZES,
    QUESTS,
    Change,
    Found,
    Kind,
    join,
    settled,
)
from runtime.operations.games.definitions import definition_of, prizes_named
from runtime.wire import codec

VERSION: Final = 1
KINDS: Final = (PRIZES, GAMES, QUESTS, BOARDS)
"""In the order in which they are made: each names only what stands before it."""

REFERENCES: Final[Mapping[str, Kind]] = {"prize_id": PRIZES, "fallback_prize_id": PRIZES, "game_id": GAMES}
_ID_PREFIXES: Final = {"prizes": "prize_", "games": "game_"}

Names = dict[str, dict[str, str]]
"""By section: what is written -> what is put in its place."""


def renamed(value: Any, names: Names) -> Any:
    """A copy in which every reference that `names` knows is replaced."""
    if isinstance(value, dict):
        return {
            key: names[REFERENCES[key].section].get(item, item)
            if key in REFERENCES and isinstance(item, str) and REFERENCES[key].section in names
            else renamed(item, names)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return value


def read(file: Any) -> tuple[list[Change], Found]:
    """What a file wants, the campaign first, in the order of making; and all that is wrong with it."""
    found: Found = []
    if not isinstance(file, dict):
        return [], [("", "must hold the fields campaign, prizes, games, quests, leaderboards")]
    sections = {kind.section for kind in KINDS}
    found += [(name, "is not a field here") for name in file if name not in {"tombola", "campaign", *sections}]
    if file.get("tombola", VERSION) != VERSION:
        found.append(("tombola", f"must be {VERSION}, the version of such files that is known here"))
    changes = [_campaign(file.get("campaign"), found)]
    names = {kind.section: _names(file.get(kind.section), kind, found) for kind in KINDS}
    for kind in KINDS:
        rows = file.get(kind.section)
        for index, row in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(row, dict):
                changes.append(_resource(kind, row, f"{kind.section}[{index}]", names, found))
    return changes, found


def _campaign(row: Any, found: Found) -> Change:
    if not isinstance(row, dict):
        found.append(("campaign", "is required" if row is None else "must be an object"))
        row = {}
    elif not isinstance(row.get("name"), str):
        found.append(("campaign.name", "is required"))
        row = {}
    wanted = settled(CAMPAIGN, row, "campaign", found) if row else {}
    return Change(CAMPAIGN, str(row.get("name", "")), "campaign", wanted)


def _names(rows: Any, kind: Kind, found: Found) -> set[str]:
    """The names of a section; what has none, or another's, is a problem."""
    if rows is not None and not isinstance(rows, list):
        found.append((kind.section, "must be a list"))
    names: set[str] = set()
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        path = f"{kind.section}[{index}]"
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(row, dict):
            found.append((path, "must be an object"))
        elif not isinstance(name, str) or not name.strip():
            found.append((f"{path}.name", "is required, as a text"))
        elif name in names:
            found.append((f"{path}.name", f"two {kind.section} are called {name!r}"))
        else:
            names.add(name)
    return names


def _resource(kind: Kind, row: dict[str, Any], path: str, names: dict[str, set[str]], found: Found) -> Change:
    given = {name: value for name, value in row.items() if name != "shared" or kind is not PRIZES}
    shared = kind is PRIZES and row.get("shared", False)
    if shared not in (True, False):
        found.append((f"{path}.shared", "must be true or false"))
    before = len(found)
    wanted = settled(kind, given, path, found, **({} if kind is PRIZES else {"campaign_id": "camp_of_the_file"}))
    if len(found) == before:
        found += [
            (join(path, one.path), f"names no {one.kind.one} of this file: {one.name!r}")
            for one in _references(kind, wanted)
            if one.name not in names[one.kind.section] and not one.name.startswith(_ID_PREFIXES[one.kind.section])
        ]
    return Change(kind, str(row.get("name", "")), path, wanted, shared=shared is True)


class _Reference(NamedTuple):
    """What a resource names: where, of which kind, and its name."""

    path: str
    kind: Kind
    name: str


def _references(kind: Kind, wanted: Mapping[str, Any]) -> Iterator[_Reference]:
    """All that a resource must find. What a game's `ui` names may be anything."""
    if kind is GAMES:
        made, _ = codec.read(kind.message, dict(wanted))
        for path, name in prizes_named(definition_of(made)):
            if name:
                yield _Reference(path, PRIZES, name)
    elif kind is QUESTS:
        if game := (wanted.get("condition") or {}).get("game_id"):
            yield _Reference("condition.game_id", GAMES, game)
    elif kind is BOARDS:
        if wanted.get("game_id"):
            yield _Reference("game_id", GAMES, wanted["game_id"])
        for index, prize in enumerate(wanted.get("prizes", ())):
            yield _Reference(f"prizes[{index}].prize_id", PRIZES, prize["prize_id"])


# -- what is there of it ---------------------------------------------------------------------


def matched(change: Change, items: Iterable[dict[str, Any]], found: Found) -> dict[str, Any] | None:
    """The one among the service's resources of its kind that has its name, or None."""
    if change.kind is PRIZES:
        items = [item for item in items if bool(item["campaign_id"]) is not change.shared]
    same = [item for item in items if item["name"] == change.name]
    if len(same) > 1:
        ids = ", ".join(item["id"] for item in same)
        found.append((f"{change.path}.name", f"is the name of several {change.kind.section}: {ids}"))
    return same[0] if same else None


def check_state(change: Change, found: Found) -> None:
    """What the service would refuse of a change because of what has happened: told before anything is changed."""
    if change.current is None or not change.differs:
        return
    if change.kind is PRIZES and "stock" in change.differs:
        total, awarded = change.wanted["stock"]["total"], change.current["stock"]["awarded"]
        if 0 < total < awarded:
            found.append((f"{change.path}.stock.total", f"must not be below {awarded}, which are awarded"))
    if change.kind is BOARDS and change.current["status"] != "LEADERBOARD_STATUS_ACTIVE":
        found.append((change.path, f"leaderboard {change.name!r} is finalized and cannot be changed"))
