"""The docs' files: one copy of each representation, told apart by its ETag."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.http.docs import pages
from runtime.http.pages.static_documents import accepts
from runtime.http.serving import make_app
from runtime.operations import API
from runtime.rules import REWARD_HANDLERS

FILES = (
    "openapi.json",
    "asyncapi.json",
    "schemas/ui.json",
    "schemas/games/probability.json",
    "themes.json",
    "docs",
    "docs/docs.js",
    "docs/swagger-ui-bundle.js",
    "docs/swagger-ui.css",
)


@pytest.fixture
async def client(aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    app = make_app()
    pages.mount(app, "admin")
    # It asks for nothing by itself, and shows what came.
    return await aiohttp_client(app, auto_decompress=False, skip_auto_headers=("Accept-Encoding",))


async def ask(client: Any, name: str, **headers: str) -> tuple[Any, bytes]:
    async with client.get(
        f"{API}/{name}", headers={key.replace("_", "-"): value for key, value in headers.items()}
    ) as it:
        return it, await it.read()


@pytest.mark.parametrize("name", FILES)
async def test_client_gets_what_it_accepts(client: Any, name: str) -> None:
    plain, body = await ask(client, name)
    zipped, shorter = await ask(client, name, Accept_Encoding="br, gzip;q=0.5")
    assert "Content-Encoding" not in plain.headers and zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(shorter) == body and len(shorter) < len(body)
    assert plain.headers["ETag"] != zipped.headers["ETag"]
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["Content-Type"] == zipped.headers["Content-Type"]


async def test_file_that_gzip_would_lengthen_is_sent_plain(client: Any) -> None:
    answer, body = await ask(client, "docs/favicon.png", Accept_Encoding="gzip")
    assert "Content-Encoding" not in answer.headers and body.startswith(b"\x89PNG")


@pytest.mark.parametrize("accepted", ["", "gzip"])
async def test_known_etag_is_answered_with_304(client: Any, accepted: str) -> None:
    first, body = await ask(client, "openapi.json", Accept_Encoding=accepted)
    tag = first.headers["ETag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again, nothing = await ask(client, "openapi.json", Accept_Encoding=accepted, If_None_Match=known)
        assert (again.status, nothing) == (304, b"")
        assert (again.headers["ETag"], again.headers["Vary"]) == (tag, "Accept-Encoding")
        assert "Content-Encoding" not in again.headers
    changed, whole = await ask(client, "openapi.json", Accept_Encoding=accepted, If_None_Match='"other"')
    assert (changed.status, whole) == (200, body)


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("br;q=1, gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity, br", False),
    ],
)
def test_gzip_is_for_those_who_take_it(accepted: str, taken: bool) -> None:
    assert accepts("gzip", accepted) is taken


async def test_handler_config_has_a_schema_at_its_own_address(client: Any) -> None:
    names = json.loads((await ask(client, "schemas/games.json"))[1])["reward_handlers"]
    assert names == REWARD_HANDLERS.names()
    for name in names:
        answer, body = await ask(client, f"schemas/games/{name}.json")
        assert json.loads(body)["title"] == name and answer.headers["Content-Type"] == "application/schema+json"
    answer, _ = await ask(client, "schemas/games/none_such.json")
    assert answer.status == 404
