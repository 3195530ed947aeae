"""How long a text may be, and how many a list may hold, is what the documents say: that much is taken, and no more."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.operations import OPERATIONS
from tests.support.bodies import Furnished, encode

SUBJECTS = {f"/{row.path.split('/')[1]}/{{id}}": row.subject for row in OPERATIONS if row.subject not in ("", "player")}
"""What the start of a path with an id names. Players' are left out: the one who asks would be signed out."""


class Bound(NamedTuple):
    """A place in an operation's body, and how much it may hold. lists: elements, else characters."""

    verb: str
    path: str
    body: Any
    place: tuple[str | int, ...]
    most: int
    lists: bool
    element: Any

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.named}"

    @property
    def named(self) -> str:
        said = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place).removeprefix(".")
        return "id" if said == "prize_id" and "/prizes" in self.path else said  # An edge's other name for it.

    def with_so_much(self, much: int) -> Any:
        body = copy.deepcopy(self.body)
        inner: Any = body
        for step, following in zip(self.place, self.place[1:], strict=False):
            if isinstance(step, int):
                inner = inner[step]
            else:
                if not inner.get(step):
                    inner[step] = [{}] if isinstance(following, int) else {}
                inner = inner[step]
        value = [self.element] * much if self.lists else "x" * much
        if isinstance(self.place[-1], int):
            inner[:] = [value]
        else:
            inner[self.place[-1]] = value
        return body


def bounds(surface: Surface) -> Iterator[Bound]:
    found = document(surface)

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return dict(found["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        return schema

    def of(schema: dict[str, Any], place: tuple[str | int, ...]) -> Iterator[tuple[Any, ...]]:
        schema = resolved(schema)
        if schema.get("type") == "array":
            element = resolved(schema["items"])
            if "maxItems" in schema:
                yield place, schema["maxItems"], True, {} if element["type"] == "object" else "x"
            yield from of(element, (*place, 0))
        elif schema.get("type") == "string" and not {"enum", "pattern"} & schema.keys():
            yield place, schema["maxLength"], False, None
        for name, inner in schema.get("properties", {}).items():
            yield from of(inner, (*place, name))

    for path, verbs in found["paths"].items():
        for verb, row in verbs.items():
            content = row.get("requestBody", {}).get("content", {})
            if "application/json" not in content or "text/plain" in content or row["security"] == [{"signature": []}]:
                continue
            media = content["application/json"]
            for place, most, lists, element in of(media["schema"], ()):
                if place[0] != "scope":
                    yield Bound(verb.upper(), path, media["example"], place, most, lists, element)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_texts_and_lists_are_as_long_as_documented(furnished: Furnished, surface: Surface) -> None:
    found, wrong = list(bounds(surface)), []
    assert len(found) > (10 if surface == "consumer" else 40)
    for bound in found:
        known = next((kind for start, kind in SUBJECTS.items() if start in bound.path), "")
        path = bound.path.removeprefix("/api/v1").replace("{id}", furnished.known.get(known, "x_1"))

        async def violations(much: int, bound: Bound = bound, path: str = path) -> list[dict[str, str]]:
            body = bound.with_so_much(much)
            if surface == "core":
                body["scope"] = {"tenant_id": furnished.stack.tenant_id}
            status, envelope = await furnished.send(surface, bound.verb, path, encode(body))
            assert status < 500, (bound, envelope)
            return list(envelope["data"].get("violations", ()))

        refused = [row["field"] for row in await violations(bound.most + 1)]
        if not {bound.named, f"{bound.named}[0]"} & set(refused):
            wrong.append((str(bound), bound.most, "takes more", refused))
        taken = [row for row in await violations(bound.most) if row["field"] == bound.named]
        if [row for row in taken if "at most" in row["description"]]:
            wrong.append((str(bound), bound.most, "takes less", taken))
    assert wrong == []
