"""The API's docs page, in a browser that reaches nothing but the service."""

import re

import pytest

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.operations import API
from tests.support.browsing import Visit
from tests.support.waiting import until


@pytest.mark.parametrize(
    "surface", ["consumer", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("core", "admin"))]
)
async def test_docs_page_shows_every_operation_and_loads_only_its_own_files(visit: Visit, surface: Surface) -> None:
    # So tall that every operation is in sight: the page draws no others.
    await visit.page.set_viewport_size({"width": 1400, "height": 20_000})
    home = f"{getattr(visit.stack.process, f'{surface}_url')}{API}/"
    answer = await visit.page.goto(f"{home}docs")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "http" not in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', await answer.text())
    assert named and not [name for name in named if "//" in name]
    for name in named:
        async with visit.stack.http.get(home + name) as file:
            assert file.status == 200, name
            assert file.headers["Content-Type"].split("/")[0] in ("text", "image", "application")
    rows = [row for verbs in document(surface)["paths"].values() for row in verbs.values()]
    ids = {f"operations-{row['tags'][0]}-{row['operationId']}" for row in rows}
    assert ids

    async def shown() -> bool:
        found = await visit.page.locator("[id^=operations-]").evaluate_all("(all) => all.map((one) => one.id)")
        return ids <= set(found)

    await until(shown)
    assert "Failed to load API definition" not in await visit.page.content()
    assert [one for one in visit.asked if home not in one and "data:" not in one] == []
