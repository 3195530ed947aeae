"""The dashboard's files: small enough, all there, kept by browsers for good, and run under a strict policy."""

from __future__ import annotations

import gzip
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import web
from runtime.http.dashboard import serving
from runtime.http.serving import make_app

PAGE = Path(web.__file__).parent / "dashboard"
SOURCES = {path.relative_to(PAGE).as_posix(): path.read_text() for path in PAGE.rglob("*.js")}
SENT_BYTES_MAX = 150 * 1024
"""All of it, compressed: what is loaded later too."""


@pytest.fixture
async def client(aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    app = make_app()
    serving.mount(app)
    return await aiohttp_client(app)


def address(path: str) -> str:
    return f"{serving.FILES}/{serving.files().version}/{path}"


def test_dashboard_stays_within_its_size() -> None:
    bodies = [document.plain.body for document in serving.files().documents.values()]
    assert sum(len(gzip.compress(body)) for body in bodies) < SENT_BYTES_MAX


@pytest.mark.parametrize("path", ["", "/", "/campaigns/camp_1", "/campaigns?status=active"])
async def test_dashboard_serves_its_page_and_policy_at_every_path(client: Any, path: str) -> None:
    async with client.get(f"/dashboard{path}") as answer:
        page = await answer.text()
        assert answer.status == 200 and answer.headers["Content-Security-Policy"] == serving.POLICY
        assert answer.headers["Cache-Control"] == "no-cache" and answer.headers["Referrer-Policy"] == "no-referrer"
    assert "<style" not in page and "style=" not in page and "<script>" not in page


async def test_files_of_the_page_and_their_imports_are_served(client: Any) -> None:
    async with client.get("/dashboard") as answer:
        named = re.findall(r'(?:href|src)="(/[^"]+)"', await answer.text())
    assert {address("main.js"), address("style.css"), address("pico.css")} <= {*named}
    assert not [path for path in named if "uplot" in path]  # Loaded when it is needed.
    for path in named:
        async with client.get(path) as answer:
            assert answer.status == 200 and "immutable" in answer.headers["Cache-Control"], path


async def test_page_of_before_an_update_gets_today_s_files_and_keeps_them_for_no_one(client: Any) -> None:
    async with client.get(f"{serving.FILES}/{'0' * 16}/main.js") as answer:
        assert answer.status == 200 and answer.headers["Cache-Control"] == "no-cache"
    async with client.get(address("none.js")) as answer:
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
