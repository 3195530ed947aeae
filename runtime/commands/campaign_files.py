"""A whole campaign as one YAML file: campaign, prizes, games, quests, leaderboards.

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.commands.connection import Edge, Refused
from runtime.commands.documents import Document
from runtime.commands.resources import (
    BOARDS,
    CAMPAIGN,
    GAMES,
    PRIZES,
    QUESTS,
    Change,
    Found,
    Kind,
    filed,
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


@dataclass(slots=True)
class State:
    """A campaign as the service has it: its resources by section."""

    campaign: dict[str, Any]
    resources: dict[str, list[dict[str, Any]]]

    def names(self) -> Names:
        """id -> name"""
        return {kind.section: {item["id"]: item["name"] for item in self.resources[kind.section]} for kind in KINDS[:2]}


# -- what the service has --------------------------------------------------------------------


async def load(edge: Edge, campaign: dict[str, Any]) -> State:
    """A campaign with all that is live in it, and the tenant's prizes that its games and boards name."""
    resources: dict[str, list[dict[str, Any]]] = {}
    for kind in KINDS:
        items = [item async for item in edge.each(kind.path, campaign_id=campaign["id"])]
        resources[kind.section] = [item for item in items[::-1] if not str(item["status"]).endswith("_ARCHIVED")]
    known = {prize["id"] for prize in resources["prizes"]}
    named = {id_ for kind in (GAMES, BOARDS) for item in resources[kind.section] for id_ in _prizes_in(item)}
    for prize_id in sorted(named - known):
        try:
            prize = await edge.get(f"/prizes/{prize_id}")
        except Refused as refused:
            if refused.http != 404:
                raise
            continue
        if not prize["campaign_id"] and prize["status"] != "PRIZE_STATUS_ARCHIVED":
            resources["prizes"].append(prize)
    return State(campaign, resources)


async def find_campaigns(edge: Edge, name: str) -> list[dict[str, Any]]:
    """The campaigns of this name; or of this id."""
    if name.startswith("camp_"):
        try:
            return [await edge.get(f"/campaigns/{name}")]
        except Refused as refused:
            if refused.http != 404:
                raise
    return [item async for item in edge.each("/campaigns", q=name) if item["name"] == name]


def _prizes_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("prize_id", "fallback_prize_id") and isinstance(item, str) and item:
                yield item
            else:
                yield from _prizes_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _prizes_in(item)


# -- export ----------------------------------------------------------------------------------


def exported(state: State) -> tuple[dict[str, Any], list[str]]:
    """The file of a campaign, and what its reader should know. ValueError where two things have one name."""
    for kind in KINDS:
        seen: set[str] = set()
        for item in state.resources[kind.section]:
            if item["name"] in seen:
                raise ValueError(
                    f"two {kind.section} are called {item['name']!r}: rename one, for names are what a file goes by"
                )
            seen.add(item["name"])
    names = state.names()
    file: dict[str, Any] = {"tombola": VERSION, "campaign": filed(CAMPAIGN, state.campaign)}
    file["campaign"].pop("merchant_id", None)
    notes: list[str] = []
    for kind in KINDS:
        rows = []
        for item in state.resources[kind.section]:
            shared = {"shared": True} if kind is PRIZES and not item["campaign_id"] else {}
            rows.append(_name_first({**filed(kind, renamed(item, names)), **shared}))
            config = (item.get("fulfillment") or {}).get("config") or {}
            if config.get("secret_set"):
                notes.append(
                    f"the secret of prize {item['name']!r} is not in the file: give it anew after an import elsewhere"
                )
        if rows:
            file[kind.section] = rows
    file["campaign"] = _name_first(file["campaign"])
    return file, notes


def _name_first(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row.pop("name"), **row}


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


# -- import: what the file says --------------------------------------------------------------


def read(document: Document) -> list[Change]:
    """What a file wants, the campaign first, in the order of making. Raises FileWrong with all that is wrong."""
    found: Found = []
    file = document.value
    if not isinstance(file, dict):
        raise document.wrong([("", "must hold the fields campaign, prizes, games, quests, leaderboards")])
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
    if found:
        raise document.wrong(found)
    return changes


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
            (join(path, where), f"names no {REFERENCES[key].one} of this file: {name!r}")
            for where, key, name in _references(kind, wanted)
            if name not in names[REFERENCES[key].section] and not name.startswith(_ID_PREFIXES[REFERENCES[key].section])
        ]
    return Change(kind, str(row.get("name", "")), path, wanted, shared=shared is True)


def _references(kind: Kind, wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(path, field, name) of all that a resource must find. What a game's `ui` names may be anything."""
    if kind is GAMES:
        made, _ = codec.read(kind.message, dict(wanted))
        for path, name in prizes_named(definition_of(made)):
            if name:
                yield path, "prize_id", name
    elif kind is BOARDS:
        if wanted.get("game_id"):
            yield "game_id", "game_id", wanted["game_id"]
        for index, prize in enumerate(wanted.get("prizes", ())):
            yield f"prizes[{index}].prize_id", "prize_id", prize["prize_id"]


# -- import: what is to be done --------------------------------------------------------------


async def plan(edge: Edge, document: Document, changes: list[Change], into: str = "") -> State | None:
    """Compares what the file wants with what the service has, or refuses (FileWrong). None: a new campaign."""
    campaign = changes[0]
    found: Found = []
    candidates = await find_campaigns(edge, into or campaign.name)
    if into and not candidates:
        raise document.wrong([("campaign", f"there is no campaign {into!r} to import into")])
    if len(candidates) > 1:
        ids = ", ".join(item["id"] for item in candidates)
        raise document.wrong(
            [("campaign.name", f"is the name of {len(candidates)} campaigns: say --into one of {ids}")]
        )
    await _check_merchant(edge, campaign, found)
    state = await load(edge, candidates[0]) if candidates else None
    if state is not None:
        campaign.current = state.campaign
    for change in changes[1:]:
        change.current = await _current(edge, state, change, found)
    for change in changes:
        if state is not None and change.current is not None:
            change.current = renamed(change.current, state.names())
        change.compare()
        _check_state(change, found)
    if found:
        raise document.wrong(found)
    return state


async def _current(edge: Edge, state: State | None, change: Change, found: Found) -> dict[str, Any] | None:
    """What the service has of this name, or None."""
    if change.shared:
        items = [item async for item in edge.each("/prizes", q=change.name) if not item["campaign_id"]]
    else:
        items = state.resources[change.kind.section] if state is not None else []
        items = [item for item in items if change.kind is not PRIZES or item["campaign_id"]]
    same = [item for item in items if item["name"] == change.name]
    if len(same) > 1:
        ids = ", ".join(item["id"] for item in same)
        found.append((f"{change.path}.name", f"is the name of several {change.kind.section}: {ids}"))
    return same[0] if same else None


async def _check_merchant(edge: Edge, campaign: Change, found: Found) -> None:
    wanted = campaign.wanted.get("merchant_id")
    if wanted and not any([item["id"] == wanted async for item in edge.each("/merchants")]):
        found.append(("campaign.merchant_id", f"there is no merchant {wanted!r}"))


def _check_state(change: Change, found: Found) -> None:
    """What the service would refuse of a change because of what has happened: told before anything is changed."""
    if change.current is None or not change.differs:
        return
    if change.kind is PRIZES and "stock" in change.differs:
        total, awarded = change.wanted["stock"]["total"], change.current["stock"]["awarded"]
        if 0 < total < awarded:
            found.append((f"{change.path}.stock.total", f"must not be below {awarded}, which are awarded"))
    if change.kind is BOARDS and change.current["status"] != "LEADERBOARD_STATUS_ACTIVE":
        found.append((change.path, f"leaderboard {change.name!r} is finalized and cannot be changed"))


async def apply(edge: Edge, change: Change, campaign_id: str, ids: Names) -> dict[str, Any]:
    """Makes one change so, and returns the resource. `ids`: name -> id. Raises Refused."""
    kind = change.kind
    if change.action == "keep" and change.current is not None:
        return change.current
    body = renamed(change.sent(), ids)
    if change.current is None:
        placed = {} if kind is CAMPAIGN or change.shared else {"campaign_id": campaign_id}
        return await edge.post(kind.path, {**body, **placed})
    if kind is GAMES:
        body["revision"] = change.current["revision"]
    return await edge.put(f"{kind.path}/{change.current['id']}", body)
