"""500 strings that mean something to SQL, a shell, a template, a parser or a terminal, in every text field
that a create or an update takes: no error of ours, and what is stored reads back as it was sent.

The fields are those of game.proto. Texts that name something (an id, a zone, a locale) may be refused, by
their field; a free text may not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import pytest_asyncio

from runtime.operations import BY_NAME, Operation
from runtime.wire.schema import Kind, fields_of
from tests.support.operations import Body, Ids, body_of, furnish, path_of
from tests.support.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

CORES: Final = (
    "' OR '1'='1",
    "'; DROP TABLE games; --",
    '" OR ""="',
    "1); DELETE FROM plays; --",
    "$1",
    "$$;select pg_sleep(9)$$",
    "E'\\x27'",
    "%s%n%d",
    "%' ESCAPE '_",
    "\\'",
    "$(id)",
    "`id`",
    "; cat /etc/passwd",
    "| nc 127.0.0.1 1",
    "&& true",
    "{{7*7}}",
    "${7*7}",
    "#{7*7}",
    "{0.__class__}",
    "%(name)s",
    "<% 7*7 %>",
    "{% raw %}",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "]]><!--",
    "&lt;&#x3c;&amp;",
    '{"a": 1}',
    '"}, "admin": true, {"',
    "\\u0000",
    '\\"',
    "null",
    "true",
    "NaN",
    "[]",
    "../../etc/passwd",
    "..\\..\\windows",
    "/dev/null",
    "file:///etc/passwd",
    "%2e%2e%2f",
    "%00",
    "C:\\",
    "=1+1",
    "@SUM(A1)",
    "+1",
    "-1",
    "\r\nSet-Cookie: a=b",
    "a\tb\nc",
    "\x1b[31mred\x1b[0m",
    "\x08\x7f\x01",
    "\u202eevil",
    "\u200bzero\u2060",
    "\ufeffbom",
    "\ufffd\ufffe\uffff",
    "e\u0301 \u00e9",
    "ﷺ",
    "𝕿𝖊𝖘𝖙",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "\U0010ffff\ue000",
    "İıſK",
    "ß ẞ ﬃ",
    "Ⅷ ½ ٣",
    "\u0300\u0301\u0302",
    "\u2028line\u2029",
    "\x85nel\xa0",
    "*)(uid=*))(|(uid=*",
    "' or count(/*)=1 or '",
    "{$gt: ''}",
    "*1\r\n$4\r\nPING",
    "sealed:1:AAAA",
    "__proto__",
    "constructor.prototype",
    "Infinity",
    "1e309",
    "0x41",
    "tenant_other",
    "}{",
    "{tenant_test}v:",
    "*",
    "_",
)
WRAPS: Final = ("{}", "a{}", "{}z", "a{}z", "'{}'", '"{}"', "({})")
STRINGS: Final = [wrap.replace("{}", core) for wrap, core in itertools.product(WRAPS, CORES)][:500]

FREE: Final = {
    "CreateCampaign": ["campaign.name"],
    "CreateGame": ["game.name", "game.type", "game.milestones.rungs[0].name", "game.milestones.rungs[0].currency"],
    "CreatePrize": ["prize.name", "prize.type"],
    "CreateQuest": ["quest.name", "quest.description"],
    "CreateLeaderboard": ["leaderboard.name"],
    "CreateMerchant": ["merchant.name"],
    "CreateTenant": ["tenant.name"],
    "CreateIntegration": ["integration.events[0]"],
    "UpdatePlayer": ["player.display_name"],
    "AdjustScore": ["reason"],
    "DisqualifyPlayer": ["reason"],
}
"""Texts that mean nothing to the service. Of the updates, those of the same resource."""

OBJECTS: Final = {
    "CreateCampaign": "campaign.settings",
    "CreateGame": "game.ui",
    "UpdatePlayer": "player.attributes",
}
"""Free-form objects: the strings are names in it too."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known(module_stack: Stack) -> Ids:
    return await furnish(module_stack)


def steps(path: str) -> list[str | int]:
    found: list[str | int] = []
    for part in path.replace("[", ".[").split("."):
        found.append(int(part[1:-1]) if part.startswith("[") else part)
    return found


def get(value: Any, path: str) -> Any:
    for step in steps(path):
        value = value[step]
    return value


def put(value: Any, path: str, item: Any) -> None:
    *first, last = steps(path)
    for step in first:
        value = value[step]
    value[last] = item


async def test_there_are_500_of_them() -> None:
    assert len(set(STRINGS)) == 500


@pytest.mark.parametrize("name", FREE)
async def test_a_free_text_is_stored_as_it_was_sent(module_stack: Stack, known: Ids, name: str) -> None:
    """Made with each string, changed to the next one, and then read in a list: each is what was sent last."""
    operation = BY_NAME[name]
    resource, update = operation.resource, BY_NAME.get(name.replace("Create", "Update"))
    stored: dict[str, str] = {}
    if "player_id" in body_of(operation, known):
        for index in range(len(STRINGS)):
            body = {"player_id": f"player_{index}", "player": {"locale": "en"}}
            assert (await module_stack.core("PUT", "/players/me", body)).data

    async def one(index: int) -> None:
        text, following = STRINGS[index], STRINGS[index - 1]
        made = await module_stack.core(operation.verb, path_of(operation, known), with_text(operation, known, text))
        check(name, made.data, text)
        if update is None or update is operation:
            return
        identifier = made.data[resource]["id"]
        path = update.path.replace("{id}", identifier)
        changed = await module_stack.core("PUT", path, with_text(update, known, following, name))
        check(name, changed.data, following)
        stored[identifier] = following

    for start in range(0, len(STRINGS), 10):
        await asyncio.gather(*(one(index) for index in range(start, start + 10)))
    if stored:
        async for item in every(module_stack, operation.path):
            if item["id"] in stored:
                check(name, {resource: item}, stored.pop(item["id"]))
        assert stored == {}
    if name == "AdjustScore":
        rows = await module_stack.database.fetch("SELECT reason FROM leaderboard_adjustments")
        assert {row["reason"] for row in rows} == set(STRINGS)


def with_text(operation: Operation, known: Ids, text: str, name: str = "") -> Body:
    """The operation's body with the text in each place that FREE and OBJECTS give for `name`."""
    body, name = body_of(operation, known), name or operation.name
    for path in FREE[name]:
        put(body, path, text)
    if name in OBJECTS:
        put(body, OBJECTS[name], {text: [text, {"a": text}]})
    if "player_id" in body:
        body["player_id"] = f"player_{STRINGS.index(text)}"
    return body


def check(name: str, reply: Body, text: str) -> None:
    """What the reply shows of each of these places is the text; a player's name is shown without blanks around it."""
    for path in FREE[name]:
        shown = get_or_none(reply, path)
        assert shown == (text.strip() if path == "player.display_name" else text) or "." not in path, (path, text)
    if name in OBJECTS:
        assert get(reply, OBJECTS[name]) == {text: [text, {"a": text}]}, (text, reply)


async def every(stack: Stack, path: str) -> AsyncIterator[dict[str, Any]]:
    """Every item of a list, page by page."""
    cursor = ""
    while True:
        page = (await stack.core("GET", path, limit="100", **({"cursor": cursor} if cursor else {}))).data
        for item in page["items"]:
            yield item
        cursor = page["pagination"]["next_cursor"]
        if not cursor:
            return


def get_or_none(value: Any, path: str) -> Any:
    try:
        return get(value, path)
    except (KeyError, IndexError, TypeError):
        return None


def other_texts(message: Any, at: str = "") -> Iterator[str]:
    """The paths of a request's texts that are not free ones: ids, names of registries, zones, URLs ..."""
    for name, field in fields_of(message).items():
        if name in ("scope", "update_mask"):
            continue
        path = f"{at}{name}" + ("[0]" if field.repeated else "")
        if field.kind is Kind.MESSAGE:
            yield from other_texts(field.type, f"{path}.")
        elif field.kind is Kind.TEXT:
            yield path


NAMING: Final = sorted({name for name in BY_NAME if BY_NAME[name].verb in ("POST", "PUT")} - {"ImportCodes"})


@pytest.mark.parametrize("chunk", range(4))
async def test_no_text_anywhere_is_an_error_of_ours(module_stack: Stack, chunk: int) -> None:
    """Every other text field of every operation: each gets a share of the strings, all of them in turn."""
    known = await furnish(module_stack, "player_bea")
    strings = itertools.cycle(STRINGS[chunk * 125 : (chunk + 1) * 125])
    for name in NAMING:
        operation = BY_NAME[name]
        tried = []
        for path in other_texts(operation.request):
            if path in FREE.get(name, ()):
                continue
            for text in itertools.islice(strings, 5):
                body = body_of(operation, known)
                try:
                    put(body, path, text)
                except (KeyError, IndexError, TypeError):
                    continue
                tried.append(module_stack.core(operation.verb, path_of(operation, known), body))
        for answer in await asyncio.gather(*tried):
            assert answer.http < 500, (name, answer.envelope)


async def test_a_search_takes_every_string_for_itself(module_stack: Stack, known: Ids) -> None:
    """The wildcards of LIKE and all the rest mean themselves: each search finds what has that name, and no more."""
    for text in STRINGS[: len(CORES)]:
        made = await module_stack.core("POST", "/prizes", {"prize": {"name": f"find {text} me", "type": "goods"}})
        assert made.data
    for text in STRINGS[: len(CORES)]:
        found = (await module_stack.core("GET", "/prizes", q=f"find {text} me", limit="100")).data["items"]
        names = [prize["name"] for prize in found]
        assert f"find {text} me" in names
        assert {name.casefold() for name in names} == {f"find {text} me".casefold()} or len(names) == 1, (text, names)
