"""Phone numbers and e-mail addresses, in the one spelling by which a player is known.

A phone number is E.164 (`+12025550123`), read by the phonenumbers library. It must be international,
beginning with `+`, for a server that serves many countries has none to assume. A number of a plausible
length is taken even where no carrier is known to have given it out: numbering plans move faster than
libraries, and the code that is sent proves the number.

An e-mail address is read by email-validator without asking the DNS. All of it is lower case: RFC 5321
lets the part before the @ tell cases apart, but no mail service does, and people type either.

Both libraries are imported once the process is ready (`prepare`), or where they are needed before: that much sooner it
starts.
"""

from __future__ import annotations

import asyncio
from typing import Final

from runtime.errors import Fault, invalid
from runtime.messages import ContactType

_PHONE_CHARACTERS_MAX: Final = 32
_EMAIL_CHARACTERS_MAX: Final = 320
"""Of both of its parts (RFC 5321, 4.5.3.1). The library normalizes first, in the square of the time of a length."""


async def prepare() -> None:
    """Imports both libraries beside the event loop, so that nobody's first contact holds it up."""
    await asyncio.to_thread(_import)


def _import() -> None:
    import email_validator  # noqa: F401
    import phonenumbers  # noqa: F401


def normalized(type: ContactType, value: str, *, field: str = "value") -> str:
    """The contact's one spelling. INVALID_ARGUMENT on `field` where it is not a contact of that type.

    INVALID_ARGUMENT on `type` where that is unset.
    """
    if type == ContactType.PHONE:
        return _phone(value.strip(), field)
    if type == ContactType.EMAIL:
        return _email(value.strip(), field)
    raise invalid("type", "must be CONTACT_TYPE_PHONE or CONTACT_TYPE_EMAIL")


def spellings(text: str) -> list[str]:
    """The contacts that a text may be, each in its one spelling; none where it is no contact."""
    found = []
    for type in (ContactType.EMAIL, ContactType.PHONE):
        try:
            found.append(normalized(type, text))
        except Fault:
            continue
    return found


def masked(contact: str) -> str:
    """A contact as who knows it recognizes it, and nobody else can use it: a***@example.com, +49***78."""
    name, at, domain = contact.rpartition("@")
    return f"{name[:1]}***@{domain}" if at else f"{contact[:3]}***{contact[-2:]}"


def _phone(value: str, field: str) -> str:
    wrong = invalid(field, "must be an international phone number such as +12025550123")
    if not value.startswith("+") or len(value) > _PHONE_CHARACTERS_MAX:
        raise wrong
    import phonenumbers

    possible = (
        phonenumbers.ValidationResult.IS_POSSIBLE,
        # Shorter than a number of its country usually is, as +15550100; still dialled as it stands.
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
        raise invalid(field, "must be an e-mail address: it is too long")
    from email_validator import EmailNotValidError, validate_email

    try:
        # test_environment: names under .test (RFC 6761) are welcome, so that a trial needs no real mailbox.
        found = validate_email(value, check_deliverability=False, test_environment=True)
    except EmailNotValidError as error:
        raise invalid(field, f"must be an e-mail address: {error}") from None
    return found.normalized.lower()
