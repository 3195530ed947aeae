"""The widget's files as they are served: compressed, told apart, immutable where their address is their hash."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.http.pages import files
from runtime.http.serving import make_app

BUDGET_BYTES = 20 * 1024
GAMES: dict[str, tuple[str, ...]] = {
    "wheel": (),
    "scratch": (),
    "eggs": ("catching",),
    "gifts": ("catching",),
    "collection": (),
}
"""The games, and what each imports beside what the entry has."""

ALL_BUDGET_BYTES = 45_000


@pytest.fixture
async def client(aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    app = make_app()
    files.mount(app)
    return await aiohttp_client(app, auto_decompress=False, skip_auto_headers=("Accept-Encoding",))


async def ask(client: Any, path: str, **headers: str) -> tuple[Any, bytes]:
    async with client.get(path, headers={key.replace("_", "-"): value for key, value in headers.items()}) as answer:
        return answer, await answer.read()


async def test_file_at_an_address_of_its_hash_is_immutable(client: Any) -> None:
    answer, body = await ask(client, files.files().address("games/wheel.js"))
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["Access-Control-Allow-Origin"] == "*" and re.search(rb"export{\w+ as mount}", body)


async def test_entry_is_asked_for_again_and_loads_the_version_of_the_day(client: Any) -> None:
    answer, body = await ask(client, "/widget/v1/tombola.js")
    assert answer.headers["Cache-Control"] == "no-cache"
    named = re.findall(r'from "(.+)";', body.decode())
    assert named and all(name.startswith(f"../{files.files().version}/") for name in named)
    again, nothing = await ask(client, "/widget/v1/tombola.js", If_None_Match=answer.headers["ETag"])
    assert (again.status, nothing) == (304, b"")


async def test_imports_of_the_files_are_served(client: Any) -> None:
    for path, document in files.files().documents.items():
        folder = f"{files.files().version}/{path}".rpartition("/")[0]
        for name in re.findall(r'(?:from|import\() ?"(\..+?)"', document.plain.body.decode()):
            if path.endswith(".js"):
                answer, _ = await ask(client, f"/widget/{folder}/{name}")
                assert answer.status == 200, (path, name)


async def test_page_of_before_an_update_is_sent_to_what_fits_together_and_nobody_keeps_that(client: Any) -> None:
    async with client.get(f"/widget/{'0' * 16}/games/wheel.js", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (307, files.files().address("games/wheel.js"))
        assert (answer.headers["Cache-Control"], answer.headers["Access-Control-Allow-Origin"]) == ("no-store", "*")
    _, body = await ask(client, f"/widget/{'0' * 16}/games/wheel.js")
    assert re.search(rb"export{\w+ as mount}", body)
    assert (await ask(client, f"/widget/{'0' * 16}/games/none.js"))[0].status == 404


@pytest.mark.parametrize("path", ["nothing.js", "../files.py", "%2e%2e/files.py", "games", "LICENSE"])
async def test_path_outside_the_files_is_not_served(client: Any, path: str) -> None:
    answer, _ = await ask(client, f"/widget/{files.files().version}/{path}")
    assert answer.status == 404, path


async def test_hash_that_is_told_is_that_of_what_is_served(client: Any) -> None:
    _, document = await ask(client, "/widget/v1/integrity.json")
    row = json.loads(document)
    _, body = await ask(client, row["src"])
    digest = base64.b64encode(hashlib.sha384(body).digest()).decode()
    assert row["integrity"] == f"sha384-{digest}"


async def test_file_is_compressed_where_accepted(client: Any) -> None:
    path = files.files().address("tombola.js")
    _, plain = await ask(client, path)
    zipped, shorter = await ask(client, path, Accept_Encoding="gzip")
    assert zipped.headers["Content-Encoding"] == "gzip" and gzip.decompress(shorter) == plain
    pytest.importorskip("brotli")
    best, shortest = await ask(client, path, Accept_Encoding="gzip, br")
    assert best.headers["Content-Encoding"] == "br" and len(shortest) < len(shorter)


@pytest.mark.parametrize("game", GAMES)
def test_entry_and_one_game_stay_within_the_budget(game: str) -> None:
    sizes = zipped_sizes(files.ENTRY, f"games/{game}.js", *(f"games/{part}.js" for part in GAMES[game]))
    print(f"\n{game}: {sum(sizes.values())} of {BUDGET_BYTES} bytes gzipped: {sizes}")
    assert sum(sizes.values()) <= BUDGET_BYTES


def test_entry_and_all_games_stay_within_their_budget() -> None:
    games = [path for path in files.files().documents if path.startswith("games/")]
    sizes = zipped_sizes(files.ENTRY, *games)
    print(f"\nall games: {sum(sizes.values())} of {ALL_BUDGET_BYTES} bytes gzipped: {sizes}")
    assert {f"games/{game}.js" for game in GAMES} <= set(games)
    assert sum(sizes.values()) <= ALL_BUDGET_BYTES


@pytest.mark.parametrize("game", GAMES)
def test_game_is_counted_with_all_that_it_imports(game: str) -> None:
    source = files.files().documents[f"games/{game}.js"].plain.body.decode()
    assert set(re.findall(r'from"\./(\w+)\.js"', source)) == set(GAMES[game])


def zipped_sizes(*paths: str) -> dict[str, int]:
    return {path: len(gzip.compress(files.files().documents[path].plain.body, mtime=0)) for path in paths}
