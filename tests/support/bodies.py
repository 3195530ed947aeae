"""Bodies as nobody should send them, and a stack with one thing of every kind to send them to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from runtime.operations import API, Operation
from tests.support.operations import WITH_BODY, Ids
from tests.support.stack import Stack
from tests.support.tables import Contents, contents

NUL: Final = "a\0b"
HALF: Final = "a\ud83d"
"""Half of a surrogate pair."""


class Raw(str):
    """JSON that no Python value makes."""


def encode(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value)


@dataclass(frozen=True)
class Furnished:
    stack: Stack
    known: Ids

    async def contents(self) -> Contents:
        return await contents(self.stack.database)

    async def send(
        self, surface: str, verb: str, path: str, data: bytes | str, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """(HTTP status, the envelope)."""
        process = self.stack.process
        base = {"core": process.core_url, "consumer": process.consumer_url, "admin": process.admin_url}[surface]
        token = {
            "core": "",
            "consumer": self.stack.token(self.known["player"]),
            "admin": self.stack.token("staff", ("admin", "platform")),
        }[surface]
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **(headers or {})}
        sent.pop("Authorization") if not token else None
        async with self.stack.http.request(verb, base + API + path, data=data, headers=sent) as answer:
            envelope = await answer.json()
            assert list(envelope) == ["code", "message", "trace_id", "data"]
            return answer.status, envelope


def serves(surface: str, operation: Operation) -> bool:
    if surface == "consumer":
        return operation.consumer is not None
    return surface != "admin" or (operation.admin is not None and not operation.admin.signed)


def bodies_of(surface: str) -> Iterator[tuple[Operation, str]]:
    for operation in WITH_BODY:
        if serves(surface, operation) and not operation.streamed:
            yield operation, "/admin" if surface == "admin" else ""
