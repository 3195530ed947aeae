"""The texts of commands: fields named in braces, each shown in a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from string import Formatter
from typing import Any, Final


def filled(text: str, item: Mapping[str, Any]) -> str:
    """A text with an item's fields in the place of their names."""
    return _FILLER.vformat(text, (item,), {}).strip()


def worded(item: Mapping[str, Any], enums: Mapping[str, str]) -> dict[str, Any]:
    """An item whose enums are words: `{"status": "TASK_STATUS_DEAD"}` as `{"status": "dead"}`."""
    return {**item, **{name: item[name].removeprefix(enums[name]).lower() for name in enums if item.get(name)}}


class _Filler(Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        value = args[0]
        # The formatter numbers what has no name: that is the whole item.
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
    """2027-01-31"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def minute(seconds: int) -> str:
    """2027-01-31 09:00:00Z"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def second(seconds: int) -> str:
    """2027-01-31 09:00:00+00:00"""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ")


def some(number: int) -> str:
    """A number, or nothing where it is 0."""
    return str(number or "")


def stock(total: int) -> str:
    """A prize's total, of which 0 is no limit."""
    return str(total or "unlimited")


def values(contacts: Sequence[Mapping[str, Any]]) -> str:
    """The values of contacts."""
    return ", ".join(contact["value"] for contact in contacts)


def condition(of: Mapping[str, Any] | None) -> str:
    """What completes a quest."""
    kind = of["kind"].removeprefix("QUEST_CONDITION_KIND_").lower() if of else ""
    return f"{of['count']} {kind}" if of else "the player's word"


def budget(of: Mapping[str, Any] | None) -> str:
    """A campaign's budget."""
    return f"{of['amount']:,.2f} {of['currency']}" if of else ""


def used(of: Mapping[str, Any] | None) -> str:
    """What is used of a budget."""
    if not of:
        return ""
    return f"{of['used'] / of['amount']:.0%}" if of["used_at"] else "not counted yet"


def signing(secret: str) -> str:
    """How an integration signs after `integrations rotate`."""
    return "signs with both" if secret else "signs with the new one alone"


def believed(secret: str) -> str:
    """A quest's new secret, or what it means that there is none."""
    return secret or "the newest alone is believed"


def removed(archived: bool) -> str:
    return "archived" if archived else "removed"


def code_state(state: str) -> str:
    """The state of a voucher code; of one that is not there, too."""
    return state.removeprefix("CODE_STATE_").lower().replace("unspecified", "unknown")


# -- what is given ---------------------------------------------------------------------------


def which_codes(given: Mapping[str, Any]) -> str:
    """Which voucher codes a command is about."""
    every = [name for name in ("free", "expired") if given.get(f"all_{name}")]
    return f"every {every[0]} code" if every else f"{len(given['codes'])} codes"


def until_when(given: Mapping[str, Any]) -> str:
    return "never" if given["never"] else str(given["until"])


# -- whole items -----------------------------------------------------------------------------


def standing(player: Mapping[str, Any]) -> str:
    """A player's status, or what became of the player."""
    if player["merged_into"]:
        return f"is {player['merged_into']}"
    return "erased" if player["erased_at"] else str(player["status"])


def left(prize: Mapping[str, Any]) -> str:
    """What is left of a prize."""
    return f"{prize['remaining']} of {prize['total']}" if prize["total"] else "unlimited"


def pool(prize: Mapping[str, Any]) -> str:
    """How many codes there are of a prize that gives codes."""
    return str(prize["codes_available"]) if prize["channel"] == "voucher_code" else ""


def ending(token: Mapping[str, Any]) -> str:
    """When an API token ends, or ended."""
    return f"revoked {day(token['revoked_at'])}" if token["revoked_at"] else day(token["expires_at"])


def last_use(token: Mapping[str, Any]) -> str:
    """When an API token was used last."""
    return day(token["last_used_at"]) if token["last_used_at"] else "never"


def changed(entry: Mapping[str, Any]) -> str:
    """The fields that an entry of the audit log changed."""
    before, after = entry["before"] or {}, entry["after"] or {}
    return ", ".join(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))


FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    form.__name__: form
    for form in (
        *(day, minute, second, some, stock, values, condition, budget, used, signing, believed, removed),
        *(code_state, which_codes, until_when),
        *(standing, left, pool, ending, last_use, changed),
    )
}
"""What stands after a field's colon, beside the formats of numbers."""
