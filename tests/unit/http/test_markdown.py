"""The limited Markdown of page texts. tests/browser/test_page_texts.py holds the widget to the same examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from runtime.http.pages.markdown import html_of

EXAMPLES: Final[list[list[str]]] = json.loads(Path("tests/support/pages/prose.json").read_text())


def test_markdown_is_rendered_as_in_the_examples() -> None:
    rendered = {text: re.sub(r"\n| rel=\"noopener\"", "", html_of(text)) for text, _ in EXAMPLES}
    assert {text: html.replace("&quot;", '"') for text, html in rendered.items()} == dict(EXAMPLES)


def test_markdown_takes_time_linear_in_its_length() -> None:
    """Texts of the largest size, of what makes naive parsers slow."""
    for part in ("*", "**a", "[", "[a](", "- ", "_a", "\\", "1. "):
        assert len(html_of(part * (20_000 // len(part)))) < 1_000_000
