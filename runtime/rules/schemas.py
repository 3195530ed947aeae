"""JSON Schemas of what reward handlers take as handler_config: what a form of it, and OpenAPI, are made of.

They are made from the handlers' `Config` types, a plugin's like a built-in one's. What they cannot say (that
probabilities add up to 1 at most, that tiers do not overlap) the service tells when a game is saved.
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
    """The schema of this handler's config, whose parts are in its `$defs`; None: there is no such handler."""
    handler = REWARD_HANDLERS.get(name)
    if handler is None:
        return None
    found, parts = _made(handler, "#/$defs/")
    return {"$schema": DIALECT, **found, "title": name, **({"$defs": parts} if parts else {})}


def components_of(name: str, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the schema, what it refers to by name): the same for a document whose schemas are all at `prefix`.

    The names begin with the handler's, since every handler has a Config.
    """
    own = camel(name)
    handler = REWARD_HANDLERS.get(name)
    found, parts = _made(handler, f"{prefix}{own}") if handler is not None else (dict(_ANY), {})
    # Titles too: generators of clients take these for names, and two handlers may call a part the same.
    return found, {own + part: {**schema, "title": own + part} for part, schema in parts.items()}


def camel(name: str) -> str:
    """score_to_tier -> ScoreToTier"""
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", name))


def _made(handler: RewardHandler, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        (found,), parts = msgspec.json.schema_components([handler.Config], ref_template=prefix + "{name}")
    except (TypeError, AttributeError):  # A plugin's config may be of a type of its own: it is an object.
        return dict(_ANY), {}
    name = str(found.get("$ref", "")).removeprefix(prefix)
    # The config itself is what is asked for: said at the top, not referred to.
    return (parts.pop(name), parts) if name in parts else (found, parts)
