"""The pages' commands and programs, run as a reader runs them: in order, against a stack that `ops/up` started."""

import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ops.website import ROOT, build, expanded
from tests.ops.test_readme import SIGNS, STARTS, at, blocks, run
from tests.support.browsing import browsing
from tests.support.directories import server_directory
from tests.support.up import up

BLOCK = re.compile(r'^```(\w+)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ELSEWHERE = {"bench.md": "test_model.py", "back-up.md": "test_backup.py", "deploy.md": "test_deployment.py"}
ELSEWHERE |= {"listen-to-events.md": "test_readme.py", "scaling.md": "test_model.py"}
ELSEWHERE |= {"size-and-scale.md": "test_model.py"}
RUN = [
    str(page.relative_to(ROOT / "docs"))
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.name not in ELSEWHERE and "\n```sh\n" in page.read_text()
]
PORTS = ("9000", "9100")

CODE = re.compile(r"login code (\d+) for ada@example.com")


@dataclass(frozen=True)
class Reader:
    """Where somebody follows the pages. ports: what the pages' own ones are here."""

    folder: Path
    ready: dict[str, Any]
    ports: dict[str, str]

    def here(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(port, free)
        return at(text, self.ready).replace(".venv/bin/python", sys.executable)

    def follow(self, name: str, after: str = "") -> str:
        commands = []
        for language, title, text in BLOCK.findall(expanded((ROOT / "docs" / name).read_text())):
            if title:
                (self.folder / title).write_text(self.here(text))
            elif language == "sh":
                commands.append(self.here(text))
        assert commands
        return run(["bash", "-euo", "pipefail", "-c", "\n".join([*commands, after])], self.folder).stdout


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    ports = {}
    for port in PORTS:
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports[port] = str(free.getsockname()[1])
    issuer = {"JWKS_URL": f"http://127.0.0.1:{ports['9100']}/jwks", "JWKS_ISSUER": "https://login.example"}
    issuer |= {"JWKS_AUDIENCE": "tombola-app", "JWKS_TENANTS": "*", "JWKS_ROLE_MAP": "marketing=designer"}
    with server_directory() as folder, up(folder / "data", ARCHIVE_AFTER_DAYS="0", **issuer) as (_, ready):
        yield Reader(folder, ready, ports)


@asynccontextmanager
async def stopping(pid: int) -> AsyncIterator[None]:
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages' commands use curl")
@pytest.mark.parametrize("name", RUN)
def test_page_does_what_it_says(name: str, reader: Reader) -> None:
    assert reader.follow(name, "kill $(jobs -p) 2>/dev/null || true; echo followed").endswith("followed\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's commands use curl")
def test_examples_of_the_readme_succeed_and_can_be_repeated(reader: Reader) -> None:
    commands = [block for block in blocks("sh") if not block.startswith((*STARTS, SIGNS))]
    programs = [block for block in blocks("python") if "def register" not in block]
    assert commands and len(programs) >= 2
    for again in (False, True):
        shell = run(["bash", "-euo", "pipefail", "-c", at("\n".join(commands), reader.ready)], reader.folder)
        answers = [json.loads(answer) for answer in shell.stdout.replace("}{", "}\n{").splitlines()]
        assert answers and all(answer["code"] == "OK" for answer in answers), shell.stdout
        for program in programs:
            # A reader of events has read them, the second time.
            assert run([sys.executable, "-c", at(program, reader.ready)], reader.folder).stdout or again


def test_blocks_that_are_not_run_are_only_shown() -> None:
    shown = {"text", "html", "css", "ini", "sql", "ts"}
    for page in (ROOT / "docs").rglob("*.md"):
        for language, title, text in BLOCK.findall(expanded(page.read_text())):
            if language == "json":
                json.loads(text)
            elif not title and language not in {"sh", *shown}:
                assert language == "python" and page.name in {*ELSEWHERE, "plugins.md"}, page


async def test_front_end_of_the_tutorial_plays_claims_and_signs_in(reader: Reader) -> None:
    address, server = reader.follow("tutorials/first-integration.md", "echo $SERVER").split()
    async with stopping(int(server)), browsing() as browser:
        page = await browser.new_page()
        await page.goto(address)
        won, angle = "", 0.0
        while "Mug" not in won:
            await page.click("#play:has-text('Spin')")
            await page.wait_for_function("document.querySelector('#result').textContent !== '...'")
            won = await page.inner_text("#result")
            turned = float(await page.evaluate("document.querySelector('#wheel').style.transform.slice(7, -4)"))
            assert turned >= angle + 3 * 360  # Also if the same segment wins again.
            angle = turned
        await page.click("#claim")
        await page.wait_for_function("document.querySelector('#result').textContent.startsWith('Mug is yours')")
        guest = await page.evaluate("localStorage.guest")
        await page.fill("#email", "ada@example.com")
        async with page.expect_response("**/players/auth/start") as started:
            await page.click("#login button")
        challenge = {"json": await (await started.value).json(), "headers": {"Access-Control-Allow-Origin": "*"}}
        over = {"code": "UNAUTHENTICATED", "message": "the code has expired", "data": {"reason": "CODE_EXPIRED"}}
        expired = {**challenge, "json": over, "status": 401}
        await page.route("**/players/auth/verify", lambda route: route.fulfill(**expired), times=1)
        await page.fill("#code", "123456")
        await page.click("#login button")
        await page.wait_for_selector("#code", state="hidden")
        # A new challenge; the service would send the next code only after a minute.
        await page.route("**/players/auth/start", lambda route: route.fulfill(**challenge), times=1)
        await page.click("#login button")
        await page.wait_for_selector("#code:visible")
        (code,) = CODE.findall((reader.folder / "up.log").read_text())
        await page.fill("#code", code)
        await page.click("#login button")
        await page.wait_for_function("document.querySelector('#login').textContent === 'Signed in as ada@example.com'")
        assert guest and await page.evaluate("localStorage.guest") is None
        token = await page.evaluate("JSON.parse(localStorage.login).token")
        headers = {"Authorization": f"Bearer {token}"}
        answer = await page.request.get(f"{reader.ready['consumer_url']}/api/v1/rewards/me", headers=headers)
        assert {one["name"] for one in (await answer.json())["data"]["items"]} == {"Mug"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    with pytest.raises(SystemExit) as ended:
        build(made)  # strict: a broken link, or a page that the navigation lacks, ends it with 1
    assert ended.value.code in (0, None)
    return made


def test_site_has_each_page_as_html_and_markdown_and_in_llms_txt(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 10
    for page in pages:
        assert (site / page).read_text().strip() in expanded((ROOT / "docs" / page).read_text()), page
        assert (site / page.with_suffix(".html")).exists() and f"]({page})" in listed


def test_site_loads_nothing_from_another_host(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    loaded = re.compile(
        r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//|@import|url\([\"']?(?:https?:)?//"
    )
    assert files and [path.name for path in files if loaded.search(path.read_text())] == []
