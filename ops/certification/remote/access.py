"""Rows for access control and malformed requests."""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from ops.certification.remote.deployment import Answer, Deployment, Row, hold
from runtime import ids
from runtime.http import admin
from runtime.operations import OPERATIONS
from runtime.operations.row import SessionUse

BODY_BYTES: Final = 256 * 1024
TIMES_MAX: Final = 50
LEAST_SECONDS: Final = 0.02
"""Lower bound of a plain body's time: below it the comparison would measure the network."""

TRIES: Final = 3
SUSPENDED_SECONDS: Final = 5.0
"""By then every process must know of a suspension."""


# -- access ------------------------------------------------------------------------------------


async def roles(deployment: Deployment) -> str:
    """Roles."""
    served = admin.served()
    for operation, _ in served:
        path = operation.path.replace("{id}", "none")
        anonymous = await deployment.admin(operation.verb, path, token="")
        hold(
            (anonymous.http, anonymous.reason) == (401, "TOKEN_MISSING"),
            f"{operation.route} without a token: {anonymous.summary}",
        )
        player = await deployment.admin(operation.verb, path, token=deployment.guests[8])
        hold(player.http in (401, 403), f"{operation.route} with a player's token: {player.summary}")
    staff = await deployment.consumer("GET", "/players/me", token=deployment.token)
    hold(staff.http in (401, 403), f"a player's route with a staff token: {staff.summary}")
    return f"{len(served)} routes without a token and with a player's"


async def forgeries(deployment: Deployment) -> str:
    """Tokens."""
    tried = 0
    player: tuple[str, dict[str, Any]] = (deployment.guests[8], {"sub": "player_other"})
    staff: tuple[str, dict[str, Any]] = (deployment.token, {"roles": ["admin", "platform"]})
    for (token, claims), ask in (
        (player, partial(deployment.consumer, "GET", "/wallet")),
        (staff, partial(deployment.admin, "GET", "/games")),
    ):
        good = await ask(token=token)
        hold(good.http == 200, f"the token itself: {good.summary}")
        for how, forged in _forged(token, claims):
            refused = await ask(token=forged)
            hold(refused.http == 401, f"{how}: {refused.summary}")
            tried += 1
    return f"{tried} forged tokens, 401 each"


def _forged(token: str, claims: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Forged tokens: a description and the token."""
    head, body, signature = token.split(".")
    header, payload = _opened(head), _opened(body)
    yield "alg none", f"{_closed({'alg': 'none', 'typ': 'JWT'})}.{body}."
    yield "alg none with other claims", f"{_closed({**header, 'alg': 'none'})}.{_closed({**payload, **claims})}."
    yield "other claims under the signature", f"{head}.{_closed({**payload, 'jti': 'x', **claims})}.{signature}"
    yield "a longer life under the signature", f"{head}.{_closed({**payload, 'exp': payload['exp'] + 1})}.{signature}"
    yield "no signature", f"{head}.{body}."
    # Of the last character, the lowest bits are unused.
    yield "a flipped bit", f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
    for how, key in (("an empty key", b""), ("a guessed key", b"secret"), ("another key", secrets.token_bytes(32))):
        yield how, _signed({**header, "alg": "HS256"}, payload, key)
    for how, more in (
        ("an unknown kid", {"kid": "../../dev/null"}),
        ("a key in the header", {"jwk": {"kty": "oct", "k": "c2VjcmV0"}}),
        ("a critical header", {"crit": ["exp"], "exp": 1}),
    ):
        yield how, _signed({**header, "alg": "HS256", **more}, payload, b"secret")
    yield "another header under the signature", f"{_closed({**header, 'crit': ['x'], 'x': 1})}.{body}.{signature}"
    yield "no token", "nonsense"


def _opened(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def _closed(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


def _signed(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    text = f"{_closed(header)}.{_closed(claims)}"
    signature = base64.urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).rstrip(b"=").decode()
    return f"{text}.{signature}"


async def headers_alone(deployment: Deployment) -> str:
    """Header fallback off."""
    named = {"X-Player-Id": "player_named", "X-Roles": "admin,platform"}
    player = await deployment.consumer("GET", "/wallet", headers=named)
    hold(player.http == 401, f"X-Player-Id alone: {player.summary}")
    staff = await deployment.admin("GET", "/games", token="", headers=named)
    hold(staff.http == 401, f"X-Roles alone: {staff.summary}")
    guest = deployment.guests[9]
    own = (await deployment.consumer("GET", "/players/me", token=guest)).data["id"]
    with_headers = (await deployment.consumer("GET", "/players/me", token=guest, headers=named)).data["id"]
    hold(own == with_headers, f"X-Player-Id with a token: {with_headers} for {own}")
    staff = await deployment.admin("GET", "/games", token=guest, headers=named)
    hold(staff.http in (401, 403), f"X-Roles with a player's token: {staff.summary}")
    return "4 requests, no header trusted"


async def another_tenant(deployment: Deployment) -> str:
    """Ids of another tenant."""
    there, tried = await deployment.make_elsewhere(), 0

    for operation in OPERATIONS:
        kind, body = operation.subject, operation.example
        if kind not in there:
            continue
        theirs, unknown = there[kind], ids.make(kind)
        asks = []
        if operation.admin is not None and not operation.admin.signed:
            asks.append(partial(deployment.admin, operation.verb))
        if operation.consumer is not None:
            asks.append(partial(deployment.consumer, operation.verb, token=deployment.guests[10]))
        for ask in asks:
            answers = [await ask(operation.path.replace("{id}", one), body) for one in (theirs, unknown)]
            shown = [_comparable(answer, one) for answer, one in zip(answers, (theirs, unknown), strict=True)]
            hold(shown[0] == shown[1], f"{operation.route}: {answers[0].summary}; unknown: {answers[1].summary}")
            # A play checks its session before the game's id.
            due = 403 if operation.session is SessionUse.PLAYS else 404
            hold(answers[0].http == due, f"{operation.route}: {answers[0].summary}")
            tried += 1
    return f"{tried} routes"


def _comparable(answer: Answer, of: str) -> tuple[int, str, str, str]:
    message = str(answer.envelope.get("message", "")).replace(of, "ID")
    return answer.http, answer.code, answer.reason, message


async def suspended(deployment: Deployment) -> str:
    """A suspended tenant."""
    guest, path = deployment.guests[11], f"/games/{deployment.games['draws']}/start"
    session = await deployment.start("draws", guest)
    changed = await deployment.admin("PUT", f"/tenants/{deployment.tenant}", {"status": "TENANT_STATUS_SUSPENDED"})
    hold(changed.code == "OK", changed.summary)
    began = time.monotonic()
    refused = await deployment.consumer("POST", path, {}, token=guest)
    while refused.code == "OK" and time.monotonic() < began + SUSPENDED_SECONDS:
        await asyncio.sleep(0.2)
        refused = await deployment.consumer("POST", path, {}, token=guest)
    seconds = time.monotonic() - began
    played = await deployment.play("draws", guest, session, "")
    for answer in (refused, played):
        hold((answer.http, answer.reason) == (403, "SUSPENDED"), answer.summary)
    changed = await deployment.admin("PUT", f"/tenants/{deployment.tenant}", {"status": "TENANT_STATUS_ACTIVE"})
    hold(changed.code == "OK", changed.summary)
    return f"start and play refused after {seconds:.1f} s"


# -- malformed requests ------------------------------------------------------------------------

_BAD: Final = (
    b"[" * 100_000, b'{"a":' * 40_000, b"null", b"[]", b'"x"', b"1", b"{", b'{"session_id"', b'{"session_id": "s", ',
    b'{"session_id": "s", "payload"', b"\xff\xfe{}", b"\x00", b'{"session_id": "a\x00b"}', b'{"session_id": 1}',
    b'{"session_id": 9223372036854775808}', b'{"session_id": "s", "payload": {"a": 1e999}}',
    b'{"session_id": "s", "payload": []}', b'{"session_id": ["s"]}', b'{"session_id": "s", "other": 1}',
    b'{"session_id": "s", "payload": {"score": NaN}}', '{"session_id": "s"}'.encode("utf-16"),
    b'{"session_id": "\\ud800"}', b"{'session_id': 's'}", b'{"session_id": "s"}}', b'{"player_id": "another"}',
)  # fmt: skip
_ROUTES_ABSENT: Final = (("GET", "/none"), ("POST", "/games"), ("DELETE", "/wallet"), ("GET", "/games/x/play"))


async def bad_json(deployment: Deployment) -> str:
    """Bad JSON."""
    guest, game = deployment.guests[12], deployment.games["draws"]
    for body in _BAD:
        played = await deployment.consumer("POST", f"/games/{game}/play", body, token=guest)
        made = await deployment.admin("POST", "/prizes", body)
        for answer in (played, made):
            hold(answer.http == 400 and answer.code == "INVALID_ARGUMENT", f"{body[:40]!r}: {answer.summary}")
    for verb, path in _ROUTES_ABSENT:
        answer = await deployment.consumer(verb, path, token=guest)
        hold(answer.http in (404, 405), f"{verb} {path}: {answer.summary}")
        hold(answer.http == 404 or "Allow" in answer.headers, f"{verb} {path}: 405 without Allow")
    return f"{2 * len(_BAD)} bodies, {len(_ROUTES_ABSENT)} unknown routes"


def _filled(head: str, unit: str, tail: str) -> bytes:
    return (head + unit * ((BODY_BYTES - len(head) - len(tail)) // len(unit)) + tail).encode()


_PLAIN: Final = _filled(
    '{"session_id":"s","payload":{"a":[', '{"id":"item_000001","x":1.5,"as":"' + "caught" * 9 + '"},', "0]}}"
)
_EXPENSIVE: Final = {
    "many fields": ("{" + ",".join(f'"k{nth}":{nth}' for nth in range(9_900)) + "}").encode(),
    "one field again and again": _filled('{"payload":{', '"a":1,', '"a":1}}'),
    "deep lists": _filled('{"payload":{"a":[', "[" * 60 + "]" * 60 + ",", "0]}}"),
    "long whole numbers": _filled('{"payload":{"a":[', "1" * 4_000 + ",", "1]}}"),
    "a number without end": _filled('{"payload":{"a":', "1", "}}"),
    "the smallest doubles": _filled('{"payload":{"a":[', "2.2250738585072011e-308,", "1]}}"),
    "wrong at its end": _filled('{"payload":{"a":[', "0,", "0]}"),
}


async def expensive_bodies(deployment: Deployment) -> str:
    """One expensive body."""
    path, guest = f"/games/{deployment.games['draws']}/play", deployment.guests[13]

    async def seconds(body: bytes, tries: int = TRIES) -> float:
        answers = [await deployment.consumer("POST", path, body, token=guest) for _ in range(tries)]
        for answer in answers:
            hold(400 <= answer.http < 500, answer.summary)
        return min(answer.seconds for answer in answers)

    plain = max(LEAST_SECONDS, statistics.median([await seconds(_PLAIN, 1) for _ in range(TRIES)]))
    worst, name = max([(await seconds(body), name) for name, body in _EXPENSIVE.items()])
    hold(worst <= TIMES_MAX * plain, f"{name} took {worst:.2f} s, a plain one {plain:.2f} s")
    large = await deployment.consumer("POST", path, b"{" + b" " * 4 * BODY_BYTES, token=guest)
    hold(large.http in (200, 400, 403, 413), large.summary)
    return f"{worst / plain:.1f} times a plain one's {plain * 1000:.0f} ms at most ({name})"


async def envelopes(deployment: Deployment) -> str:
    """The envelope."""
    wrong = list(deployment.wrong)
    hold(not wrong, f"{len(wrong)} answers, the first: {wrong[0] if wrong else ''}")
    broken = {status: count for status, count in deployment.answers.items() if status >= 500}
    hold(not broken, f"answers by status: {broken}")
    return f"{deployment.answers.total()} answers, none a 5xx"


ROWS: Final = (
    Row("Ids of another tenant", "same answer as for an unknown id", another_tenant),
    Row("Roles", "admin routes refuse anonymous requests and players", roles),
    Row("Tokens", "401 for each forged one", forgeries),
    Row("Header fallback off", "X-* headers are never honoured", headers_alone),
    Row("Bad JSON", "400 in the envelope; no 5xx", bad_json),
    Row("One expensive body", f"at most {TIMES_MAX} x a plain one's time", expensive_bodies),
    Row("A suspended tenant", f"start and play are refused within {SUSPENDED_SECONDS:g} s", suspended),
)
LAST: Final = Row("The envelope", "in every answer, with its trace; no 5xx", envelopes)
