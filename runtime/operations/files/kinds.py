"""Resources of a campaign's file: the settable fields of each kind, their normalized form, and the differences.

The normalized form is the service's own JSON (enums as value names, times as numbers) of the fields in the file, with
defaults filled in, so that the file can be compared with the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from runtime import messages as m
from runtime.errors import Fault
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.draws import draw_admin
from runtime.operations.games import game_admin as games
from runtime.operations.leaderboards import board_admin as leaderboards
from runtime.operations.packs import pack_admin
from runtime.operations.prizes import prize_admin as prizes
from runtime.operations.quests import quest_admin
from runtime.rules.ui import assets_of
from runtime.wire import codec
from runtime.wire.schema import fields_of

Found = list[tuple[str, str]]
"""(path, problem) pairs"""

TIMES: Final = ("start_date", "end_date", "redeem_until", "starts_at", "ends_at", "at", "closes_at", "until")
SECRETS: Final = ("secret", "previous_secret", "secret_set")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: its section of the file, its message, and the fields that a file may set."""

    section: str
    message: Any
    settable: frozenset[str]
    problems: Callable[[Any], Found]

    @property
    def path(self) -> str:
        return f"/{self.section}"

    @property
    def singular(self) -> str:
        return self.section.removesuffix("s")


CAMPAIGN: Final = Kind("campaigns", m.Campaign, campaigns.SETTABLE, campaigns.problems)
PRIZES: Final = Kind("prizes", m.Prize, prizes.SETTABLE - {"campaign_id"}, prizes.problems)
GAMES: Final = Kind("games", m.Game, games.SETTABLE - {"campaign_id"}, games.problems)
QUESTS: Final = Kind("quests", m.Quest, quest_admin.SETTABLE - {"campaign_id"}, quest_admin.problems)
BOARDS: Final = Kind("leaderboards", m.Leaderboard, leaderboards.SETTABLE - {"campaign_id"}, leaderboards.problems)
PACKS: Final = Kind("packs", m.Pack, pack_admin.SETTABLE, pack_admin.problems)
DRAWS: Final = Kind("draws", m.Draw, draw_admin.SETTABLE, partial(draw_admin.problems, now=0))


# -- from a file -----------------------------------------------------------------------------


def normalized(kind: Kind, provided: Mapping[str, Any], path: str, found: Found, **extra: Any) -> dict[str, Any]:
    """The normalized form of a resource's fields in a file.

    Adds the resource's own problems to `found`, by path. extra: fields that the file lacks and the checks need (a
    campaign_id).
    """
    before = len(found)
    plain: dict[str, Any] = {}
    for name, value in provided.items():
        if name not in kind.settable:
            known = name in fields_of(kind.message)
            found.append((join(path, name), "is read-only" if known else "is not a known field"))
        else:
            plain[name] = _with_seconds(value, name, join(path, name), found)
    try:
        resource, _ = codec.read(kind.message, {**plain, **extra})
        found += [(join(path, name), problem) for name, problem in kind.problems(resource)]
    except Fault as fault:
        found += [(join(path, row["field"]), row["description"]) for row in fault.facts["violations"]]
    if len(found) > before:
        return {}
    shown = codec.view(kind.message, "number")(resource)
    return {name: shown[name] for name, value in plain.items() if value is not None}


def _with_seconds(value: Any, name: str, path: str, found: Found) -> Any:
    """The value of a field, with its times in unix seconds."""
    if name in TIMES:
        return _seconds(value, path, found)
    if name in ("release", "randomness") and isinstance(value, dict):
        return {key: _with_seconds(item, key, join(path, key), found) for key, item in value.items()}
    if name == "times" and isinstance(value, list):
        rows = enumerate(value)
        return [_with_seconds(row, "release", f"{path}[{index}]", found) for index, row in rows]
    return value


def _seconds(value: Any, path: str, found: Found) -> Any:
    """Converts an ISO 8601 time with an offset to unix seconds; numbers are seconds already."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        found.append((path, "must be a time such as 2026-03-01T09:00:00+01:00"))
        return None
    if moment.tzinfo is None:
        found.append((path, "must have an offset, such as 2026-03-01T09:00:00+01:00"))
        return None
    return int(moment.timestamp())


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


# -- what differs ----------------------------------------------------------------------------


@dataclass(slots=True)
class Change:
    """The wanted state of one resource. current: the service's state, or None for a new resource."""

    kind: Kind
    name: str
    path: str
    wanted: dict[str, Any]
    current: dict[str, Any] | None = None
    shared: bool = False
    differs: list[str] = field(default_factory=list)

    def copy(self) -> Change:
        """A copy that is not compared yet, for a retry of the transaction."""
        return Change(self.kind, self.name, self.path, deepcopy(self.wanted), shared=self.shared)

    def compare(self) -> None:
        """Finds the fields that differ, and fills in values that the service generates."""
        if self.current is None:
            self.differs = list(self.wanted)
            return
        for name, value in self.wanted.items():
            self.wanted[name] = value = _completed(value, self.current[name])
            if _comparable(value) != _comparable(self.current[name]) or _sets_secrets(value, self.current[name]):
                self.differs.append(name)

    @property
    def action(self) -> str:
        return "create" if self.current is None else "change" if self.differs else "keep"

    def sent(self) -> dict[str, Any]:
        """The body of the request. An empty object removes a block, since null means unchanged."""
        return {name: {} if self.wanted[name] is None else self.wanted[name] for name in self.differs}


def _completed(wanted: Any, current: Any) -> Any:
    """`wanted` with the service's values of unset enums, rungs' ids, and counters of stock and budgets."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        if {"total", "remaining", "awarded"} == wanted.keys():
            return {**current, "total": wanted["total"]}
        if {"kind", "commitment", "opening"} <= wanted.keys():
            return {**wanted, **{name: current[name] for name in ("commitment", "opening", "notary_copy")}}
        if {"source", "round", "commitment", "value"} <= wanted.keys():
            return {**current, **{name: wanted[name] for name in ("kind", "source", "at")}}
        if {"amount", "currency", "used", "used_at"} == wanted.keys():
            return {**current, "amount": wanted["amount"], "currency": wanted["currency"]}
        return {name: _completed(value, current.get(name)) for name, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(current, list):
        ids = {_rung_key(item): item["id"] for item in current if _rung_key(item)}
        return [
            {**item, "id": item["id"] or ids.get(_rung_key(item), "")} if _rung_key(item) else item for item in wanted
        ]
    return current if isinstance(wanted, str) and wanted.endswith("_UNSPECIFIED") else wanted


def _rung_key(value: Any) -> tuple[Any, ...] | None:
    """A rung's natural key: its currency and threshold."""
    if isinstance(value, dict) and {"id", "currency", "threshold"} <= value.keys():
        return (value["currency"], value["threshold"])
    return None


def _comparable(value: Any) -> Any:
    """A value without the fields that the service never returns. An uploaded file is the same in every tenant."""
    value = assets_of(value, "")
    if isinstance(value, dict):
        comparable = {name: _comparable(item) for name, item in value.items() if name not in SECRETS}
        return comparable | (
            {"config": without_headers(comparable["config"])} if isinstance(comparable.get("config"), dict) else {}
        )
    return value


def without_headers(config: Mapping[str, Any]) -> dict[str, Any]:
    """A receiver's config without its headers: the service does not return their values."""
    return {name: value for name, value in config.items() if name != "headers"}


def _sets_secrets(wanted: Any, current: Any) -> bool:
    """Whether the file sets a receiver's first secret, or sets or removes its headers.

    The service returns neither, so they cannot be compared. An existing secret stays; headers are set each time.
    """
    if not isinstance(wanted, dict) or not isinstance(wanted.get("config"), dict):
        return False
    config, current_config = wanted["config"], (current or {}).get("config") or {}
    headers = config.get("headers")
    return bool(config.get("secret") and not current_config.get("secret_set")) or bool(
        headers or (headers is not None and current_config.get("headers"))
    )
