from collections.abc import Iterator
from typing import Any

from runtime.operations import Operation
from runtime.wire.schema import Kind, fields_of
from tests.support.operations import Body, Ids, body_of, path_of
from tests.support.stack import Answer, Stack


def text_of(answer: Answer) -> str:
    return str({name: value for name, value in answer.envelope.items() if name != "trace_id"})


def without_ids(said: tuple[Any, ...], *known: Ids) -> tuple[Any, ...]:
    """The answer with each id in it replaced by its kind."""
    *first, text = said
    for ids in known:
        for kind, identifier in ids.items():
            text = text.replace(identifier, f"<{kind.replace('drawn', 'draw')}>")
    return (*first, text)


def references(message: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places within a request's body that hold another thing's id, as paths of names and indexes."""
    for name, field in fields_of(message).items():
        if name in ("scope", "update_mask"):
            continue
        place = (*at, name, 0) if field.repeated else (*at, name)
        if field.kind is Kind.MESSAGE:
            yield from references(field.type, place)
        elif field.kind is Kind.TEXT and (name.endswith("_id") or name == "scope_key"):
            yield place


def named_by(place: tuple[Any, ...]) -> str:
    name = str(place[-1])
    kinds = {"scope_key": "campaign", "fallback_prize_id": "prize", "session_id": "session"}
    kinds |= {"guest_player_id": "player"}
    own = name.removesuffix("_id")
    return kinds.get(
        name, own if own in ("campaign", "game", "prize", "merchant", "player", "milestone", "reward") else ""
    )


def put(body: Body, place: tuple[Any, ...], value: str) -> bool:
    """Sets what stands at the place; False where the body has nothing that it would stand in."""
    inner: Any = body
    for step in place[:-1]:
        try:
            inner = inner[step]
        except (KeyError, IndexError):
            return False
    inner[place[-1]] = value
    return True


async def said_of_each(
    asker: Stack, operation: Operation, own: Ids, place: tuple[Any, ...], *others: Ids
) -> list[tuple[Any, ...]]:
    """What Core answers when a body about the asker's own things names one of each of the others' in this place."""
    said = []
    for known in others:
        body = body_of(operation, own)
        if not put(body, place, known[named_by(place)]):
            return []
        answer = await asker.core(operation.verb, path_of(operation, own), body)
        # Where all are let pass, each made something of its own.
        text = text_of(answer) if answer.code != "OK" else ""
        said.append(without_ids((answer.http, answer.code, text), known))
    return said
