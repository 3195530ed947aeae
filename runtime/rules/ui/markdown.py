"""Renders the limited Markdown of page texts: paragraphs, lists, bold, italics and https links. Anything else is text.

`widget/prose.js` renders the same in browsers; both are tested with tests/support/pages/prose.json.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

_RULES: Final = ("list", "emphasis", "link", "escape", "newline")
_LINK: Final = re.compile(r"https://[^\s\"'<>\\^`{|}]+")


def html_of(text: str) -> str:
    """The HTML of a text. Tags in it are shown as text."""
    rendered: str = _parser().render(text)
    return rendered


def is_link(text: str) -> bool:
    """Whether the whole text is an https URL."""
    return _LINK.fullmatch(text.strip()) is not None


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("zero", {"breaks": True}).enable(list(_RULES))
    parser.validateLink = is_link  # type: ignore[method-assign, assignment]
    parser.add_render_rule("link_open", _link_open)
    return parser


def _link_open(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, _: MutableMapping[str, Any]
) -> str:
    tokens[at].attrSet("rel", "noopener")
    return renderer.renderToken(tokens, at, options, {})
