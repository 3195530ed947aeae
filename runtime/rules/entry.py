"""Entries: what a campaign's form asks, which values are valid, and what a player's entry lacks. Pure rules.

A stored form is the EntryForm of game.proto with enums as tokens. A complete part of an entry is a token in
`entries.given`: `field:KEY:KIND`, `age:YEARS`, `consent:ID:SHA256` of the text that was shown, `country:CODE`. A form's
needs list the tokens that it accepts for each part. So a changed text or age needs a new token and is asked again, and
both a game's actor and a claim's statement (sql/schema.sql) decide by the same stored list.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from runtime.errors import Fault, Status
from runtime.messages import ContactType
from runtime.wire.contacts import normalized
from runtime.wire.schema import Field, Kind

Form = Mapping[str, Any]
"""A stored entry form."""

Need = tuple[str, frozenset[str]]
"""The name of a part of an entry, and the tokens that it may have."""

BIRTH_DATE: Final = "birth_date"
"""The field that proves a minimum age. Its value is not stored."""

AGE_MAX: Final = 120
NUMBER_MAX: Final = 1e15
ADDRESS_PARTS: Final = ("line1", "line2", "postal_code", "city", "region", "country")
_ADDRESS_REQUIRED: Final = ("line1", "city", "country")
_COUNTRY: Final = re.compile(r"[A-Z]{2}")
_LINE: Final = Field("", Kind.TEXT, None, False, most=200)
_CONTACTS: Final = {"email": ContactType.EMAIL, "phone": ContactType.PHONE}


class EntryTerms(NamedTuple):
    """What an entry must have before a play."""

    needs: tuple[Need, ...]
    allow: frozenset[str]
    deny: frozenset[str]

    @classmethod
    def of(cls, needs: Sequence[Sequence[Any]] | None, countries: Mapping[str, Any] | None) -> EntryTerms | None:
        """The terms of a campaign's stored needs and countries; None if plays need no entry."""
        if needs is None:
            return None
        read = tuple((name, frozenset(tokens)) for name, tokens in needs)
        rule = countries or {}
        return cls(read, frozenset(rule.get("allow", ())), frozenset(rule.get("deny", ())))

    def refusal(self, given: Collection[str] | None) -> Fault | None:
        """Why an entry with these tokens (None: no entry) does not admit a play; None: it does."""
        if missing := missing_of(self.needs, given):
            return entry_required(missing)
        countries = [token.removeprefix("country:") for token in given or () if token.startswith("country:")]
        barred = barred_country({"allow": self.allow, "deny": self.deny}, countries)
        return None if barred is None else not_eligible("COUNTRY", country=barred)


def entry_required(missing: Sequence[str]) -> Fault:
    """FAILED_PRECONDITION: the campaign's form must be completed first."""
    message = f"an entry is required first; missing: {', '.join(missing)}"
    return Fault(Status.FAILED_PRECONDITION, "ENTRY_REQUIRED", message, missing=list(missing))


_WHY: Final = {
    "AGE": "the player is too young",
    "COUNTRY": "the player's country is not admitted",
    "MAX_ENTRIES": "the campaign has its maximum of entries",
    "CONTACT": "another player entered with this contact",
    "MAX_CONTACTS": "the entry's contacts were changed too often",
    "THROWAWAY": "the player logs in with a throwaway address",
}


def not_eligible(reason: str, **facts: Any) -> Fault:
    """PERMISSION_DENIED: this player may not enter the campaign."""
    return Fault(Status.PERMISSION_DENIED, "NOT_ELIGIBLE", _WHY[reason], why={"reason": reason, **facts})


def missing_of(needs: Sequence[Sequence[Any]], given: Collection[str] | None) -> list[str]:
    """The names of what an entry with these tokens lacks. None: there is no entry."""
    missing = [name for name, tokens in needs if given is None or not any(token in tokens for token in given)]
    return missing or (["entry"] if given is None else [])


def barred_country(rule: Mapping[str, Collection[str]] | None, countries: Sequence[str]) -> str | None:
    """The first of a player's countries that may not enter; "" if it is unknown where only some may. None: admitted."""
    allow, deny = (rule or {}).get("allow") or (), (rule or {}).get("deny") or ()
    for country in countries:
        if country in deny or (allow and country not in allow):
            return country
    return "" if allow and not countries else None


def needs_of(form: Form | None) -> list[list[Any]] | None:
    """A form's needs, as stored: [name, [tokens]] for each required part. None: no form."""
    if form is None:
        return None
    needs: list[list[Any]] = []
    for field in form["fields"]:
        if form["min_age"] and field["key"] == BIRTH_DATE:
            needs.append([f"fields.{BIRTH_DATE}", [f"age:{age}" for age in range(form["min_age"], AGE_MAX + 1)]])
        elif field["required"]:
            needs.append([f"fields.{field['key']}", [token_of_field(field)]])
    for consent in form["consents"]:
        if consent["required"]:
            needs.append([f"consents.{consent['id']}", consent_tokens(consent)])
    return needs


def token_of_field(field: Mapping[str, Any]) -> str:
    """The token of a field with a value of its kind: a value entered when the field had another kind is missing."""
    return f"field:{field['key']}:{field['kind']}"


def consent_tokens(consent: Mapping[str, Any]) -> list[str]:
    """The tokens of a consent: one for each language's text."""
    hashes = {text_hash(text) for text in consent["text"].values()}
    return [f"consent:{consent['id']}:{one}" for one in sorted(hashes)]


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Shown(NamedTuple):
    """A text and its language."""

    text: str
    locale: str


def in_language(texts: Mapping[str, str], locale: str) -> Shown:
    """The text for a locale: its own, its language's, English, or the first. The widget chooses by the same rule."""
    by_name = {name.lower(): name for name in texts}
    for wanted in (locale.lower(), locale.lower().partition("-")[0], "en"):
        if name := by_name.get(wanted):
            return Shown(texts[name], name)
    name = next(iter(texts))
    return Shown(texts[name], name)


# -- values ----------------------------------------------------------------------------------


class Values(NamedTuple):
    """Checked values by key (None: removed), the problems of the others, and the date of birth, if it was given."""

    values: dict[str, Any]
    problems: list[tuple[str, str]]
    birth_date: date | None


def read_values(form: Form, provided: Mapping[str, Any], today: date) -> Values:
    """Checks each submitted value against its field of the form. Required fields that are missing are no problem here.

    today: bounds dates. An empty value removes the field's value.
    """
    fields = {field["key"]: field for field in form["fields"]}
    # A minimum age also removes a date that was stored before.
    values: dict[str, Any] = {BIRTH_DATE: None} if form["min_age"] else {}
    problems: list[tuple[str, str]] = []
    born: date | None = None
    for key, value in provided.items():
        path = f"fields.{key[:64]}"
        field = fields.get(key)
        if field is None:
            problems.append((path, "is not a field of this form"))
            continue
        if value is None or (isinstance(value, str) and not value.strip()):
            values[key] = None
            continue
        try:
            read = _value(field, value, path, today)
        except _Invalid as wrong:
            problems.append((wrong.path, wrong.description))
            continue
        except Fault as fault:
            problems += [(row["field"], row["description"]) for row in fault.facts["violations"]]
            continue
        if form["min_age"] and key == BIRTH_DATE:
            born = date.fromisoformat(read)
        else:
            values[key] = read
    return Values(values, problems, born)


class _Invalid(Exception):
    def __init__(self, path: str, description: str) -> None:
        super().__init__(description)
        self.path, self.description = path, description


def _value(field: Mapping[str, Any], value: Any, path: str, today: date) -> Any:
    """A value in its stored form. Raises _Invalid or Fault."""
    kind = field["kind"]
    if kind == "checkbox":
        if not isinstance(value, bool):
            raise _Invalid(path, "must be true or false")
        return value
    if kind == "number":
        return _number(value, path)
    if kind == "address":
        return _address(value, path)
    text = _text(value, path)
    if kind in _CONTACTS:
        return normalized(_CONTACTS[kind], text, field=path)
    if kind == "date":
        return _date(text, path, today if field["key"] == BIRTH_DATE else date.max)
    if kind == "choice" and text not in [option["value"] for option in field["options"]]:
        raise _Invalid(path, "must be one of the options")
    return text


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _Invalid(path, "must be a string")
    if problem := _LINE.text_problem(value):
        raise _Invalid(path, problem)
    return value.strip()


def _number(value: Any, path: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _Invalid(path, "must be a number")
    if abs(value) > NUMBER_MAX:
        raise _Invalid(path, f"must be from {-NUMBER_MAX:.0f} to {NUMBER_MAX:.0f}")
    return int(value) if float(value).is_integer() else value


def _date(text: str, path: str, latest: date) -> str:
    try:
        read = date.fromisoformat(text) if len(text) == len("2000-12-31") else None
    except ValueError:
        read = None
    if read is None or read.year < 1900:
        raise _Invalid(path, "must be a date such as 1990-12-31")
    if read > latest:
        raise _Invalid(path, "must not be in the future")
    return read.isoformat()


def _address(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Invalid(path, f"must be an object of {', '.join(ADDRESS_PARTS)}")
    for name in value:
        if name not in ADDRESS_PARTS:
            raise _Invalid(f"{path}.{name[:64]}", "is not a part of an address")
    parts = {name: _text(value[name], f"{path}.{name}") for name in ADDRESS_PARTS if value.get(name)}
    parts = {name: part for name, part in parts.items() if part}
    if not parts:
        return {}
    for name in _ADDRESS_REQUIRED:
        if name not in parts:
            raise _Invalid(f"{path}.{name}", "is required")
    parts["country"] = parts["country"].upper()
    if not is_country(parts["country"]):
        raise _Invalid(f"{path}.country", "must be a country code such as DE")
    return parts


def is_country(code: str) -> bool:
    """Whether it has the form of an ISO 3166-1 code."""
    return _COUNTRY.fullmatch(code) is not None


def age_at(born: date, today: date) -> int:
    """The age in completed years."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def tokens_of_fields(form: Form, values: Mapping[str, Any]) -> Iterator[str]:
    """The tokens of the form's fields that have a value. An unchecked checkbox has none."""
    for field in form["fields"]:
        value = values.get(field["key"])
        if value or (field["kind"] == "number" and value is not None):
            yield token_of_field(field)


def countries_of(form: Form, values: Mapping[str, Any], country: str) -> list[str]:
    """A player's countries: where the request came from ("": unknown), and those of its addresses."""
    found = [country] if country else []
    for field in form["fields"]:
        if field["kind"] == "address" and isinstance(address := values.get(field["key"]), dict) and address:
            found.append(address["country"])
    return list(dict.fromkeys(found))
