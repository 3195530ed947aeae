"""A game's appearance: the schema of its `ui`, and the preset themes.

`ui` belongs to the operator: any object is stored and returned unchanged. `schema.json` describes the parts that our
pages use: types, colours, and images by https or as data of pixel formats. SVG is allowed only by URL: inline, it is
a document that may run scripts outside an <img>. An invalid part gives a warning when it is saved, and the pages show
their default. Parts that the schema does not name are ignored.

When a game is shown, the theme of `themes.json` named by `ui.theme.preset` fills in what its theme and background omit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from runtime.rules.ui import pages

SHOWN_MAX: Final = 20

ALL_PROBLEMS_BYTES_MAX: Final = 16 * 1024
"""Above this size only the first problem is reported: finding all takes 1,000 times as long if each item has one."""

COLOUR_CHARACTERS_MAX: Final = 64

ASSET: Final = r"/assets/[A-Za-z0-9_.\-]{1,128}/asset_[0-9a-f]{64}"
"""The URL of an uploaded picture or font, as in schema.json."""

_ASSET: Final = re.compile(ASSET)

CAMPAIGN_PARTS: Final = ("theme", "background")
"""The ui parts that a campaign's settings may contain, for the look of the pages around its games."""

CHECKED_SETTINGS: Final = (*CAMPAIGN_PARTS, "picture", "preview", "page", "css")

BRAND: Final = ("logo", "logo_alt")
"""The fields of a campaign's theme that also its games with themes of their own show."""


def schema_text() -> bytes:
    return (resources.files(__package__) / "schema.json").read_bytes()


def themes_text() -> bytes:
    return (resources.files(__package__) / "themes.json").read_bytes()


@cache
def themes() -> Mapping[str, Mapping[str, Any]]:
    """{name: {"title", "theme": {...}, "background": {...}}}"""
    found: dict[str, dict[str, Any]] = msgspec.json.decode(themes_text())
    return found


def problems(field: str, ui: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(path, description) of each problem of a ui that is stored as `field`."""
    if not ui or _validator().is_valid(ui):
        return []
    errors = _validator().iter_errors(ui) if len(msgspec.json.encode(ui)) <= ALL_PROBLEMS_BYTES_MAX else [_first(ui)]
    # One problem per path: a value of the wrong type fails its pattern too.
    found = {_path(field, error.instance_path): f"must be {_description(error.schema_path)}" for error in errors}
    return list(found.items())[:SHOWN_MAX]


def problems_of_settings(settings: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The same for the parts of a campaign's settings that its pages use."""
    return problems("settings", {name: value for name, value in (settings or {}).items() if name in CHECKED_SETTINGS})


def shown(ui: dict[str, Any] | None, settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The ui as players see it: completed from the campaign's settings, then from the preset theme."""
    made = dict(ui or {})
    given = {name: value for name in CAMPAIGN_PARTS if isinstance(value := (settings or {}).get(name), Mapping)}
    theme = made.get("theme")
    if not theme:
        made = {**given, **{name: value for name, value in made.items() if name != "theme"}}
    elif isinstance(theme, Mapping):
        made["theme"] = {**{name: value for name, value in given.get("theme", {}).items() if name in BRAND}, **theme}
    if page := pages.merged((settings or {}).get("page"), made.get("page")):
        made["page"] = pages.without_legal(page)
    return with_preset(made) if made else ui


def with_preset(ui: dict[str, Any] | None) -> dict[str, Any] | None:
    """The ui as shown: its preset theme fills in what it omits."""
    theme = (ui or {}).get("theme")
    if ui is None or not isinstance(theme, Mapping):
        return ui
    preset = themes().get(str(theme.get("preset")))
    if preset is None:
        return ui
    own = ui.get("background")
    background = {**preset["background"], **own} if isinstance(own, Mapping) else own or preset["background"]
    return {**ui, "theme": {**preset["theme"], **theme}, "background": background}


def is_asset(text: str) -> bool:
    """Whether `text` is the URL of an uploaded picture or font."""
    return _ASSET.fullmatch(text) is not None


def assets_of(value: Any, tenant_id: str) -> Any:
    """The value with the URLs of uploaded files as those of the tenant. Equal files have equal ids in each tenant."""
    if isinstance(value, dict):
        return {name: assets_of(one, tenant_id) for name, one in value.items()}
    if isinstance(value, list):
        return [assets_of(one, tenant_id) for one in value]
    if isinstance(value, str) and is_asset(value):
        return f"/assets/{tenant_id}/{value.rpartition('/')[2]}"
    return value


def is_colour(text: str) -> bool:
    """Whether the schema accepts `text` as a colour."""
    return text != "" and len(text) <= COLOUR_CHARACTERS_MAX and _colour().fullmatch(text) is not None


@cache
def _colour() -> re.Pattern[str]:
    return re.compile(_schema()["$defs"]["color"]["pattern"])


@cache
def _schema() -> Any:
    return msgspec.json.decode(schema_text())


@cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator  # Imported late: only processes that save games need it.

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


def _description(schema_path: Sequence[str | int]) -> str:
    """The `description` of the nearest schema part that has one."""
    part, description = _schema(), ""
    for name in schema_path:
        part = part[name]
        if isinstance(part, dict):
            description = part.get("description", description)
    return str(description)
