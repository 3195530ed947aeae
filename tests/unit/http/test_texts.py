import json
import os
import re
import shutil
import subprocess
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from runtime import messages as m
from runtime import web
from runtime.errors import Fault
from runtime.rules.ui.markdown import html_of
from runtime.wire import codec
from runtime.wire.schema import UNSEEN, check, fields_of
from runtime.wire.times import unix
from tests.support.browsing import REQUIRED

REFUSED = {"a bell": "a\x07b", "a C1 control": "a\x9bb", "an override of the direction": "\u202eevil"}
REFUSED |= {"a zero-width space": "a\u200bb", "a byte order mark": "\ufeffa", "a paragraph separator": "a\u2029b"}
REFUSED |= {"an interlinear annotation": "a\ufff9b", "a noncharacter": "a\uffff"}
BREAKS = {"a line break": "a\nb", "a carriage return": "a\rb", "a tab": "a\tb"}
WELCOME = {"joiners of an emoji": "👩‍👩‍👧‍👦🏳️‍🌈"}
WELCOME |= {"tags of a flag": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"}
WELCOME |= {"a joiner that Persian needs": "می\u200cخواهم", "the mark of a direction": "a\u200fb"}
WELCOME |= {"combining marks": "e\u0301", "another space": "a\u00a0b\u3000c", "what no font has": "\U0010fffd\ue000"}
WELCOME |= {"the sign for what was lost": "a\ufffdb\ufffc"}


def refused(text: str, message: type[m.Prize | m.Quest] = m.Prize, name: str = "name") -> bool:
    try:
        codec.read(message, {name: text})
    except Fault as fault:
        assert [row["field"] for row in fault.facts["violations"]] == [name]
        with pytest.raises(Fault):
            check(message(**{name: text}))
        return True
    check(message(**{name: text}))
    return False


@pytest.mark.parametrize("text", [*REFUSED.values(), *BREAKS.values()], ids=[*REFUSED, *BREAKS])
def test_text_of_one_line_refuses_what_cannot_be_seen(text: str) -> None:
    assert refused(text)
    assert refused(f"é {text}")


@pytest.mark.parametrize("text", WELCOME.values(), ids=list(WELCOME))
def test_text_may_hold_what_scripts_and_emoji_need(text: str) -> None:
    assert not refused(text)
    assert not refused(f"{text}\u200d")


def test_text_of_several_lines_has_line_breaks_and_tabs_and_nothing_else_of_the_kind() -> None:
    for text in BREAKS.values():
        assert not refused(text, m.Quest, "description")
    for text in REFUSED.values():
        assert refused(text, m.Quest, "description")


def test_refused_characters_are_not_printable() -> None:
    found = [chr(code) for code in range(0x110000) if re.match(f"[{UNSEEN}]", chr(code))]
    assert not [one for one in found if one.isprintable()]
    controls = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp")}
    assert controls <= set(found)


def test_text_that_is_not_shown_may_be_anything_storable() -> None:
    for message, name in ((m.ImportCodesRequest, "codes"), (m.VerifyCallbackRequest, "body")):
        field = fields_of(message)[name]
        assert not [text for text in REFUSED.values() if field.text_problem(text)]
        assert field.text_problem("a\0b") and field.text_problem("a\ud83d")


EXAMPLES: Final[list[list[str]]] = json.loads(Path("tests/support/pages/prose.json").read_text())


def test_markdown_is_rendered_as_in_the_examples() -> None:
    rendered = {text: re.sub(r"\n| rel=\"noopener\"", "", html_of(text)) for text, _ in EXAMPLES}
    assert {text: html.replace("&quot;", '"') for text, html in rendered.items()} == dict(EXAMPLES)


def test_markdown_of_nested_marks_does_not_grow() -> None:
    for part in ("*", "**a", "[", "[a](", "- ", "_a", "\\", "1. "):
        assert len(html_of(part * (20_000 // len(part)))) < 1_000_000


TIMES = [
    ("2026-11-28T21:00Z", "2026-11-28T23:00Z", "UTC", "in 2 hours"),
    ("2026-11-28T22:00Z", "2026-11-29T23:00Z", "UTC", "tomorrow"),  # 25 hours.
    ("2026-11-28T08:00Z", "2026-11-29T23:00Z", "UTC", "tomorrow"),  # 39 hours, nearer to two days than to one.
    ("2026-11-28T22:00Z", "2026-11-29T23:00Z", "Europe/Berlin", "in 2 days"),  # 00:00 on the 30th there.
    ("2026-11-28T22:00Z", "2026-11-30T01:00Z", "UTC", "in 2 days"),  # 27 hours.
    ("2026-10-24T21:59Z", "2026-10-26T21:00Z", "Europe/Berlin", "in 2 days"),  # Over the end of summer time.
    ("2026-11-28T08:00Z", "2026-11-26T23:00Z", "UTC", "2 days ago"),  # 33 hours.
    ("2026-11-28T22:00Z", "2026-11-28T21:00:30Z", "UTC", "59 minutes ago"),
    ("2026-11-28T22:00:00Z", "2026-11-28T22:00:59Z", "UTC", ""),
]
AMOUNTS: list[tuple[list[dict[str, Any]], str]] = [
    *(([], "0"), ([{"amount": 6, "currency": ""}], "6")),
    ([{"amount": 6, "currency": ""}, {"amount": 5.5, "currency": "EUR"}], "5.5\u00a0EUR and 6 without a currency"),
]


# Hours that are skipped, that come twice, and others near them.
LOCAL = [("2026-03-08T02:30", "America/New_York"), ("2026-11-01T01:30", "America/New_York")]
LOCAL += [("2026-09-06T00:00", "America/Santiago"), ("2026-10-04T02:15", "Australia/Lord_Howe")]
LOCAL += [(f"2026-{day}T02:30", "Europe/Berlin") for day in ("03-28", "03-29", "03-30", "10-24", "10-25", "10-26")]


def run(script: str, folder: Path) -> Any:
    """The JSON that a script prints, with the dashboard's modules beside it."""
    if shutil.which("node") is None and not os.environ.get(REQUIRED):
        pytest.skip("there is no node to run the dashboard's modules")
    for name in ("local_times.js", "relative_time.js", "words.js", "words/en.js"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(Path(web.__file__).parent / "dashboard" / name, folder / name)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(script)
    shown = subprocess.run(["node", "script.js"], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return json.loads(shown.stdout)


def test_relative_time_counts_calendar_days_of_the_zone(tmp_path: Path) -> None:
    cases = [[datetime.fromisoformat(one).timestamp() for one in case[:2]] + [case[2]] for case in TIMES]
    script = 'import { relative } from "./relative_time.js";\n'
    script += f"console.log(JSON.stringify({json.dumps(cases)}.map(([now, at, zone]) => relative(at, now, zone))));"
    assert run(script, tmp_path) == [case[3] for case in TIMES]


def test_local_time_of_an_input_is_the_one_of_the_commands(tmp_path: Path) -> None:
    script = 'import { fromInput } from "./local_times.js";\n'
    script += f"console.log(JSON.stringify({json.dumps(LOCAL)}.map(([text, zone]) => fromInput(text, zone))));"
    assert run(script, tmp_path) == [unix(datetime.fromisoformat(text), ZoneInfo(zone)) for text, zone in LOCAL]


def test_amounts_are_each_shown_with_their_currency(tmp_path: Path) -> None:
    script = 'import { moneys } from "./words.js";\n'
    script += f"console.log(JSON.stringify({json.dumps([costs for costs, _ in AMOUNTS])}.map((one) => moneys(one))));"
    assert run(script, tmp_path) == [shown for _, shown in AMOUNTS]
