"""Normalizes phone numbers and e-mail addresses to the canonical form that identifies a player.

A phone number is E.164 (`+12025550123`), parsed by the phonenumbers library. It must begin with `+`, because a server
for many countries has no default one. A number of plausible length is accepted even if the library knows no carrier for
it: numbering plans change faster than libraries, and the login code verifies the number.

An e-mail address is parsed by email-validator, without DNS. It is lower-cased as a whole: RFC 5321 allows a
case-sensitive local part, but mail services ignore case, and people type either.

All addresses that reach one mailbox have one form for counting (`canonical`). Providers deliver `name+anything@` to
`name@`, and Gmail ignores dots. Each provider's own rule is in _PROVIDERS; at any other domain only what follows a `+`
is removed, which nearly every mail service ignores. Characters that differ only in width or form are the same (Unicode
NFKC). docs/how-to/entry-form.md lists the rules.

Both libraries are imported after the process is ready (`prepare`), or on first use, for a faster start.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

from runtime.errors import Fault, invalid
from runtime.messages import ContactType

_PHONE_CHARACTERS_MAX: Final = 32
_EMAIL_CHARACTERS_MAX: Final = 320
"""The maximum of both parts together (RFC 5321, 4.5.3.1). Checked first: the library takes quadratic time."""


class _Provider(NamedTuple):
    """A provider's rule.

    domain: the canonical one of its domains. tags: the characters that begin an alias. characters: a table of
    `str.translate` for those that it ignores or does not distinguish. has_subdomains: delivers `anything@name.domain`
    to `name@domain`.
    """

    domain: str
    tags: str = "+"
    characters: Mapping[int, int | None] = {}
    has_subdomains: bool = False


_SAME_DASHES: Final = str.maketrans("-", "_")
"""A host name cannot have an underscore, so Fastmail takes a hyphen for it."""

_FASTMAIL: Final = "com net org us co.uk com.au cn es im in jp mx nl se to tw"
_YAHOO: Final = (  # Without co.jp, which is another company.
    "com ca com.ar com.au com.br com.hk com.mx com.ph com.sg com.tw com.vn co.id co.in co.nz co.uk co.za "
    "de dk es fr gr ie in it no pl ro se"
)
_PROVIDERS: Final[Mapping[str, _Provider]] = {
    **dict.fromkeys(("gmail.com", "googlemail.com"), _Provider("gmail.com", characters=str.maketrans("", "", "."))),
    **dict.fromkeys(("icloud.com", "me.com", "mac.com"), _Provider("icloud.com")),
    **dict.fromkeys(
        ("protonmail.com", "proton.me", "pm.me", "protonmail.ch"),
        _Provider("proton.me", characters=str.maketrans("", "", ".-_")),
    ),
    **dict.fromkeys(
        ("yandex.ru", "yandex.com", "ya.ru", "yandex.by", "yandex.kz", "yandex.ua"),
        _Provider("yandex.ru", characters=str.maketrans(".", "-")),
    ),
    **{
        f"fastmail.{end}": _Provider(f"fastmail.{end}", characters=_SAME_DASHES, has_subdomains=True)
        for end in _FASTMAIL.split()
    },
    "fastmail.fm": _Provider("fastmail.com", characters=_SAME_DASHES, has_subdomains=True),
    **{f"yahoo.{end}": _Provider(f"yahoo.{end}", tags="+-") for end in _YAHOO.split()},
}


async def prepare() -> None:
    """Imports both libraries in a thread, so that the first contact does not block the event loop."""
    await asyncio.to_thread(_import)


def _import() -> None:
    import email_validator  # noqa: F401
    import phonenumbers  # noqa: F401


def normalized(type: ContactType, value: str, *, field: str = "value") -> str:
    """The contact's canonical form. INVALID_ARGUMENT on `field` if it is not a contact of that type.

    INVALID_ARGUMENT on `type` if that is unset.
    """
    if type == ContactType.PHONE:
        return _phone(value.strip(), field)
    if type == ContactType.EMAIL:
        return _email(value.strip(), field)
    raise invalid("type", "must be CONTACT_TYPE_PHONE or CONTACT_TYPE_EMAIL")


def spellings(text: str) -> list[str]:
    """The contacts that a text may be, in canonical form; empty if it is none."""
    found = []
    for type in (ContactType.EMAIL, ContactType.PHONE):
        try:
            found.append(normalized(type, text))
        except Fault:
            continue
    return found


def masked(contact: str) -> str:
    """A masked contact, recognizable only to those who know it: a***@example.com, +49***78."""
    name, at, domain = contact.rpartition("@")
    return f"{name[:1]}***@{domain}" if at else f"{contact[:3]}***{contact[-2:]}"


def canonical(kind: str, value: str) -> str:
    """The canonical form of a normalized e-mail address or phone number."""
    if kind != "email":
        return value
    local, _, domain = unicodedata.normalize("NFKC", value).lower().rpartition("@")
    name, _, parent = domain.partition(".")
    if (rule := _PROVIDERS.get(parent)) is not None and rule.has_subdomains:
        local = name
    else:
        rule = _PROVIDERS.get(domain, _Provider(domain))
    for tag in rule.tags:
        local = local.partition(tag)[0] or local
    return f"{local.translate(rule.characters) or local}@{rule.domain}"


def _phone(value: str, field: str) -> str:
    wrong = invalid(field, "must be an international phone number such as +12025550123")
    if not value.startswith("+") or len(value) > _PHONE_CHARACTERS_MAX:
        raise wrong
    import phonenumbers

    possible = (
        phonenumbers.ValidationResult.IS_POSSIBLE,
        # Shorter than usual in its country, such as +15550100, but it can be dialled.
        phonenumbers.ValidationResult.IS_POSSIBLE_LOCAL_ONLY,
    )
    try:
        number = phonenumbers.parse(value, None)
    except phonenumbers.NumberParseException:
        raise wrong from None
    if number.extension or phonenumbers.is_possible_number_with_reason(number) not in possible:
        raise wrong
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _email(value: str, field: str) -> str:
    if len(value) > _EMAIL_CHARACTERS_MAX:
        raise invalid(field, f"must be an e-mail address of at most {_EMAIL_CHARACTERS_MAX} characters")
    if "=?" in value:
        # A mail's headers decode it to another address: each limit of the mailbox would have countless spellings.
        raise invalid(field, "must be an e-mail address without an encoded word (=?...?=)")
    from email_validator import EmailNotValidError, validate_email

    try:
        # test_environment: accepts domains under .test (RFC 6761), so that trials need no real mailbox.
        found = validate_email(value, check_deliverability=False, test_environment=True)
    except EmailNotValidError as error:
        raise invalid(field, f"must be an e-mail address: {error}") from None
    return found.normalized.lower()
