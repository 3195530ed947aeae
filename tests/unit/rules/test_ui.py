import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from runtime.rules.ui import (
    ALL_PROBLEMS_BYTES_MAX,
    SHOWN_MAX,
    problems,
    problems_of_settings,
    schema_text,
    themes,
    with_preset,
)

PIXEL = "data:image/png;base64,iVBORw0KGgo="
SVG = "data:image/svg+xml;base64,PHN2Zz4="


def wrong(ui: Any) -> list[str]:
    return [path for path, _ in problems("ui", ui)]


def test_ui_schema_is_valid_json_schema_2020_12() -> None:
    schema = json.loads(schema_text())
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "ui",
    [
        *({}, {"egg": {"image": "egg.png"}}, {"egg": 1, "background": "beach.png", "items": "none", "prizes": 3}),
        {"whatever": {"image": "javascript:alert(1)"}, "theme": {"other": [1]}, "wheel": {"speed": 3}},
        {"theme": {"primary": "#fff", "accent": "rgb(1 2 3 / 50%)", "mode": "dark"}},
        {"theme": {"radius": "1rem", "font": "Inter, serif"}},
        {"theme": {"primary": "teal", "accent": "hsl(18 88% 40%)", "preset": "ocean"}},
        {"theme": None, "wheel": {"segments": None}, "background": {"image": "", "color": None}},
        {"wheel": {"segments": [{"prize_id": "prize_1", "label": "Mug", "emoji": "☕", "color": "#c2410c80"}, {}]}},
        {"wheel": {"segments": [{"image": "https://brand.example:8443/a/b.png?c=d&e=%20#f"}, {"image": PIXEL}]}},
        {"picture": "https://brand.example/a.png", "description": "Turn it.\nWin."},
        {"items": {"clover": {"emoji": "🍀", "image": PIXEL}}, "prizes": [{"prize_id": "p", "emoji": "🎁"}]},
        {"texts": {"spin": "Turn!", "left": {"one": "{count} turn", "other": "{count} turns"}}},
    ],
)
def test_ui_accepts_known_valid_parts_and_unknown_parts(ui: dict[str, Any]) -> None:
    assert wrong(ui) == []


@pytest.mark.parametrize(
    ("ui", "path"),
    [
        *(({"theme": []}, "ui.theme"), ({"theme": {"primary": 3}}, "ui.theme.primary")),
        ({"theme": {"primary": "red; background: url(//evil.test)"}}, "ui.theme.primary"),
        ({"theme": {"primary": "#12345"}}, "ui.theme.primary"),
        ({"theme": {"primary": "red\n"}}, "ui.theme.primary"),
        ({"theme": {"accent": "rgb(" + "1" * 70 + ")"}}, "ui.theme.accent"),
        ({"theme": {"font": "x; } body { display: none"}}, "ui.theme.font"),
        ({"theme": {"radius": "calc(1px)"}}, "ui.theme.radius"),
        *(({"theme": {"preset": "nosuch"}}, "ui.theme.preset"), ({"theme": {"mode": "loud"}}, "ui.theme.mode")),
        ({"background": {"image": "javascript:alert(1)"}}, "ui.background.image"),
        ({"background": {"image": "http://brand.example/a.png"}}, "ui.background.image"),
        ({"background": {"image": "https://user@evil.test/a.png"}}, "ui.background.image"),
        ({"background": {"image": 'https://brand.example/a.png") no-repeat, url("//evil.test'}}, "ui.background.image"),
        ({"background": {"image": "https://brand.example/" + "a" * 2_048}}, "ui.background.image"),
        ({"background": {"image": "data:text/html;base64,PHNjcmlwdD4="}}, "ui.background.image"),
        ({"background": {"image": SVG}}, "ui.background.image"),
        ({"background": {"image": "data:image/png;base64," + "A" * 50_000}}, "ui.background.image"),
        ({"background": {"emoji": "x" * 65}}, "ui.background.emoji"),
        *(({"picture": {"image": SVG}}, "ui.picture.image"), ({"picture": "file:///etc/passwd"}, "ui.picture")),
        *(({"wheel": 3}, "ui.wheel"), ({"wheel": {"segments": [{}] * 101}}, "ui.wheel.segments")),
        ({"wheel": {"segments": [{}, {}, {"color": "red;"}]}}, "ui.wheel.segments[2].color"),
        ({"wheel": {"segments": [{"label": {"html": "<b>"}}]}}, "ui.wheel.segments[0].label"),
        ({"wheel": {"segments": [{"prize_id": 3}]}}, "ui.wheel.segments[0].prize_id"),
        ({"items": [{"image": SVG}]}, "ui.items[0].image"),
        *(({"items": {"clover": {"image": SVG}}}, "ui.items.clover.image"), ({"scratch": []}, "ui.scratch")),
        *(({"catcher": {"color": "x()"}}, "ui.catcher.color"), ({"catcher": {"lives": 0}}, "ui.catcher.lives")),
        *(({"catcher": {"most": 2.5}}, "ui.catcher.most"), ({"texts": {"spin": 3}}, "ui.texts.spin")),
        *(({"texts": {"left": {"one": []}}}, "ui.texts.left.one"), ({"description": 3}, "ui.description")),
    ],
)
def test_known_part_that_is_wrong_or_unsafe_is_named(ui: dict[str, Any], path: str) -> None:
    found = list(problems("ui", ui))
    assert [name for name, _ in found] == [path]
    assert len(found[0][1]) < 250 and "evil" not in found[0][1], "what was sent is not said back"


def test_problems_are_reported_together_up_to_a_bound() -> None:
    found = wrong({"theme": {"primary": 1, "accent": 2}, "scratch": 3})
    assert found == ["ui.theme.primary", "ui.theme.accent", "ui.scratch"]
    assert len(wrong({"items": [{"color": 1}] * 300})) == SHOWN_MAX
    large = {"items": [{"color": 1}] * 5_000}
    assert len(msgspec.json.encode(large)) > ALL_PROBLEMS_BYTES_MAX
    assert wrong(large) == ["ui.items[0].color"]


def test_campaign_settings_are_checked_only_where_pages_read_them() -> None:
    settings = {"theme": {"primary": "x;"}, "wheel": 3, "texts": 4, "background": {"image": SVG}}
    found = [path for path, _ in problems_of_settings(settings)]
    assert found == ["settings.theme.primary", "settings.background.image"]
    found = [path for path, _ in problems_of_settings({"theme": "leaf", "picture": "http://a.test/b.png"})]
    assert found == ["settings.theme", "settings.picture"] and problems_of_settings(None) == []


WHITE, INK = "#ffffff", "#10111a"
"""What the widget writes with (widget/look.js)."""


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_themes_are_the_six_that_the_schema_names() -> None:
    schema = json.loads(schema_text())
    named = [name for name in schema["$defs"]["theme"]["properties"]["preset"]["enum"] if name]
    assert list(themes()) == named and len(named) == 6
    assert all(name in schema["$defs"]["theme"]["properties"]["preset"]["description"] for name in named)


@pytest.mark.parametrize("name", list(themes()))
def test_theme_is_legible_and_valid_as_a_games_own(name: str) -> None:
    theme = themes()[name]
    assert wrong({"theme": theme["theme"], "background": theme["background"]}) == []
    primary, accent, ground = theme["theme"]["primary"], theme["theme"]["accent"], theme["background"]["color"]
    text = WHITE if theme["theme"]["mode"] == "dark" else INK
    assert contrast(text, ground) >= 7
    assert contrast(primary, ground) >= 4.5, "words in the first colour"
    assert max(contrast(primary, INK), contrast(primary, WHITE)) >= 4.5, "words on it"
    assert max(contrast(accent, INK), contrast(accent, WHITE)) >= 4.5
    assert contrast(primary, accent) >= 1.5, "neighbours on a wheel"


def test_named_theme_fills_in_omitted_parts() -> None:
    ocean = themes()["ocean"]
    own = {"theme": {"preset": "ocean", "primary": "red"}, "background": {"emoji": "🐟"}, "egg": 1}
    assert with_preset(own) == {
        "theme": {**ocean["theme"], "preset": "ocean", "primary": "red"},
        "background": {**ocean["background"], "emoji": "🐟"},
        "egg": 1,
    }
    found = with_preset({"theme": {"preset": "ocean"}})
    assert found == {"theme": {**ocean["theme"], "preset": "ocean"}, "background": ocean["background"]}
    for as_it_is in ({"theme": {"primary": "red"}}, {"theme": {"preset": []}}, {"theme": 3}, {"theme": None}, {}, None):
        assert with_preset(as_it_is) == as_it_is
    assert with_preset({"theme": {"preset": "ocean"}, "background": "beach.png"})["background"] == "beach.png"  # type: ignore[index]
