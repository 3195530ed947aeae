"""Reads and checks a campaign's file.

    tombola: 1
    campaign: {name: Spring sale, timezone: Europe/Berlin, status: active}
    prizes: [{name: Fair mug, type: goods, value: 8, stock: {total: 100}}]
    games: [{name: Wheel, reward_handler: probability, handler_config: {prizes: [{prize_id: Fair mug, ...}]}}]
    quests: [...]
    leaderboards: [{name: Best, game_id: Wheel, metric: plays, mode: sum}]
    packs: [{name: Bottle caps, gives: {turns: 1}}]
    draws: [{name: Raffle, tickets: {entries: true}, prizes: [{prize_id: Fair mug, count: 1}], randomness: {...}}]

Names replace ids: `prize_id`, `fallback_prize_id`, `game_id` and `ranking` hold the name of a prize, game or
leaderboard in the file, or the id of one outside it. A prize with `shared: true` belongs to the tenant, not to the
campaign. Resources are matched by name, so a second import changes nothing. A time is `2026-03-01T09:00:00+01:00`, unix
seconds, or a day of the campaign (days.py). Resources and fields that are not in the file stay unchanged. A pack's
codes are never in it. Without a `scope_key`, packs and draws use the campaign's wallets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from runtime.operations.files.days import with_times
from runtime.operations.files.kinds import (
    BOARDS,
    CAMPAIGN,
    DRAWS,
    GAMES,
    PACKS,
    PRIZES,
    QUESTS,
    Change,
    Found,
    Kind,
    join,
    normalized,
)
from runtime.operations.games.definitions import definition_of, prizes_named
from runtime.wire import codec

VERSION: Final = 1
KINDS: Final = (PRIZES, GAMES, QUESTS, BOARDS, PACKS, DRAWS)
"""In the order of creation: each refers only to earlier ones."""

REFERENCES: Final[Mapping[str, Kind]] = {
    "prize_id": PRIZES,
    "fallback_prize_id": PRIZES,
    "game_id": GAMES,
    "ranking": BOARDS,
}
REFERENCED: Final = (PRIZES, GAMES, BOARDS)
_ID_PREFIXES: Final = {"prizes": "prize_", "games": "game_", "leaderboards": "board_"}

Names = dict[str, dict[str, str]]
"""By section: reference in the file -> replacement."""


def with_references(value: Any, names: Names) -> Any:
    if isinstance(value, dict):
        return {
            key: names[REFERENCES[key].section].get(item, item)
            if key in REFERENCES and isinstance(item, str) and REFERENCES[key].section in names
            else with_references(item, names)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_references(item, names) for item in value]
    return value


def read(file: Any) -> tuple[list[Change], Found]:
    """The changes of a file in the order of creation, the campaign first; and all problems."""
    found: Found = []
    if not isinstance(file, dict):
        return [], [
            ("", "must be an object with the fields campaign, prizes, games, quests, leaderboards, packs, draws")
        ]
    sections = {kind.section for kind in KINDS}
    found += [(name, "is not a known field") for name in file if name not in {"tombola", "campaign", *sections}]
    if file.get("tombola", VERSION) != VERSION:
        found.append(("tombola", f"must be {VERSION}, the supported file version"))
    file = with_times(file, found)
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
    wanted = normalized(CAMPAIGN, row, "campaign", found) if row else {}
    return Change(CAMPAIGN, str(row.get("name", "")), "campaign", wanted)


def _names(rows: Any, kind: Kind, found: Found) -> set[str]:
    """The names in a section. Adds wrong types and missing or duplicate names to `found`, the problems."""
    if rows is not None and not isinstance(rows, list):
        found.append((kind.section, "must be a list"))
    names: set[str] = set()
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        path = f"{kind.section}[{index}]"
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(row, dict):
            found.append((path, "must be an object"))
        elif not isinstance(name, str) or not name.strip():
            found.append((f"{path}.name", "is required, and must be a string"))
        elif name in names:
            found.append((f"{path}.name", f"must be unique: two {kind.section} are named {name!r}"))
        else:
            names.add(name)
    return names


def _resource(kind: Kind, row: dict[str, Any], path: str, names: dict[str, set[str]], found: Found) -> Change:
    provided = {name: value for name, value in row.items() if name != "shared" or kind is not PRIZES}
    shared = kind is PRIZES and row.get("shared", False)
    if shared not in (True, False):
        found.append((f"{path}.shared", "must be true or false"))
    before = len(found)
    wanted = normalized(kind, provided, path, found, **({} if kind is PRIZES else {"campaign_id": "camp_of_the_file"}))
    if len(found) == before:
        found += [
            (
                join(path, reference.path),
                f"must name a {reference.kind.singular} in this file: {reference.name!r} is not there",
            )
            for reference in _references(kind, wanted)
            if reference.name not in names[reference.kind.section]
            and not reference.name.startswith(_ID_PREFIXES[reference.kind.section])
        ]
    return Change(kind, str(row.get("name", "")), path, wanted, shared=shared is True)


class _Reference(NamedTuple):
    """A reference by a resource: its path, and the kind and name it refers to."""

    path: str
    kind: Kind
    name: str


def _references(kind: Kind, wanted: Mapping[str, Any]) -> Iterator[_Reference]:
    """A resource's references that must exist. References in a game's `ui` are not checked."""
    if kind is GAMES:
        game, _ = codec.read(kind.message, dict(wanted))
        for path, name in prizes_named(definition_of(game)):
            if name:
                yield _Reference(path, PRIZES, name)
    elif kind is QUESTS:
        if game := (wanted.get("condition") or {}).get("game_id"):
            yield _Reference("condition.game_id", GAMES, game)
    elif kind is BOARDS:
        if wanted.get("game_id"):
            yield _Reference("game_id", GAMES, wanted["game_id"])
    elif kind is DRAWS and (board := (wanted.get("tickets") or {}).get("ranking")):
        yield _Reference("tickets.ranking", BOARDS, board)
    if kind in (BOARDS, DRAWS):
        for index, prize in enumerate(wanted.get("prizes", ())):
            yield _Reference(f"prizes[{index}].prize_id", PRIZES, prize["prize_id"])


# -- what is there of it ---------------------------------------------------------------------


def as_in_a_file(resource: dict[str, Any], campaign_id: str | None = None) -> dict[str, Any]:
    """A pack or draw without the scope_key of its own campaign, which is the default, and without its prizes' names."""
    if campaign_id is None:
        campaign_id = resource["campaign_id"]
    made = dict(resource)
    for name in ("gives", "tickets"):
        if isinstance(value := made.get(name), dict) and value.get("scope_key", "") == campaign_id != "":
            made[name] = {**value, "scope_key": ""}
    if "tickets" in made and "prizes" in made:
        made["prizes"] = [{**prize, "name": ""} for prize in made["prizes"]]
    return made


def match(change: Change, items: Iterable[dict[str, Any]], found: Found) -> dict[str, Any] | None:
    """The service's resource of this kind and name, or None."""
    if change.kind is PRIZES:
        items = [item for item in items if bool(item["campaign_id"]) is not change.shared]
    same = [as_in_a_file(item) for item in items if item["name"] == change.name]
    if len(same) == 1:
        change.wanted = as_in_a_file(change.wanted, same[0]["campaign_id"])
    if len(same) > 1:
        ids = ", ".join(item["id"] for item in same)
        found.append((f"{change.path}.name", f"must be unique: several {change.kind.section} have this name: {ids}"))
    return same[0] if same else None


def check_state(change: Change, found: Found) -> None:
    """Adds the problems that come from the current state, so that all are reported before anything changes."""
    if change.current is None or not change.differs:
        return
    if change.kind is PRIZES and "stock" in change.differs:
        total, awarded = change.wanted["stock"]["total"], change.current["stock"]["awarded"]
        if 0 < total < awarded:
            found.append((f"{change.path}.stock.total", f"must be at least {awarded}, the number already awarded"))
    if change.kind is DRAWS and change.current["status"] != "DRAW_STATUS_OPEN":
        found.append((change.path, f"draw {change.name!r} is closed and cannot be changed"))
    if change.kind is BOARDS and change.current["status"] != "LEADERBOARD_STATUS_ACTIVE":
        found.append((change.path, f"leaderboard {change.name!r} is finalized and cannot be changed"))
