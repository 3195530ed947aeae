"""Resources as a campaign's file has them: what it may set of each, in settled form, and what differs from the service.

Settled form is the service's own JSON (enums as value names, times as numbers), as far as a file gives it,
with every default in its place, so that a file and the service can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from runtime import messages as m
from runtime.errors import Fault
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.games import game_admin as games
from runtime.operations.leaderboards import board_admin as leaderboards
from runtime.operations.prizes import prize_admin as prizes
from runtime.operations.quests import quest_admin
from runtime.wire import codec
from runtime.wire.schema import fields_of

Found = list[tuple[str, str]]
"""(path, what is wrong)"""

TIMES: Final = ("start_date", "end_date", "redeem_until")
SECRETS: Final = ("secret", "previous_secret", "secret_set")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: its section of a file and its path, its message, the fields that a file may set."""

    section: str
    message: Any
    settable: frozenset[str]
    problems: Callable[[Any], Found]

    @property
    def path(self) -> str:
        return f"/{self.section}"

    @property
    def one(self) -> str:
        """The word for one of them."""
        return self.section.removesuffix("s")


CAMPAIGN: Final = Kind("campaigns", m.Campaign, campaigns.SETTABLE, campaigns.problems)
PRIZES: Final = Kind("prizes", m.Prize, prizes.SETTABLE - {"campaign_id"}, prizes.problems)
GAMES: Final = Kind("games", m.Game, games.SETTABLE - {"campaign_id"}, games.problems)
QUESTS: Final = Kind("quests", m.Quest, quest_admin.SETTABLE - {"campaign_id"}, quest_admin.problems)
BOARDS: Final = Kind("leaderboards", m.Leaderboard, leaderboards.SETTABLE - {"campaign_id"}, leaderboards.problems)


# -- from a file -----------------------------------------------------------------------------


def settled(kind: Kind, given: Mapping[str, Any], path: str, found: Found, **placed: Any) -> dict[str, Any]:
    """The settled form of a resource in a file, restricted to what the file gives.

    Everything that is wrong with it in itself goes to `found`, by path. `placed` are fields that the file
    does not give and that the check needs (a campaign_id).
    """
    before = len(found)
    plain: dict[str, Any] = {}
    for name, value in given.items():
        if name not in kind.settable:
            known = name in fields_of(kind.message)
            found.append((join(path, name), "is the service's to set" if known else "is not a field here"))
        else:
            plain[name] = _seconds(value, join(path, name), found) if name in TIMES else value
    try:
        made, _ = codec.read(kind.message, {**plain, **placed})
        found += [(join(path, name), problem) for name, problem in kind.problems(made)]
    except Fault as fault:
        found += [(join(path, row["field"]), row["description"]) for row in fault.facts["violations"]]
    if len(found) > before:
        return {}
    shown = codec.view(kind.message, "number")(made)
    return {name: shown[name] for name, value in plain.items() if value is not None}


def _seconds(value: Any, path: str, found: Found) -> Any:
    """Unix seconds of an ISO 8601 time with an offset; numbers are seconds already."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        found.append((path, "must be a time such as 2026-03-01T09:00:00+01:00"))
        return None
    if moment.tzinfo is None:
        found.append((path, "needs an offset, such as 2026-03-01T09:00:00+01:00"))
        return None
    return int(moment.timestamp())


def join(path: str, name: str) -> str:
    """The path of a field below another."""
    return f"{path}.{name}" if path and name else path or name


# -- what differs ----------------------------------------------------------------------------


@dataclass(slots=True)
class Change:
    """What a file would have of one resource. `current` is the service's, None: there is none."""

    kind: Kind
    name: str
    path: str
    wanted: dict[str, Any]
    current: dict[str, Any] | None = None
    shared: bool = False
    differs: list[str] = field(default_factory=list)

    def anew(self) -> Change:
        """The same, not compared yet."""
        return Change(self.kind, self.name, self.path, deepcopy(self.wanted), shared=self.shared)

    def compare(self) -> None:
        """Finds the fields that differ, and gives what the service makes its own value."""
        if self.current is None:
            self.differs = list(self.wanted)
            return
        for name, value in self.wanted.items():
            self.wanted[name] = value = _completed(value, self.current[name])
            if _seen(value) != _seen(self.current[name]) or _confides(value, self.current[name]):
                self.differs.append(name)

    @property
    def action(self) -> str:
        return "create" if self.current is None else "change" if self.differs else "keep"

    def sent(self) -> dict[str, Any]:
        """The body that makes it so: an empty object takes a block away, since null is what is left out."""
        return {name: {} if self.wanted[name] is None else self.wanted[name] for name in self.differs}


def _completed(wanted: Any, current: Any) -> Any:
    """`wanted` with what a file leaves to the service: unset enums, ids of rungs, counts of stock and budgets."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        if {"total", "remaining", "awarded"} == wanted.keys():
            return {**current, "total": wanted["total"]}
        if {"amount", "currency", "used", "used_at"} == wanted.keys():
            return {**current, "amount": wanted["amount"], "currency": wanted["currency"]}
        return {name: _completed(value, current.get(name)) for name, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(current, list):
        ids = {_rung(item): item["id"] for item in current if _rung(item)}
        return [{**item, "id": item["id"] or ids.get(_rung(item), "")} if _rung(item) else item for item in wanted]
    return current if isinstance(wanted, str) and wanted.endswith("_UNSPECIFIED") else wanted


def _rung(value: Any) -> tuple[Any, ...] | None:
    """What tells a rung from another (as the service has it): its currency and threshold."""
    if isinstance(value, dict) and {"id", "currency", "threshold"} <= value.keys():
        return (value["currency"], value["threshold"])
    return None


def _seen(value: Any) -> Any:
    """A value without what the service does not show."""
    if isinstance(value, dict):
        seen = {name: _seen(item) for name, item in value.items() if name not in SECRETS}
        return seen | ({"config": without_headers(seen["config"])} if isinstance(seen.get("config"), dict) else {})
    return value


def without_headers(config: Mapping[str, Any]) -> dict[str, Any]:
    """A receiver's config without what its headers carry, which the service does not show either."""
    return {name: value for name, value in config.items() if name != "headers"}


def _confides(wanted: Any, current: Any) -> bool:
    """Whether a receiver gets its first secret, or headers are given, or taken away with an empty object.

    Neither is shown, so neither can be compared. A later secret is left alone; what headers carry is set each time.
    """
    if not isinstance(wanted, dict) or not isinstance(wanted.get("config"), dict):
        return False
    config, had = wanted["config"], (current or {}).get("config") or {}
    headers = config.get("headers")
    return bool(config.get("secret") and not had.get("secret_set")) or bool(
        headers or (headers is not None and had.get("headers"))
    )
