"""JSON Schemas of each reward handler's handler_config. Forms and the OpenAPI document are built from them.

They are generated from the handlers' `Config` types, plugins included. Rules that a schema cannot express
(probabilities add up to at most 1, tiers do not overlap) are checked when a game is saved.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from runtime.rules.base import RewardHandler
from runtime.rules.registries import REWARD_HANDLERS

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ANY: Final[dict[str, Any]] = {"type": "object"}


def schema_of(name: str) -> dict[str, Any] | None:
    """The schema of this handler's config, with its parts in `$defs`. None: there is no such handler."""
    handler = REWARD_HANDLERS.get(name)
    if handler is None:
        return None
    found, parts = _made(handler, "#/$defs/")
    return {"$schema": DIALECT, **found, "title": name, **({"$defs": parts} if parts else {})}


def components_of(name: str, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(schema, referenced schemas by name), for a document that keeps all schemas at `prefix`.

    Names start with the handler's name, since every handler has a `Config`.
    """
    own = camel(name)
    handler = REWARD_HANDLERS.get(name)
    found, parts = _made(handler, f"{prefix}{own}") if handler is not None else (dict(_ANY), {})
    # Client generators take titles as names, and two handlers may use the same name for a part.
    return found, {own + part: {**schema, "title": own + part} for part, schema in parts.items()}


def camel(name: str) -> str:
    """score_to_tier -> ScoreToTier"""
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", name))


def _made(handler: RewardHandler, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        (found,), parts = msgspec.json.schema_components([handler.Config], ref_template=prefix + "{name}")
    except (TypeError, AttributeError):  # A plugin's config may have any type: describe it as an object.
        return dict(_ANY), {}
    name = str(found.get("$ref", "")).removeprefix(prefix)
    # Inline the config itself at the top level instead of referring to it.
    return (parts.pop(name), parts) if name in parts else (found, parts)
