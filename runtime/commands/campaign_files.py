"""A campaign as one YAML file (runtime/operations/files): export, and comparison with the service's state.

The service applies an import in one transaction. This module computes the changes beforehand, to show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runtime.commands.connection import Edge, Refused
from runtime.commands.documents import Document
from runtime.commands.resources import filed
from runtime.operations.files import parsing
from runtime.operations.files.kinds import BOARDS, CAMPAIGN, DRAWS, GAMES, PRIZES, Change, Found
from runtime.operations.files.parsing import (
    KINDS,
    REFERENCED,
    VERSION,
    Names,
    as_in_a_file,
    check_state,
    match,
    with_references,
)

ENDED = ("_ARCHIVED", "_CANCELLED")


@dataclass(slots=True)
class State:
    """A campaign's current state in the service: its resources by section."""

    campaign: dict[str, Any]
    resources: dict[str, list[dict[str, Any]]]

    def names(self) -> Names:
        """id -> name"""
        return {
            kind.section: {item["id"]: item["name"] for item in self.resources[kind.section]} for kind in REFERENCED
        }


# -- current state ---------------------------------------------------------------------------


async def load(edge: Edge, campaign: dict[str, Any]) -> State:
    """A campaign with its unarchived resources, and the tenant's prizes that its games, boards and draws reference."""
    resources: dict[str, list[dict[str, Any]]] = {}
    for kind in KINDS:
        items = [item async for item in edge.each(kind.path, campaign_id=campaign["id"])]
        resources[kind.section] = [item for item in items[::-1] if not str(item["status"]).endswith(ENDED)]
    known = {prize["id"] for prize in resources["prizes"]}
    named = {id_ for kind in (GAMES, BOARDS, DRAWS) for item in resources[kind.section] for id_ in _prizes_in(item)}
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
    """The campaigns with this name or id."""
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
    """The campaign's file, and notes for its reader. Raises ValueError if two resources have the same name."""
    for kind in KINDS:
        seen: set[str] = set()
        for item in state.resources[kind.section]:
            if item["name"] in seen:
                raise ValueError(
                    f"two {kind.section} are named {item['name']!r}. Rename one: a file identifies resources by name"
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
            rows.append(_name_first({**filed(kind, with_references(as_in_a_file(item), names)), **shared}))
            config = (item.get("fulfillment") or {}).get("config") or {}
            omitted = (("the secret", config.get("secret_set")), ("the header values", config.get("headers")))
            notes += [
                f"the file does not contain {what} of prize {item['name']!r}. Set it again after an import elsewhere"
                for what, is_set in omitted
                if is_set
            ]
        if rows:
            file[kind.section] = rows
    file["campaign"] = _name_first(file["campaign"])
    return file, notes


def _name_first(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row.pop("name"), **row}


# -- import ----------------------------------------------------------------------------------


def read(document: Document) -> list[Change]:
    """The file's resources in creation order, the campaign first. Raises InvalidFile with all problems."""
    changes, found = parsing.read(document.value)
    if found:
        raise document.invalid(found)
    return changes


async def plan(edge: Edge, document: Document, changes: list[Change], into: str = "") -> State | None:
    """Compares the file with the service's state. None: a new campaign. Raises InvalidFile."""
    campaign = changes[0]
    found: Found = []
    candidates = await find_campaigns(edge, into or campaign.name)
    if into and not candidates:
        raise document.invalid([("campaign", f"there is no campaign {into!r} to import into")])
    if len(candidates) > 1:
        ids = ", ".join(item["id"] for item in candidates)
        raise document.invalid(
            [("campaign.name", f"is the name of {len(candidates)} campaigns. Use --into with one of {ids}")]
        )
    await _check_merchant(edge, campaign, found)
    state = await load(edge, candidates[0]) if candidates else None
    if state is not None:
        campaign.current = state.campaign
    for change in changes[1:]:
        change.current = await _current(edge, state, change, found)
    for change in changes:
        if state is not None and change.current is not None:
            change.current = with_references(change.current, state.names())
        change.compare()
        check_state(change, found)
    if found:
        raise document.invalid(found)
    return state


async def _current(edge: Edge, state: State | None, change: Change, found: Found) -> dict[str, Any] | None:
    """The service's resource with this name, or None."""
    if change.shared:
        items = [item async for item in edge.each("/prizes", q=change.name)]
    else:
        items = state.resources[change.kind.section] if state is not None else []
    return match(change, items, found)


async def _check_merchant(edge: Edge, campaign: Change, found: Found) -> None:
    merchant_id = campaign.wanted.get("merchant_id")
    if merchant_id and not any([item["id"] == merchant_id async for item in edge.each("/merchants")]):
        found.append(("campaign.merchant_id", f"there is no merchant {merchant_id!r}"))
