"""The commands that follow from the operations' rows: what `ops/commands.py` made of them.

They are read from a file, since importing the operations would take longer than most commands do.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = Path(__file__).with_name("commands.json")


class Kind(Enum):
    """What is typed for a parameter.

    MANY: any number of arguments. TIME: a date, with a time or without. END: a time, or a last day. CHOICE: one of some
    words. KEY: an Idempotency-Key. MOST: how many items.
    """

    TEXT = "text"
    TEXTS = "texts"
    MANY = "many"
    WHOLE = "whole"
    FLAG = "flag"
    TIME = "time"
    END = "end"
    CHOICE = "choice"
    FILE = "file"
    KEY = "key"
    MOST = "most"


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A parameter of a command, and the request's field that it sets.

    needed: it has no default. unsaid: the field stays as it is where the parameter is left out. negatable: a flag that
    has a `--no-`. most: the default of one of kind MOST.
    """

    name: str
    kind: Kind
    field: str = ""
    help: str = ""
    argument: bool = False
    needed: bool = False
    unsaid: bool = False
    negatable: bool = False
    choices: tuple[str, ...] = ()
    most: int = 0


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command: a row's `Command`, with what the proto says of its fields.

    listed: the reply is a list; one: of which one item is shown. enums: fields of what is shown -> the prefix of their
    values' names.
    """

    words: str
    help: str
    verb: str
    path: str
    listed: bool = False
    one: bool = False
    parameters: tuple[Parameter, ...] = ()
    sends: dict[str, Any] = {}
    confirm: str = ""
    columns: dict[str, str] = {}
    says: str = ""
    as_json: bool = False
    unless: str = ""
    kept: str = ""
    enums: dict[str, str] = {}


@cache
def commands() -> tuple[Command, ...]:
    """Every command that follows from a row."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[Command, ...])
