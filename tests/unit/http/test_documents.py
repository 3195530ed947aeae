"""YAML whose values know their lines."""

import pytest
import yaml

from runtime.commands.documents import InvalidFile, parse, write


def test_value_knows_its_line() -> None:
    document = parse("x.yaml", "a: 1\nb:\n  - c: {d: 2}\n  - e\nf: 2026-03-01T00:00:00Z\n")
    assert document.value == {"a": 1, "b": [{"c": {"d": 2}}, "e"], "f": "2026-03-01T00:00:00Z"}
    assert [document.line_of(path) for path in ("a", "b", "b[0].c.d", "b[1]", "f")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("path", "line"), [("b[0].c.x.y", 2), ("b[0].x", 2), ("b[7]", 1), ("b[7].c", 1), ("x", 1), ("", 1)]
)
def test_missing_value_has_the_line_of_its_parent(path: str, line: int) -> None:
    assert parse("x.yaml", "b:\n  - c: {d: 2}\n").line_of(path) == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2", "x.yaml:2: is not YAML"),
        ("a: 1\nb: 2\na: 3", "x.yaml:3: a: must not be repeated; it is already on line 1"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "x.yaml:3: c: a field's name must be plain text"),
        ("? [1, 2]\n: 3", "x.yaml:1: a field's name must be plain text"),
        ("a: !!python/object:os.system {}", "x.yaml:1:"),
        ("a: &x [*x]", "x.yaml:1:"),
        ("\ta: 1", "x.yaml:1: is not YAML"),
        ("a: 1\n---\nb: 2", "x.yaml:2: is not YAML"),
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


def test_written_document_reads_the_same() -> None:
    value = {
        "name": "Visit: the stall",
        "text": "two\nlines",
        "rows": [{"a": 1.5, "b": True}, []],
        "no": "no",
        "x": "1",
    }
    assert yaml.safe_load(write(value)) == parse("x.yaml", write(value)).value == value
