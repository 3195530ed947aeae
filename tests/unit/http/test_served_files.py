import base64
import gzip
import hashlib
import json
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import web
from runtime.http.dashboard import serving
from runtime.http.docs import pages
from runtime.http.pages import files, static_documents
from runtime.http.pages.static_documents import accepts
from runtime.http.serving import make_app
from runtime.operations import API
from runtime.rules import REWARD_HANDLERS

BUDGET_BYTES = 20 * 1024
CATCHING = ("catching",)
GAMES = {"wheel": (), "scratch": (), "collection": (), "eggs": CATCHING, "gifts": CATCHING}
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
    assert row["integrity"] == f"sha384-{base64.b64encode(hashlib.sha384(body).digest()).decode()}"


async def test_file_is_compressed_where_accepted(client: Any) -> None:
    path = files.files().address("tombola.js")
    _, plain = await ask(client, path)
    zipped, shorter = await ask(client, path, Accept_Encoding="gzip")
    assert zipped.headers["Content-Encoding"] == "gzip" and gzip.decompress(shorter) == plain
    pytest.importorskip("brotli")
    best, shortest = await ask(client, path, Accept_Encoding="gzip, br")
    assert best.headers["Content-Encoding"] == "br" and len(shortest) < len(shorter)


async def test_file_is_compressed_once_and_off_the_event_loop(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, threads = threading.get_ident(), list[int]()
    gzipped = {"gzip": lambda body: threads.append(threading.get_ident()) or gzip.compress(body)}
    monkeypatch.setattr(static_documents, "_COMPRESSORS", gzipped)
    files.files.cache_clear()
    for _ in range(2):
        await ask(client, files.files().address("tombola.js"), Accept_Encoding="gzip, br")
    files.files.cache_clear()
    assert len(threads) == 1 and loop not in threads, "plays would wait for it"


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


PAGE = Path(web.__file__).parent / "dashboard"
SOURCES = {path.relative_to(PAGE).as_posix(): path.read_text() for path in PAGE.rglob("*.js")}
SENT_BYTES_MAX = 150 * 1024
"""All of it, compressed: what is loaded later too."""


@pytest.fixture
async def dashboard(aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    app = make_app()
    serving.mount(app)
    return await aiohttp_client(app)


def address(path: str) -> str:
    return f"{serving.FILES}/{serving.files().version}/{path}"


def test_dashboard_stays_within_its_size() -> None:
    bodies = [document.plain.body for document in serving.files().documents.values()]
    assert sum(len(gzip.compress(body)) for body in bodies) < SENT_BYTES_MAX


@pytest.mark.parametrize("path", ["", "/", "/campaigns/camp_1", "/campaigns?status=active"])
async def test_dashboard_serves_its_page_and_policy_at_every_path(dashboard: Any, path: str) -> None:
    async with dashboard.get(f"/dashboard{path}") as answer:
        page = await answer.text()
        assert answer.status == 200 and answer.headers["Content-Security-Policy"] == serving.POLICY
        assert answer.headers["Cache-Control"] == "no-cache" and answer.headers["Referrer-Policy"] == "no-referrer"
    assert "<style" not in page and "style=" not in page and "<script>" not in page


async def test_files_of_the_page_and_their_imports_are_served(dashboard: Any) -> None:
    async with dashboard.get("/dashboard") as answer:
        named = re.findall(r'(?:href|src)="(/[^"]+)"', await answer.text())
    assert {address("main.js"), address("style.css"), address("pico.css")} <= {*named}
    assert not [path for path in named if "uplot" in path]  # Loaded when it is needed.
    for path in named:
        async with dashboard.get(path) as answer:
            assert answer.status == 200 and "immutable" in answer.headers["Cache-Control"], path


async def test_page_of_before_an_update_gets_today_s_files_and_keeps_them_for_no_one(dashboard: Any) -> None:
    async with dashboard.get(f"{serving.FILES}/{'0' * 16}/main.js") as answer:
        assert answer.status == 200 and answer.headers["Cache-Control"] == "no-cache"
    async with dashboard.get(address("none.js")) as answer:
        assert answer.status == 404


def test_pages_name_an_existing_file_and_operation() -> None:
    from runtime.http.admin import served

    names = {operation.name for operation, _ in served()}
    rows = re.findall(r'path: "([^"]+)", needs: "(\w*)", load: \(\) => import\("\./([^"]+)"\)', SOURCES["pages.js"])
    assert len(rows) == SOURCES["pages.js"].count("path: ") and len(rows) >= 3
    for path, needs, file in rows:
        assert file in SOURCES and (not needs or needs in names), path


OURS = sorted(path for path in PAGE.rglob("*.js") if "words" not in path.relative_to(PAGE).parts)
SAID = re.compile(r"""\bsay\("([^"$]+)\"""")


def templates(text: str) -> str:
    """What is written as HTML, without what is put into it and without comments."""
    written = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    written = re.sub(r"(?m)^\s*//.*$", "", written)
    while (shorter := re.sub(r"\$\{[^{}]*\}", "", written)) != written:
        written = shorter
    return written


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(PAGE)))
def test_interface_text_is_only_in_the_words_file(path: Path) -> None:
    text, words = path.read_text(), (PAGE / "words" / "en.js").read_text()
    between = re.findall(r">\s*([A-Za-z]{2}[A-Za-z ,.'’!?…:-]*)\s*<", templates(text))
    named = re.findall(r"""(?:aria-label|placeholder|title|alt|label)="([^"]*[A-Za-z]{2}[^"]*)\"""", templates(text))
    assert (between, named) == ([], [])
    assert [key for key in SAID.findall(text) if not re.search(rf'(?m)^  "?{re.escape(key)}"?: ', words)] == []


FILES = (
    *("openapi.json", "asyncapi.json", "schemas/ui.json", "schemas/games/probability.json", "themes.json", "docs"),
    *("docs/docs.js", "docs/swagger-ui-bundle.js", "docs/swagger-ui.css"),
)


@pytest.fixture
async def docs(aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    app = make_app()
    pages.mount(app, "admin")
    # It asks for nothing by itself, and shows what came.
    return await aiohttp_client(app, auto_decompress=False, skip_auto_headers=("Accept-Encoding",))


@pytest.mark.parametrize("name", FILES)
async def test_client_gets_what_it_accepts(docs: Any, name: str) -> None:
    plain, body = await ask(docs, f"{API}/{name}")
    zipped, shorter = await ask(docs, f"{API}/{name}", Accept_Encoding="br, gzip;q=0.5")
    assert "Content-Encoding" not in plain.headers and zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(shorter) == body and len(shorter) < len(body)
    assert plain.headers["ETag"] != zipped.headers["ETag"]
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["Content-Type"] == zipped.headers["Content-Type"]


async def test_file_that_gzip_would_lengthen_is_sent_plain(docs: Any) -> None:
    answer, body = await ask(docs, f"{API}/docs/favicon.png", Accept_Encoding="gzip")
    assert "Content-Encoding" not in answer.headers and body.startswith(b"\x89PNG")


@pytest.mark.parametrize("accepted", ["", "gzip"])
async def test_known_etag_is_answered_with_304(docs: Any, accepted: str) -> None:
    first, body = await ask(docs, f"{API}/openapi.json", Accept_Encoding=accepted)
    tag = first.headers["ETag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again, nothing = await ask(docs, f"{API}/openapi.json", Accept_Encoding=accepted, If_None_Match=known)
        assert (again.status, nothing) == (304, b"")
        assert (again.headers["ETag"], again.headers["Vary"]) == (tag, "Accept-Encoding")
        assert "Content-Encoding" not in again.headers
    changed, whole = await ask(docs, f"{API}/openapi.json", Accept_Encoding=accepted, If_None_Match='"other"')
    assert (changed.status, whole) == (200, body)


def test_gzip_requires_accept_encoding() -> None:
    taken = ["gzip", "GZIP", "br;q=1, gzip;q=0.001", "*"]
    refused = ["", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", "identity, br"]
    assert [one for one in refused + taken if accepts("gzip", one)] == taken


async def test_handler_config_has_a_schema_at_its_own_address(docs: Any) -> None:
    names = json.loads((await ask(docs, f"{API}/schemas/games.json"))[1])["reward_handlers"]
    assert names == REWARD_HANDLERS.names()
    for name in names:
        answer, body = await ask(docs, f"{API}/schemas/games/{name}.json")
        assert json.loads(body)["title"] == name and answer.headers["Content-Type"] == "application/schema+json"
    answer, _ = await ask(docs, f"{API}/schemas/games/none_such.json")
    assert answer.status == 404
