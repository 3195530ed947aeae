"""Commands generated from the operations' rows by `ops/commands.py`.

They are read from a file: importing the operations would take longer than most commands run.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = Path(__file__).with_name("commands.json")


class Kind(Enum):
    """The type of a parameter.

    MANY: any number of arguments. TIME: a date, with or without a time. END: a time, or a last day. CHOICE: one of
    several words. KEY: an Idempotency-Key. MOST: the maximum number of items.
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
    """A parameter of a command, and the request field that it sets.

    needed: it has no default. unsaid: omitting it leaves the field unchanged. negatable: a flag with a `--no-` form.
    most: the default of kind MOST.
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
    """A row's `Command`, completed from the proto's fields.

    listed: the reply is a list. one: one item of the list is shown. enums: shown enum fields -> the prefix of their
    value names.
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
    outcome: str = ""
    as_json: bool = False
    unless: str = ""
    failure: str = ""
    enums: dict[str, str] = {}


@cache
def commands() -> tuple[Command, ...]:
    """All generated commands."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[Command, ...])
