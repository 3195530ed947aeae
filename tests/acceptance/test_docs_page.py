"""The docs page, in a real browser that can reach nothing but the stack."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from runtime.http.docs.openapi import document
from runtime.operations import API
from tests.support.stack import Stack

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


async def test_the_page_loads_only_its_own_files(stack: Stack) -> None:
    """What the page names is served, from the same host, under a policy that forbids all others."""
    base = f"{stack.process.consumer_url}{API}/"
    async with stack.http.get(f"{base}docs") as answer:
        page = await answer.text()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "http" not in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert named and not [name for name in named if "//" in name]
    for name in named:
        async with stack.http.get(base + name) as answer:
            assert answer.status == 200, name
            assert answer.headers["Content-Type"].split("/")[0] in ("text", "image", "application")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_a_browser_shows_every_operation(stack: Stack, surface: str, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    url = f"{getattr(stack.process, f'{surface}_url')}{API}/docs"
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"),
        # So tall that every operation is in sight: of many, the page draws those that are.
        *(f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", "--window-size=1400,60000"),
        *("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    shown, _ = await process.communicate()
    dom = shown.decode()
    rows = [row for verbs in document(surface)["paths"].values() for row in verbs.values()]  # type: ignore[arg-type]
    for row in rows:
        assert f"operations-{row['tags'][0]}-{row['operationId']}" in dom, row["operationId"]
    assert "Failed to load API definition" not in dom
