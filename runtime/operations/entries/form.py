"""A campaign's entry form: defaults, checks, and its stored form (EntryForm of game.proto, enums as tokens)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from runtime import messages as m
from runtime.operations.checks import Checks
from runtime.operations.entries.captcha import CAPTCHAS
from runtime.rules.entry import AGE_MAX, BIRTH_DATE, is_country
from runtime.wire.enums import enum, token
from runtime.wire.schema import Field, Kind

OPTIONS_MIN: Final = 2
LANGUAGES_MAX: Final = 50
LABEL_MAX: Final = 200
CONSENT_MAX: Final = 5_000
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_LABEL: Final = Field("", Kind.TEXT, None, False, most=LABEL_MAX)
_CONSENT: Final = Field("", Kind.TEXT, None, False, most=CONSENT_MAX, lines=True)


def fill_defaults(form: m.EntryForm) -> None:
    """Sets the default mode and kinds. An empty form stays empty: it removes the campaign's form."""
    if not form:
        return
    form.mode = form.mode or m.EntryMode.OPEN
    for field in form.fields:
        field.kind = field.kind or m.EntryFieldKind.TEXT


def check(checks: Checks, form: m.EntryForm) -> None:
    """Adds the problems of a form with defaults filled in. The codec has checked the sizes of lists."""
    if not form:
        return
    _check_fields(checks, form)
    seen: set[str] = set()
    for index, consent in enumerate(form.consents):
        path = f"entry.consents[{index}]"
        _check_name(checks, f"{path}.id", consent.id, seen)
        check_texts(checks, f"{path}.text", consent.text, _CONSENT)
        if consent.link and not _is_https(consent.link):
            checks.problem(f"{path}.link", "must be an https URL")
    if form.captcha and CAPTCHAS.get(form.captcha) is None:
        checks.problem("entry.captcha", f"must be empty or one of {', '.join(CAPTCHAS.names())}")
    checks.between("entry.max_entries", form.max_entries, 0, 2**53)
    checks.between("entry.min_age", form.min_age, 0, AGE_MAX)
    dated = any(one.key == BIRTH_DATE and one.kind is m.EntryFieldKind.DATE for one in form.fields)
    if form.min_age and not dated:
        checks.problem("entry.min_age", f"needs a field {BIRTH_DATE} of kind ENTRY_FIELD_KIND_DATE")
    rule = form.countries or m.EntryCountries()
    for name in ("allow", "deny"):
        for index, code in enumerate(getattr(rule, name)):
            if not is_country(code):
                checks.problem(f"entry.countries.{name}[{index}]", "must be a country code such as DE")


def _check_fields(checks: Checks, form: m.EntryForm) -> None:
    seen: set[str] = set()
    for index, field in enumerate(form.fields):
        path = f"entry.fields[{index}]"
        _check_name(checks, f"{path}.key", field.key, seen)
        check_texts(checks, f"{path}.label", field.label, _LABEL)
        if field.kind is not m.EntryFieldKind.CHOICE:
            if field.options:
                checks.problem(f"{path}.options", "must be empty unless kind is ENTRY_FIELD_KIND_CHOICE")
            continue
        values = [option.value for option in field.options]
        if len(values) < OPTIONS_MIN:
            checks.problem(f"{path}.options", f"must be at least {OPTIONS_MIN}")
        for nth, option in enumerate(field.options):
            if not option.value or option.value != option.value.strip():
                checks.problem(f"{path}.options[{nth}].value", "must not be empty, or begin or end with white space")
            elif option.value in values[:nth]:
                checks.problem(f"{path}.options[{nth}].value", "must be unique")
            if option.label:
                check_texts(checks, f"{path}.options[{nth}].label", option.label, _LABEL)


def _check_name(checks: Checks, path: str, name: str, seen: set[str]) -> None:
    if not _KEY.fullmatch(name):
        checks.problem(path, "must begin with a letter and contain only letters, digits and _")
    elif name in seen:
        checks.problem(path, "must be unique")
    seen.add(name)


def check_texts(checks: Checks, path: str, texts: Mapping[str, Any] | None, rule: Field) -> None:
    """Adds the problems of a text by language, with at least one."""
    if not texts:
        checks.problem(path, 'must be a text by language, such as {"en": "Name"}')
    for language, text in list((texts or {}).items())[: LANGUAGES_MAX + 1]:
        if not LANGUAGE.fullmatch(language):
            checks.problem(f"{path}.{language[:35]}", "must be named by a language, such as en or pt-BR")
        elif not isinstance(text, str) or not text.strip():
            checks.problem(f"{path}.{language}", "must be a text")
        elif problem := rule.text_problem(text):
            checks.problem(f"{path}.{language}", problem)
    if len(texts or {}) > LANGUAGES_MAX:
        checks.problem(path, f"must have at most {LANGUAGES_MAX} languages")


def _is_https(link: str) -> bool:
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and not re.search(r"[\s\"<>\\]", link)


def stored(form: m.EntryForm | None) -> dict[str, Any] | None:
    """The stored form; None: no form."""
    if not form:
        return None
    rule = form.countries or m.EntryCountries()
    return {
        "mode": token(form.mode),
        "fields": [_stored_field(field) for field in form.fields],
        "min_age": form.min_age,
        "countries": {"allow": list(rule.allow), "deny": list(rule.deny)},
        "consents": [
            {"id": one.id, "text": one.text, "required": one.required, "link": one.link} for one in form.consents
        ],
        "max_entries": form.max_entries,
        "one_per_contact": form.one_per_contact,
        "captcha": form.captcha,
    }


def _stored_field(field: m.EntryField) -> dict[str, Any]:
    options = [{"value": one.value, "label": one.label or {}} for one in field.options]
    return {
        "key": field.key,
        "label": field.label,
        "kind": token(field.kind),
        "required": field.required,
        "options": options,
    }


def from_stored(form: Mapping[str, Any] | None) -> m.EntryForm | None:
    if form is None:
        return None
    rule = form["countries"]
    return m.EntryForm(
        mode=enum(m.EntryMode, form["mode"]),
        fields=[_field(field) for field in form["fields"]],
        min_age=form["min_age"],
        countries=m.EntryCountries(**rule) if rule["allow"] or rule["deny"] else None,
        consents=[m.EntryConsent(**consent) for consent in form["consents"]],
        max_entries=form["max_entries"],
        one_per_contact=form["one_per_contact"],
        captcha=form.get("captcha", ""),
    )


def _field(field: Mapping[str, Any]) -> m.EntryField:
    options = [m.EntryOption(value=one["value"], label=one["label"] or None) for one in field["options"]]
    return m.EntryField(**{**field, "kind": enum(m.EntryFieldKind, field["kind"]), "options": options})
