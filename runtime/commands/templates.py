"""Templates for command output: field names in braces, each with an optional format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from string import Formatter
from typing import Any, Final


def fill(text: str, item: Mapping[str, Any]) -> str:
    """Fills a template with an item's fields."""
    return _FILLER.vformat(text, (item,), {}).strip()


def with_enum_words(item: Mapping[str, Any], enums: Mapping[str, str]) -> dict[str, Any]:
    """An item with enums as words: `{"status": "TASK_STATUS_DEAD"}` becomes `{"status": "dead"}`."""
    return {**item, **{name: item[name].removeprefix(enums[name]).lower() for name in enums if item.get(name)}}


class _Filler(Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        value = args[0]
        # The formatter numbers fields without a name; these stand for the whole item.
        for name in () if field_name.isdecimal() else field_name.split("."):
            value = (value or {}).get(name, "")
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in FORMS:
            return FORMS[format_spec](value)
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return "" if value is None else format(value, format_spec)


_FILLER: Final = _Filler()


# -- values ----------------------------------------------------------------------------------


def day(seconds: int) -> str:
    """2027-01-31; empty without a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d") if seconds else ""


def minute(seconds: int) -> str:
    """2027-01-31 09:00:00Z; empty without a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if seconds else ""


def second(seconds: int) -> str:
    """2027-01-31 09:00:00+00:00"""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ")


def some(number: int) -> str:
    """A number; empty if 0."""
    return str(number or "")


def stock(total: int) -> str:
    """A prize's total; 0 is unlimited."""
    return str(total or "unlimited")


def values(contacts: Sequence[Mapping[str, Any]]) -> str:
    """The values of contacts."""
    return ", ".join(contact["value"] for contact in contacts)


def condition(of: Mapping[str, Any] | None) -> str:
    """A quest's condition."""
    kind = of["kind"].removeprefix("QUEST_CONDITION_KIND_").lower() if of else ""
    return f"{of['count']} {kind}" if of else "on request"


def budget(of: Mapping[str, Any] | None) -> str:
    """A campaign's budget."""
    return f"{of['amount']:,.2f} {of['currency']}" if of else ""


def used(of: Mapping[str, Any] | None) -> str:
    """The used share of a budget."""
    if not of:
        return ""
    return f"{of['used'] / of['amount']:.0%}" if of["used_at"] else "not counted yet"


def signing(secret: str) -> str:
    """How an integration signs after `integrations rotate`."""
    return "signs with both secrets" if secret else "signs with the new secret only"


def removed(archived: bool) -> str:
    return "archived" if archived else "removed"


def code_state(state: str) -> str:
    """The state of a voucher code; unknown if it does not exist."""
    return state.removeprefix("CODE_STATE_").lower().replace("unspecified", "unknown")


# -- arguments -------------------------------------------------------------------------------


def which_codes(arguments: Mapping[str, Any]) -> str:
    """The voucher codes that a command selects."""
    every = [name for name in ("free", "expired") if arguments.get(f"all_{name}")]
    return f"every {every[0]} code" if every else f"{len(arguments['codes'])} codes"


def until_when(arguments: Mapping[str, Any]) -> str:
    return "never" if arguments["never"] else str(arguments["until"])


# -- whole items -----------------------------------------------------------------------------


def player_status(player: Mapping[str, Any]) -> str:
    """A player's status; for a merged or erased player, that."""
    if player["merged_into"]:
        return f"merged into {player['merged_into']}"
    return "erased" if player["erased_at"] else str(player["status"])


def remaining(prize: Mapping[str, Any]) -> str:
    """A prize's remaining and total units."""
    return f"{prize['remaining']} of {prize['total']}" if prize["total"] else "unlimited"


def pool(prize: Mapping[str, Any]) -> str:
    """The free codes of a prize that gives codes; otherwise empty."""
    return str(prize["codes_available"]) if prize["channel"] == "voucher_code" else ""


def ending(token: Mapping[str, Any]) -> str:
    """When an API token expires, or was revoked."""
    return f"revoked {day(token['revoked_at'])}" if token["revoked_at"] else day(token["expires_at"])


def last_use(token: Mapping[str, Any]) -> str:
    """The day an API token was last used."""
    return day(token["last_used_at"]) if token["last_used_at"] else "never"


def changed(entry: Mapping[str, Any]) -> str:
    """The fields that an audit log entry changed."""
    before, after = entry["before"] or {}, entry["after"] or {}
    return ", ".join(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))


FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    form.__name__: form
    for form in (
        *(day, minute, second, some, stock, values, condition, budget, used, signing, removed),
        *(code_state, which_codes, until_when),
        *(player_status, remaining, pool, ending, last_use, changed),
    )
}
"""The formats after a field's colon, in addition to number formats."""
