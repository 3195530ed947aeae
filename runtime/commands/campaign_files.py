"""A whole campaign as one YAML file (runtime/operations/files): written from what the service has, and compared.

The service imports a file by itself, all of it or nothing; what that would change is found out here, to be shown first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runtime.commands.connection import Edge, Refused
from runtime.commands.documents import Document
from runtime.commands.resources import filed
from runtime.operations.files import wanted
from runtime.operations.files.kinds import BOARDS, CAMPAIGN, GAMES, PRIZES, Change, Found
from runtime.operations.files.wanted import KINDS, VERSION, Names, check_state, matched, renamed


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
            unshown = (("the secret", config.get("secret_set")), ("what is in the headers", config.get("headers")))
            notes += [
                f"{what} of prize {item['name']!r} is not in the file: give it anew after an import elsewhere"
                for what, there in unshown
                if there
            ]
        if rows:
            file[kind.section] = rows
    file["campaign"] = _name_first(file["campaign"])
    return file, notes


def _name_first(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row.pop("name"), **row}


# -- import ----------------------------------------------------------------------------------


def read(document: Document) -> list[Change]:
    """What a file wants, the campaign first, in the order of making. Raises FileWrong with all that is wrong."""
    changes, found = wanted.read(document.value)
    if found:
        raise document.wrong(found)
    return changes


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
        check_state(change, found)
    if found:
        raise document.wrong(found)
    return state


async def _current(edge: Edge, state: State | None, change: Change, found: Found) -> dict[str, Any] | None:
    """What the service has of this name, or None."""
    if change.shared:
        items = [item async for item in edge.each("/prizes", q=change.name)]
    else:
        items = state.resources[change.kind.section] if state is not None else []
    return matched(change, items, found)


async def _check_merchant(edge: Edge, campaign: Change, found: Found) -> None:
    merchant_id = campaign.wanted.get("merchant_id")
    if merchant_id and not any([item["id"] == merchant_id async for item in edge.each("/merchants")]):
        found.append(("campaign.merchant_id", f"there is no merchant {merchant_id!r}"))
