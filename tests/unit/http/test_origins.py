from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.admission import local_rates
from runtime.http.admission import origins as memory
from runtime.http.admission.origins import LOOKUPS, Origins, Subject
from runtime.http.cors import ANSWER_HEADERS, TENANT, Cors
from runtime.http.envelope import ok
from runtime.http.serving import make_app, serve
from runtime.operations import Operation
from runtime.operations.checks import Checks
from runtime.wire.origins import candidates, problem
from tests.support.clocks import STOPPED
from tests.support.raw_http import get, post, send

BRAND = "https://brand.example"
BELOW = "https://*.brand.example"


@pytest.mark.parametrize(
    "origin",
    [
        *(BRAND, BELOW, "https://brand.example:8443", "https://xn--bcher-kva.example", "https://192.0.2.1:8443"),
        *("http://localhost:3000", "http://shop.localhost:3000", "http://[::1]:5173", "https://[::1]:5173"),
        "https://my_shop.example",
    ],
)
def test_origins_as_browsers_send_them_may_be_written_down(origin: str) -> None:
    assert problem(origin) == ""


@pytest.mark.parametrize(
    "origin",
    [
        *("", "*", "null", "brand.example", "https://*.*.brand.example", "https://*brand.example"),
        "https://Brand.example",
        "https://*.example",  # of a whole top-level domain
        *("HTTPS://brand.example", "https://bücher.example", "https://brand.example/", "https://brand.example."),
        *("https://brand..example", "https://-brand.example", "https://brand-.example", "https://user@brand.example"),
        *("https://brand.example:443", "https://brand.example:", "https://brand.example:70000", "https://256.0.0.1"),
        *("https://brand.example:*", "http://localhost:80", "http://brand.example", "http://*.localhost"),
        *("http://127.0.0.1.brand.example", "http://localhost.brand.example", "https://127.1", "https://0x7f000001"),
        *("https://*.0.0.1", "https://[2001:db8::1]", "https://brand.example\n", " https://brand.example"),
        *("https://" + "a" * 64 + ".example", "https://" + "a." * 150 + "example"),
    ],
)
def test_wrong_origin_is_refused_in_a_list(origin: str) -> None:
    assert problem(origin)


def test_refusal_names_the_place_in_the_list() -> None:
    checks = Checks()
    checks.origins("origins", [BRAND, "http://brand.example", BELOW, BRAND])
    assert [field for field, _ in checks.found] == ["origins[1]", "origins[3]"]
    assert "https" in checks.found[0][1] and "duplicate" in checks.found[1][1]


LISTED: Final[dict[str, tuple[list[str], list[str]]]] = {
    # What an entry of the list allows, and what it does not.
    BRAND: (
        ["https://brand.example"],
        [
            *("https://brand.example:8443", "https://shop.brand.example", "https://brand.example.evil.test"),
            "http://brand.example",
        ],
    ),
    BELOW: (
        ["https://shop.brand.example", "https://a.b.brand.example", "https://xn--bcher-kva.brand.example"],
        [
            *("https://brand.example", "https://evilbrand.example", "https://shop.brand.example.evil.test"),
            *("https://shop.brand.example:8443", "http://shop.brand.example", "https://.brand.example"),
            *("https://evil.test/.brand.example", "https://evil.test:1@x.brand.example", "https://ſhop.brand.example"),
        ],
    ),
    "https://*.brand.example:8443": (["https://shop.brand.example:8443"], ["https://shop.brand.example"]),
    "https://*.b.example": ([], ["https://a.b.example:443"]),
    "http://localhost:*": (
        ["http://localhost:5173", "http://localhost"],
        ["https://localhost:5173", "http://localhost.evil.test:5173"],
    ),
    "http://127.0.0.1:*": (["http://127.0.0.1:3000"], ["http://127.0.0.1.evil.test:3000"]),
    "http://[::1]:*": (["http://[::1]:3000"], []),
    "https://evil.test:*": ([], ["https://evil.test:1"]),
}


@pytest.mark.parametrize("listed", LISTED)
def test_only_listed_origins_match(listed: str) -> None:
    allowed, others = LISTED[listed]
    assert [origin for origin in others + allowed if listed in candidates(origin)] == allowed


class Core:
    def __init__(self) -> None:
        self.tenant: list[str] = []
        self.campaigns: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.away = False

    async def call(self, operation: Operation, request: Any) -> Any:
        self.asked.append(operation.name)
        if self.away:
            raise Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", "away")
        everywhere = [one for listed in self.campaigns.values() for one in listed]
        if isinstance(request, m.FindOriginRequest):
            listed = {*self.tenant, *everywhere}
            return m.FindOriginReply(known=not listed.isdisjoint(candidates(request.origin)))
        named = request.part_id or request.campaign_id
        return m.ListOriginsReply(
            tenant=self.tenant, campaigns=self.campaigns.get(named, []) if named else sorted(set(everywhere))
        )


@pytest.fixture
def core() -> Core:
    return Core()


def asking(address: str = "192.0.2.1") -> web.Request:
    request = make_mocked_request("POST", "/")
    request._transport_peername = (address, 1)  # type: ignore[attr-defined]
    return request


async def test_list_is_asked_for_once_whatever_origins_come(core: Core) -> None:
    core.tenant = [BRAND]
    origins = Origins(core, [])
    found = [
        await origins.may_read(origin, Subject("t"), asking())
        for origin in (BRAND, *[f"https://x{n}.evil.test" for n in range(50)])
    ]
    assert found == [True, *[False] * 50]
    assert core.asked == ["ListOrigins"]


async def test_origin_in_the_setting_is_allowed_with_core_away(core: Core) -> None:
    core.away = True
    origins = Origins(core, [BRAND, "http://localhost:*"])
    assert await origins.may_call(BRAND, asking())
    assert await origins.may_read("http://localhost:3000", Subject("t"), asking())
    assert core.asked == []
    assert await origins.frame_ancestors("t", game_id="game_1") == ("http://localhost:*", BRAND)


@pytest.mark.parametrize("reads", [True, False])
async def test_changed_list_holds_soon_without_waits(core: Core, monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    async def ask(origins: Origins) -> bool:
        of = Subject("t")
        return await (origins.may_read(BRAND, of, asking()) if reads else origins.may_call(BRAND, asking()))

    origins = Origins(core, [])
    core.tenant = [BRAND]
    assert await ask(origins)
    core.tenant = []
    monkeypatch.setattr(memory, "FRESH_SECONDS", 0.0)
    assert await ask(origins), "what was known counts while it is asked again"
    await origins._in_flight.drain()
    assert not await ask(origins)
    await origins._in_flight.drain()
    core.tenant = [BRAND]
    monkeypatch.setattr(memory, "STALE_SECONDS", 0.0)
    assert await ask(origins), "what is older is waited for"


async def test_invented_origins_are_limited_by_address_and_bound(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REMEMBERED_MAX", 50)
    monkeypatch.setattr(local_rates, "time", STOPPED)
    core.tenant = [BRAND]
    origins = Origins(core, [], limited=True)
    assert await origins.may_call(BRAND, asking("192.0.2.2"))
    refused = 0
    for number in range(LOOKUPS.burst + 50):
        try:
            assert not await origins.may_call(f"https://x{number}.evil.test", asking())
        except Fault as fault:
            assert fault.reason == "RATE_LIMITED"
            refused += 1
    assert refused > 45
    assert len(core.asked) - 1 == LOOKUPS.burst + 50 - refused
    before = len(core.asked)
    assert await origins.may_call(BRAND, asking()), "a known origin is allowed even above the rate"
    assert len(core.asked) == before
    assert len(origins._unregistered._entries) <= 50


async def test_origin_that_no_browser_sends_is_refused_without_core(core: Core) -> None:
    origins = Origins(core, [])
    for origin in ("null", "", "x" * 8_000, "https://" + "a." * 4_000 + "test", "https://a b.test"):
        assert not await origins.may_call(origin, asking())
        assert not await origins.may_read(origin, Subject("t"), asking())
    assert core.asked == []


async def test_frames_are_of_the_tenant_the_campaign_and_the_setting(core: Core) -> None:
    core.tenant, core.campaigns = [BRAND], {"game_1": [BELOW]}
    origins = Origins(core, ["http://localhost:*", "http://[::1]:*"])
    assert await origins.frame_ancestors("t", game_id="game_1") == ("http://localhost:*", BELOW, BRAND)
    assert await origins.frame_ancestors("t", campaign_id="camp_2") == ("http://localhost:*", BRAND)


async def test_pages_of_allowed_origins_may_call_and_read_refusals(core: Core) -> None:
    async def refuse(request: web.Request) -> web.Response:
        request[TENANT] = "t"
        raise Fault(Status.NOT_FOUND, "UNKNOWN_GAME", "none")

    async def nobodys(request: web.Request) -> web.Response:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_EXPIRED", "log in again")

    async def file(request: web.Request) -> web.Response:
        return ok({}, headers={"Vary": "Accept-Encoding"})

    app = make_app()
    app.router.add_post("/api/v1/games/{id}/play", refuse)
    app.router.add_get("/api/v1/wallet", nobodys)
    app.router.add_get("/api/v1/docs", file)
    app.router.add_get("/healthz", file)
    core.campaigns = {"1": ["https://shop.example"]}
    runner = await serve(app, "127.0.0.1", 0, cors=Cors(Origins(core, [])))
    ours, theirs = "Origin: https://shop.example", "Origin: https://evil.example"
    asks = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,idempotency-key")
    preflight = await send(runner, get("/api/v1/games/1/play", ours, *asks, method="OPTIONS"))
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, "https://shop.example")
    assert "Idempotency-Key" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "Origin" in preflight.headers["vary"]
    assert "access-control-allow-credentials" not in preflight.headers
    stranger = await send(runner, get("/api/v1/games/1/play", theirs, *asks, method="OPTIONS"))
    assert (stranger.status, stranger.envelope["code"]) == (403, "PERMISSION_DENIED")
    assert "access-control-allow-origin" not in stranger.headers and stranger.headers["vary"] == "Origin"
    assert (await send(runner, get("/api/v1/games/1/play", method="OPTIONS"))).status == 405
    refused = await send(runner, post("/api/v1/games/1/play", b"{}", ours))
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (404, "https://shop.example")
    assert refused.headers["access-control-expose-headers"] == ", ".join(ANSWER_HEADERS)
    assert "access-control-allow-credentials" not in refused.headers
    assert refused.headers["vary"] == "Origin"
    other = await send(runner, post("/api/v1/games/2/play", b"{}", ours))
    assert "access-control-allow-origin" not in other.headers and other.headers["vary"] == "Origin"
    for origin in (theirs, "Origin: null", "Origin: https://shop.example.evil.test", "Origin: https://SHOP.example"):
        answer = await send(runner, post("/api/v1/games/1/play", b"{}", origin))
        assert "access-control-allow-origin" not in answer.headers and answer.headers["vary"] == "Origin"
    expired = await send(runner, get("/api/v1/wallet", ours))
    assert (expired.status, expired.headers["access-control-allow-origin"]) == (401, "https://shop.example")
    assert "access-control-allow-origin" not in (await send(runner, get("/api/v1/wallet", theirs))).headers
    unknown = await send(runner, get("/api/v1/nothing", ours))
    assert (unknown.status, unknown.headers["access-control-allow-origin"]) == (404, "https://shop.example")
    document = await send(runner, get("/api/v1/docs"))
    assert document.headers["vary"] == "Accept-Encoding, Origin", "a cache must not give it to another page"
    assert "access-control-allow-origin" not in (await send(runner, get("/healthz", ours))).headers
    await runner.cleanup()


async def test_setting_of_all_lets_every_page_read(core: Core) -> None:
    async def answer(request: web.Request) -> web.Response:
        return ok({})

    app = make_app()
    app.router.add_get("/api/v1/wallet", answer)
    runner = await serve(app, "127.0.0.1", 0, cors=Cors(Origins(core, ["*"])))
    for origin in ("Origin: https://evil.example", "Origin: null"):
        found = await send(runner, get("/api/v1/wallet", origin))
        assert found.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in found.headers
    assert core.asked == []
    await runner.cleanup()
