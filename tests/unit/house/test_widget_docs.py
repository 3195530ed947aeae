"""docs/reference/widget.md and the declarations say what the element has: no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from runtime import web

WIDGET = Path(web.__file__).parent / "widget"
DOCS = (Path(__file__).parents[3] / "docs/reference/widget.md").read_text()
DECLARED = (WIDGET / "v1" / "tombola.d.ts").read_text()
SOURCES = {path.relative_to(WIDGET).as_posix(): path.read_text() for path in WIDGET.rglob("*.js")}
ELEMENT = SOURCES["tombola.js"]


def found(pattern: str, *texts: str) -> set[str]:
    return {name for text in texts for name in re.findall(pattern, text, re.MULTILINE)}


def section(begin: str, end: str, text: str) -> str:
    return text.partition(begin)[2].partition(end)[0]


def test_attributes_are_all_documented_and_declared() -> None:
    attributes = found(r'getAttribute\("([\w-]+)"\)', ELEMENT) | found(
        r":host\(\[(?!hidden)(\w+)\]\)", *SOURCES.values()
    )
    observed = section("observedAttributes = [", "]", ELEMENT)
    assert found(r'"([\w-]+)"', observed) <= attributes
    assert found(r"^\| `([\w-]+)` \|", section("| Attribute |", "\n\n", DOCS)) == attributes
    declared = section("interface TombolaAttributes {", "}", DECLARED)
    assert found(r'^  "?([\w-]+)"?\??:', declared) == attributes


def test_events_are_all_documented_and_declared() -> None:
    actual = found(r"^\| `tombola:(\w+)` \|", DOCS)
    assert found(r'^  "tombola:(\w+)":', DECLARED) == actual
    assert found(r'tell\("(\w+)"', *SOURCES.values()) <= actual


def test_methods_are_all_documented_and_declared() -> None:
    methods = found(r"^  (?:async )?(\w+)\(.*\) \{$", ELEMENT) - {"constructor"}
    methods = {name for name in methods if not name.endswith("Callback")}
    assert methods == found(r"^  (\w+)\(\): Promise", DECLARED)
    assert all(f"`{name}()`" in DOCS for name in methods)


def test_parts_slots_and_properties_are_all_documented() -> None:
    sources = list(SOURCES.values())
    parts = section("\nParts:", "Slots:", DOCS)
    assert found(r"`(\w+)`", parts) == found(r'\bpart: "(\w+)"', *sources)
    slots = section("Slots:", ".", DOCS)
    assert found(r"`(\w+)`", slots) == found(r'"slot", \{ name: "(\w+)"', *sources)
    own = found(r'"(\w+)"', section("const OWN = [", "]", ELEMENT)) | found(r"var\(--tombola-(\w+)", *sources)
    assert found(r"--tombola-(\w+):", DOCS) == own
