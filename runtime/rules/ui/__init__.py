"""How a game looks: what of its `ui` the service knows, and the themes that one may begin with.

`ui` is the operator's: any object is stored and given back as it is (spec.md, "Game"). What our pages use of it is what
`schema.json` describes: types, colours, and images by https or as data of formats that are nothing but pixels. An SVG
is a document, which may run scripts wherever it is not an <img>: it is shown by its address. A part that is anything
else is a warning to who saves it, and the pages show their default. Parts that the schema does not name are not looked
at.

A theme of `themes.json`, named by `ui.theme.preset`, fills in what the game's own theme and background leave out, when
the game is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

SHOWN_MAX: Final = 20
"""The most problems that are told of one ui."""

ALL_TOLD_BYTES: Final = 16 * 1024
"""Of a larger ui the first problem alone is told: looking for all takes 1,000 times as long where each item has one."""

COLOUR_CHARACTERS_MAX: Final = 64

CAMPAIGN_PARTS: Final = ("theme", "background")
"""What a campaign's settings may have of the same, for the pages around its games."""


def schema_text() -> bytes:
    """The JSON Schema (2020-12), as it is served."""
    return (resources.files(__package__) / "schema.json").read_bytes()


def themes_text() -> bytes:
    """The themes by name, as they are served."""
    return (resources.files(__package__) / "themes.json").read_bytes()


@cache
def themes() -> Mapping[str, Mapping[str, Any]]:
    """{name: {"title", "theme": {...}, "background": {...}}}"""
    found: dict[str, dict[str, Any]] = msgspec.json.decode(themes_text())
    return found


def problems(field: str, ui: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(path, what is wrong) of a ui that is stored as `field`."""
    if not ui or _validator().is_valid(ui):
        return []
    errors = _validator().iter_errors(ui) if len(msgspec.json.encode(ui)) <= ALL_TOLD_BYTES else [_first(ui)]
    # One of each path: what has the wrong type fails its pattern too.
    found = {_path(field, error.instance_path): f"must be {_said(error.schema_path)}" for error in errors}
    return list(found.items())[:SHOWN_MAX]


def problems_of_settings(settings: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The same of a campaign's settings, as far as they are written as a ui is: what else is called so is anybody's."""
    parts = {name: value for name, value in (settings or {}).items() if name in CAMPAIGN_PARTS}
    return problems("settings", {name: value for name, value in parts.items() if isinstance(value, Mapping)})


def filled(ui: dict[str, Any] | None) -> dict[str, Any] | None:
    """The ui as it is shown: with what the theme that it names has beside its own."""
    theme = (ui or {}).get("theme")
    if ui is None or not isinstance(theme, Mapping):
        return ui
    preset = themes().get(str(theme.get("preset")))
    if preset is None:
        return ui
    own = ui.get("background")
    background = {**preset["background"], **own} if isinstance(own, Mapping) else own or preset["background"]
    return {**ui, "theme": {**preset["theme"], **theme}, "background": background}


def is_colour(text: str) -> bool:
    """Whether the schema lets it be a colour."""
    return text != "" and len(text) <= COLOUR_CHARACTERS_MAX and _colour().fullmatch(text) is not None


@cache
def _colour() -> re.Pattern[str]:
    return re.compile(_schema()["$defs"]["color"]["pattern"])


@cache
def _schema() -> Any:
    return msgspec.json.decode(schema_text())


@cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator  # late: a process that saves no game needs none of it

    return Draft202012Validator(_schema())


def _first(ui: Mapping[str, Any]) -> Any:
    from jsonschema_rs import ValidationError

    try:
        _validator().validate(ui)
    except ValidationError as error:
        return error
    raise AssertionError("it is not valid")


def _path(field: str, below: Sequence[str | int]) -> str:
    """ui.wheel.segments[2].color"""
    return field + "".join(f"[{name}]" if isinstance(name, int) else f".{name[:100]}" for name in below)


def _said(schema_path: Sequence[str | int]) -> str:
    """What the nearest part of the schema that says something says there is to be."""
    part, said = _schema(), ""
    for name in schema_path:
        part = part[name]
        if isinstance(part, dict):
            said = part.get("description", said)
    return str(said)
