from typing import Any

import pytest
import yaml
from cyclopts import App

from ops.commands import command_of
from runtime.commands import builder, facts
from runtime.commands.documents import InvalidFile, parse, write
from runtime.commands.facts import Kind
from runtime.commands.groups import OPERATOR_COMMANDS
from runtime.commands.templates import fill, with_enum_words
from runtime.operations import BY_NAME
from runtime.operations.row import Command


@pytest.mark.parametrize("group", OPERATOR_COMMANDS)
def test_group_has_commands_of_its_own(group: str) -> None:
    app = getattr(builder, group.replace("-", "_"))
    assert isinstance(app, App) and app.name == (group,)
    assert app.default_command is not None or [name for name in app if not name.startswith("-")]


def test_commands_of_the_rows_are_all_in_a_group() -> None:
    assert {command.words.split()[0] for command in facts.commands()} <= OPERATOR_COMMANDS.keys()


@pytest.mark.parametrize(
    "said",
    [
        *(Command("prizes list --colour", ""), Command("prizes list --most!?", "")),
        *(Command("prizes list", "", columns="colour"), Command("prizes list", "", columns="left={:rest}")),
        Command("prizes list", "", columns="left={name:day-ish}"),
        *(Command("prizes list --q", "", confirm="List {name}?"), Command("prizes list", "", outcome="{colour}")),
        Command("prizes list", "", unless="delivered"),
    ],
    ids=lambda said: said.usage + said.columns + said.confirm + said.outcome + said.unless,
)
def test_command_that_its_proto_does_not_bear_out_is_refused(said: Command) -> None:
    with pytest.raises(AssertionError, match="ListPrizeSummary"):
        command_of(BY_NAME["ListPrizeSummary"], said)


def test_usage_says_what_is_typed_and_which_field_it_sets() -> None:
    usage = "codes expire PRIZE CODES...=ids --until=expires_at --[no-]never --reason!"
    made = command_of(BY_NAME["ExpireCodes"], Command(usage, ""))
    assert [(one.name, one.kind, one.field, one.argument, one.needed) for one in made.parameters] == [
        *(("prize", Kind.TEXT, "", True, True), ("codes", Kind.MANY, "ids", True, False)),
        *(("until", Kind.END, "expires_at", False, False), ("never", Kind.FLAG, "never", False, False)),
        *(("reason", Kind.TEXT, "reason", False, True), ("key", Kind.KEY, "", False, False)),
    ]
    assert [one.negatable for one in made.parameters] == [False, False, False, True, False, False]


@pytest.mark.parametrize(
    ("text", "item", "shown"),
    [
        *(("{name}", {"name": None}, ""), ("{roles}", {"roles": ["admin", "designer"]}, "admin, designer")),
        ("{config.url}", {"config": {"url": "https://a.example"}}, "https://a.example"),
        ("{config.url}", {"config": None}, ""),
        ("{amount:+}, {left:,} left", {"amount": 5, "left": 1200}, "+5, 1,200 left"),
        ("{http_status:some} {error}", {"http_status": 0, "error": "away"}, "away"),
        ("{at:day} {at:minute}|{no:minute}", {"at": 1_800_000_000, "no": 0}, "2027-01-15 2027-01-15 08:00:00Z|"),
        *(("{total:stock}", {"total": 0}, "unlimited"), ("{:remaining}", {"total": 5, "remaining": 2}, "2 of 5")),
        ("{:pool}", {"channel": "none", "codes_available": 0}, ""),
        ("{:player_status}", {"merged_into": "player_b", "erased_at": 0, "status": "active"}, "merged into player_b"),
        ("{:player_status}", {"merged_into": "", "erased_at": 1, "status": "active"}, "erased"),
        ("{:ending}", {"revoked_at": 0, "expires_at": 86_400}, "1970-01-02"),
        ("{:ending}", {"revoked_at": 86_400, "expires_at": 0}, "revoked 1970-01-02"),
        ("{:changed}", {"before": {"a": 1, "b": 1}, "after": {"b": 2, "c": 1}}, "a, b, c"),
        ("{budget:budget} {budget:used}", {"budget": None}, ""),
        ("{budget:budget}", {"budget": {"amount": 50, "currency": "EUR"}}, "50.00 EUR"),
        ("{budget:used}", {"budget": {"amount": 50, "used": 5, "used_at": 1}}, "10%"),
        ("{condition:condition}", {"condition": None}, "on request"),
        ("{state:code_state}", {"state": "CODE_STATE_UNSPECIFIED"}, "unknown"),
        ("{:which_codes} {:until_when}", {"all_free": True, "never": True}, "every free code never"),
        *(("{:which_codes}", {"codes": ("a", "b")}, "2 codes"), ("{:until_when}", {"never": "", "until": "5"}, "5")),
    ],
)
def test_text_shows_fields_in_their_forms(text: str, item: dict[str, Any], shown: str) -> None:
    assert fill(text, item) == shown


def test_enums_are_shown_as_words() -> None:
    found = with_enum_words({"status": "TASK_STATUS_DEAD", "id": "t"}, {"status": "TASK_STATUS_", "way": "WAY_"})
    assert found == {"status": "dead", "id": "t"}


def test_value_knows_its_line_or_that_of_its_parent_and_reads_as_it_was_written() -> None:
    document = parse("x.yaml", "a: 1\nb:\n  - c: {d: 2}\n  - e\nf: 2026-03-01T00:00:00Z\n")
    assert document.value == {"a": 1, "b": [{"c": {"d": 2}}, "e"], "f": "2026-03-01T00:00:00Z"}
    assert [document.line_of(path) for path in ("a", "b", "b[0].c.d", "b[1]", "f")] == [1, 2, 3, 4, 5]
    missing = ("b[0].c.x.y", "b[0].x", "b[7]", "b[7].c", "x", "")
    assert [document.line_of(path) for path in missing] == [3, 3, 2, 2, 1, 1]
    value = {"name": "Visit: the stall", "text": "two\nlines", "rows": [{"a": 1.5, "b": True}, []], "no": "no"}
    value |= {"x": "1"}
    assert yaml.safe_load(write(value)) == parse("x.yaml", write(value)).value == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2", "x.yaml:2: is not YAML"),
        ("a: 1\nb: 2\na: 3", "x.yaml:3: a: must not be repeated; it is already on line 1"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "x.yaml:3: c: a field's name must be plain text"),
        ("? [1, 2]\n: 3", "x.yaml:1: a field's name must be plain text"),
        *(("a: !!python/object:os.system {}", "x.yaml:1:"), ("a: &x [*x]", "x.yaml:1:")),
        *(("\ta: 1", "x.yaml:1: is not YAML"), ("a: 1\n---\nb: 2", "x.yaml:2: is not YAML")),
    ],
)
def test_unreadable_yaml_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse("x.yaml", text)
    assert caught.value.lines[0].startswith(message)


def test_aliases_cannot_make_a_small_file_huge() -> None:
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidFile, match="must not have more than"):
        parse("x.yaml", "\n".join(rows))
