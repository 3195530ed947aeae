import base64
import json
import re
import time
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote_plus

import pytest
from standardwebhooks import Webhook

from runtime.outgoing import signing
from runtime.outgoing.connector import Answer
from runtime.outgoing.providers import DeliveryRequest, response_text

WHSEC = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
NOW = int(time.time())
BODY = b'{"a": "\xc3\xa9"}'


def independent(secret: str) -> Webhook:
    return Webhook(base64.b64encode(signing.key_of(secret)).decode())


@pytest.mark.parametrize("secret", [WHSEC, "a secret of words"])
def test_signature_is_that_of_the_independent_package(secret: str) -> None:
    headers = signing.sign([secret], "evt_1", int(time.time()), BODY)  # the package judges by the clock
    assert headers[signing.SERVICE_SIGNATURE] == headers[signing.SIGNATURE]
    independent(secret).verify(BODY, headers)
    signature = independent(secret).sign("msg_1", datetime.fromtimestamp(NOW, UTC), BODY.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert signing.verify([secret], headers, BODY, NOW) == "msg_1"


def test_rotated_secret_verifies_at_old_and_new_receivers() -> None:
    now = int(time.time())
    headers = signing.sign(["new", "old"], "evt_1", now, BODY)
    for secret in ("new", "old"):
        independent(secret).verify(BODY, headers)
        assert signing.verify([secret], headers, BODY, now) == "evt_1"
    assert signing.verify(["other", "old"], headers, BODY, now) == "evt_1"


def test_message_without_a_good_secret_is_neither_signed_nor_accepted() -> None:
    assert signing.sign([], "evt_1", NOW, BODY) == {"webhook-id": "evt_1", "webhook-timestamp": str(NOW)}
    with pytest.raises(signing.SignatureRefused):
        signing.verify([], signing.sign(["s"], "evt_1", NOW, BODY), BODY, NOW)
    for secret in ("whsec_", "whsec_!!"):
        with pytest.raises(ValueError, match="base64"):
            signing.key_of(secret)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_message_from_another_time_is_refused(seconds: int) -> None:
    with pytest.raises(signing.SignatureRefused, match="300 s"):
        signing.verify(["s"], signing.sign(["s"], "evt_1", NOW + seconds, BODY), BODY, NOW)
    assert signing.verify(["s"], signing.sign(["s"], "evt_1", NOW + seconds // 301 * 300, BODY), BODY, NOW)


def test_flipped_bit_of_the_body_is_refused() -> None:
    headers = signing.sign(["s"], "evt_1", NOW, BODY)
    for position in range(len(BODY) * 8):
        broken = bytearray(BODY)
        broken[position // 8] ^= 1 << position % 8
        with pytest.raises(signing.SignatureRefused):
            signing.verify(["s"], headers, bytes(broken), NOW)


@pytest.mark.parametrize(
    "change",
    [
        *({"webhook-id": ""}, {"webhook-id": "evt_2"}, {"webhook-id": "x" * 300}, {"webhook-timestamp": ""}),
        *({"webhook-timestamp": str(NOW + 1)}, {"webhook-timestamp": "-5"}, {"webhook-timestamp": "٣"}),
        *({"webhook-signature": "", signing.SERVICE_SIGNATURE: ""}, {"webhook-signature": "v1,"}),
        *({"webhook-signature": "v1,é\udc00"}, {"webhook-signature": "v1a,AAAA"}),
    ],
)
def test_changed_header_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(signing.SignatureRefused):
        signing.verify(["s"], {**signing.sign(["s"], "evt_1", NOW, BODY), **change}, BODY, NOW)


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        *(("", None), ("s" * 15, "16 to 512 characters"), ("s" * 16, None), ("s" * 512, None)),
        *(("s" * 513, "16 to 512 characters"), (None, "must be a string"), (b"s" * 16, "must be a string")),
        ("whsec_" + base64.b64encode(b"k" * 15).decode(), "at least 16 bytes"),
        *(("whsec_" + base64.b64encode(b"k" * 16).decode(), None), ("whsec_not base64, but long enough", "base64")),
        ("whsec_" + "A" * 33, "base64"),
    ],
)
def test_secret_that_could_be_guessed_or_signs_nothing_is_said_so(secret: Any, problem: str | None) -> None:
    found = signing.secret_problem(secret)
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_id_has_a_least_and_a_greatest_length() -> None:
    for message_id in ("x", "x" * signing.ID_CHARACTERS_MAX):
        assert signing.verify(["s"], signing.sign(["s"], message_id, NOW, BODY), BODY, NOW) == message_id
    for message_id in ("", "x" * (signing.ID_CHARACTERS_MAX + 1)):
        with pytest.raises(signing.SignatureRefused, match="missing or too long"):
            signing.verify(["s"], signing.sign(["s"], message_id, NOW, BODY), BODY, NOW)


def test_timestamp_has_twelve_digits_at_the_most() -> None:
    last = 10**12 - 1
    assert signing.verify(["s"], signing.sign(["s"], "m", last, BODY), BODY, last) == "m"
    with pytest.raises(signing.SignatureRefused, match="unix seconds"):
        signing.verify(["s"], signing.sign(["s"], "m", last + 1, BODY), BODY, last + 1)


def test_callbacks_token_is_of_one_task_of_one_tenant_by_one_of_the_secrets() -> None:
    token = signing.callback_token("s", "t", "task_1")
    signing.verify_callback_token(["other", "s"], "t", "task_1", token)
    for secrets, tenant, task, presented in (
        *((["other"], "t", "task_1", token), ([], "t", "task_1", token), (["s"], "u", "task_1", token)),
        *((["s"], "t", "task_2", token), (["s"], "t", "task_1", token[:-1]), (["s"], "t", "task_1", "")),
    ):
        with pytest.raises(signing.SignatureRefused, match="does not match this task"):
            signing.verify_callback_token(secrets, tenant, task, presented)


def test_response_text_has_no_secret_in_any_notation() -> None:
    secrets, answers = ["a/b+c<\u00fc%41\\n"], {"street": 'Hofstra\u00dfe 3, O\'Neil & Co, "Alte Post"/2 \U0001f600'}
    request = DeliveryRequest("task_1", {}, secrets, NOW, {"data": {"answers": answers}}, "acme")
    for value in (*secrets, *answers.values()):
        in_json, in_go = json.dumps(value), json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
        in_html = in_json.replace('\\"', "\\u0022").replace("'", "\\u0027").replace("+", "\\u002B").replace("/", "\\/")
        percents = "".join(f"%{each:02{'xX'[nth % 2]}}" for nth, each in enumerate(value.encode()))
        entities = "".join((f"&#{ord(each)};", f"&#X{ord(each):x};", each)[nth % 3] for nth, each in enumerate(value))
        twice = (json.dumps(in_go.replace("&", "\\u0026")), escape(in_json), quote_plus(in_html))
        for form in (value, in_json, in_go, in_html, percents, entities, quote_plus(value).lower(), *twice):
            text = response_text(Answer(422, 0.0, f"no: {form}.".encode()), request)
            assert re.sub(r'["\\]|&quot;|%22', "", text) == "no: ****.", form
    headers = {"Authorization": 'Token token="0123abcd"', "Accept": "text/plain or"}
    request = DeliveryRequest("task_1", {"headers": headers}, [], NOW, {}, "acme")
    for echo, shown in (("0123ABCD", "****"), (headers["Authorization"], "****"), ("text/plain", "text/plain")):
        assert response_text(Answer(401, 0.0, echo.encode()), request) == shown
