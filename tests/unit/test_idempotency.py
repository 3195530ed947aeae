"""The Idempotency-Key header. What becomes of a key is in test_admission_control.py."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime.errors import Fault
from runtime.http.admission.idempotency import idempotency_key


def test_an_idempotency_key_is_bounded() -> None:
    assert idempotency_key(make_mocked_request("POST", "/")) == ""
    assert idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": "abc"})) == "abc"
    for wrong in ("", "x" * 256, "é"):
        with pytest.raises(Fault, match="VALIDATION"):
            idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": wrong}))
