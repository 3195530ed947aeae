import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from runtime.operations.entries.captcha import PURGES
from tests.support.receiver import Got, receiving
from tests.support.resources import make_campaign
from tests.support.stack import Answer, Stack, fields_of

ALTCHA: Final[dict[str, Any]] = {"fields": [{"key": "nick", "label": {"en": "Nickname"}}], "captcha": "altcha"}


async def submit(stack: Stack, campaign_id: str, player: str, captcha: str = "") -> Answer:
    body = {"fields": {"nick": player}, "captcha": captcha}
    return await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", body, player=player)


async def asked(stack: Stack, campaign_id: str) -> dict[str, Any]:
    refused = await submit(stack, campaign_id, "nobody")
    assert (refused.http, refused.reason) == (400, "CAPTCHA_REQUIRED")
    return dict(refused.envelope["data"]["captcha"])


def number_of(challenge: dict[str, Any]) -> int:
    for number in range(challenge["maxnumber"] + 1):
        if hashlib.sha256(f"{challenge['salt']}{number}".encode()).hexdigest() == challenge["challenge"]:
            return number
    raise AssertionError("no solution")


def solution(given: dict[str, Any], **changed: Any) -> str:
    number = {} if "number" in changed else {"number": number_of(given)}
    return base64.b64encode(json.dumps(given | number | changed).encode()).decode()


async def test_proof_of_work_admits_one_new_entry(stack: Stack) -> None:
    campaign_id, other = [(await make_campaign(stack, entry=ALTCHA))["id"] for _ in range(2)]
    right = solution(await asked(stack, campaign_id))
    assert (await submit(stack, other, "ann", right)).reason == "CAPTCHA_REQUIRED", "of another campaign"
    rivals = await asyncio.gather(*(submit(stack, campaign_id, player, right) for player in ("ann", "bob", "cleo")))
    assert sorted(answer.code for answer in rivals) == ["FAILED_PRECONDITION"] * 2 + ["OK"]
    winner = ("ann", "bob", "cleo")[[answer.code for answer in rivals].index("OK")]
    assert (await submit(stack, campaign_id, winner)).code == "OK", "a change of the entry needs none"
    by_staff = {"campaign_id": campaign_id, "fields": {"nick": "Gus"}, "reason": "a postcard"}
    assert (await stack.admin("POST", "/admin/players/gus/entries", by_staff)).code == "OK"
    expire = "UPDATE entry_captchas SET expires_at = now() - interval '2 hours' WHERE tenant_id = $1"
    assert await stack.database.execute(expire, stack.tenant_id) == 1
    assert await stack.database.execute(PURGES["purge_captchas"], stack.tenant_id, 9) == 1


async def test_forged_and_altered_proofs_of_work_are_refused(stack: Stack) -> None:
    campaign_id = (await make_campaign(stack, entry=ALTCHA))["id"]
    challenge = await asked(stack, campaign_id)
    number, salt = number_of(challenge), challenge["salt"]
    own = {"salt": "00" * 12 + "?expires=9999999999&", "number": 7}
    own["challenge"] = hashlib.sha256(f"{own['salt']}7".encode()).hexdigest()
    own["signature"] = hmac.digest(b"", own["challenge"].encode(), "sha256").hex()
    wrong = {"another number": solution(challenge, number=number + 1)}
    wrong |= {"a number as text": solution(challenge, number=str(number))}
    wrong |= {"a later end": solution(challenge, number=number, salt=salt.replace("expires=", "expires=9"))}
    wrong |= {"digits moved from the number": solution(challenge, number=number % 10, salt=f"{salt}{number // 10}")}
    wrong |= {"an own challenge": solution(challenge, **own), "no object": base64.b64encode(b"[]").decode()}
    wrong |= {"no base64": "x", "deep": base64.b64encode(b"[" * 3000).decode()}
    assert [name for name, one in wrong.items() if (await submit(stack, campaign_id, "eve", one)).code == "OK"] == []
    clock = stack.engine.clock
    later = clock.now() + 601
    with pytest.MonkeyPatch.context() as moved:
        moved.setattr(type(clock), "now", lambda _: later)
        assert (await submit(stack, campaign_id, "eve", solution(challenge))).reason == "CAPTCHA_REQUIRED"


async def test_token_is_verified_by_the_service_and_counts_once(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_id = (await make_campaign(stack, entry={**ALTCHA, "captcha": "siteverify"}))["id"]
    assert (await submit(stack, campaign_id, "ann", "t")).reason == "CAPTCHA_UNAVAILABLE", "not configured"

    async def verified(got: Got) -> web.StreamResponse:
        await asyncio.sleep(0.4)  # sleeps: longer than other requests may take
        form = {name: values[0] for name, values in parse_qs(got.body.decode()).items()}
        return web.json_response({"success": form == {"secret": "s3cret", "response": "good"}})

    async with receiving() as service:
        service.replies += [verified] * 3
        local = {"outbound_allow_cidrs": (ipaddress.ip_network("127.0.0.1"),), "captcha_site_key": "site"}
        settings = replace(stack.engine.settings, captcha_verify_url=service.url, captcha_secret="s3cret", **local)
        monkeypatch.setattr(stack.engine, "settings", settings)
        monkeypatch.setattr(stack.process.core, "_answer_seconds", 0.3)
        assert (await asked(stack, campaign_id)) == {"kind": "siteverify", "site_key": "site"}
        tries = (("ann", "bad"), ("ann", "good"), ("bob", "good"))
        answers = [(await submit(stack, campaign_id, *one)).reason for one in tries]
        assert answers == ["CAPTCHA_REQUIRED", "", "CAPTCHA_REQUIRED"]
        assert (await submit(stack, campaign_id, "cleo", "good")).reason == "CAPTCHA_UNAVAILABLE", "no JSON"


async def test_unknown_captcha_is_refused(stack: Stack) -> None:
    body = {"name": "C", "entry": {**ALTCHA, "captcha": "riddle"}}
    assert fields_of(await stack.admin("POST", "/admin/campaigns", body)) == ["entry.captcha"]
