"""docs/reference/glossary.md: each term has a meaning and a module that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| `([\w/.]+)` \|$")


def test_glossary_names_modules_that_exist() -> None:
    lines = (ROOT / "docs/reference/glossary.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| Term ")]
    assert len(rows) >= 60
    assert [row for row in rows if not ROW.match(row)] == []
    modules = [found[3] for row in rows if (found := ROW.match(row))]
    assert [module for module in modules if not (ROOT / module).exists()] == []


def test_glossary_defines_each_term_once() -> None:
    rows = map(ROW.match, (ROOT / "docs/reference/glossary.md").read_text().splitlines())
    terms = [term for row in rows if row and row[1] != "Term" for term in row[1].split(", ")]
    assert sorted(term for term in set(terms) if terms.count(term) > 1) == []
