"""A contact has one spelling, and what is no contact is refused by name."""

import pytest

from runtime.errors import Fault, Status
from runtime.messages import ContactType
from runtime.wire.contacts import normalized


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("+12025550123", "+12025550123"),
        (" +1 (202) 555-0123 ", "+12025550123"),
        ("+1.202.555.0123", "+12025550123"),
        ("+49 30 901820", "+4930901820"),
        ("+15550100", "+15550100"),
    ],
)
def test_phone_number_is_kept_as_e164(text: str, stored: str) -> None:
    assert normalized(ContactType.PHONE, text) == stored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Bob@Example.COM", "bob@example.com"),
        (" bob@example.com ", "bob@example.com"),
        ("ada@xn--exmple-cua.com", "ada@exämple.com"),
        ("ada@shop.test", "ada@shop.test"),
    ],
)
def test_address_is_kept_in_lower_case(text: str, stored: str) -> None:
    assert normalized(ContactType.EMAIL, text) == stored


@pytest.mark.parametrize(
    "wrong", ["", "2025550123", "+", "+999123456", "+155501", "+12025550123 ext 5", "+1" + "2" * 40]
)
def test_wrong_phone_number_is_refused(wrong: str) -> None:
    with pytest.raises(Fault) as refused:
        normalized(ContactType.PHONE, wrong, field="contact")
    assert refused.value.status is Status.INVALID_ARGUMENT
    assert refused.value.facts["violations"][0]["field"] == "contact"


@pytest.mark.parametrize(
    "wrong", ["", "bob", "bob@", "@example.com", "bob@localhost", "a b@example.com", "x" * 400 + "@a.com"]
)
def test_wrong_address_is_refused(wrong: str) -> None:
    with pytest.raises(Fault) as refused:
        normalized(ContactType.EMAIL, wrong)
    assert refused.value.facts["violations"][0]["field"] == "value"


def test_contact_without_a_type_is_refused() -> None:
    with pytest.raises(Fault) as refused:
        normalized(ContactType.UNSPECIFIED, "+12025550123")
    assert refused.value.facts["violations"][0]["field"] == "type"
