"""Vague words (tests/vocabulary.toml), absent pages, faults without a test, and the lint of the tests."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ops.proof import faults, lint

ROOT = Path(__file__).parents[3]
GROUPS = tomllib.loads((ROOT / "tests/vocabulary.toml").read_text())
SKIPPED = re.compile(
    r"/(built|vendor|node_modules|__pycache__)/|\.(json|png|binpb|pyc)$|^runtime/messages/(game|google|comments|behavior)"
    r"|^docs/reference/(audit|commands|errors|events|faults|roles|settings)\.md"
)
"""Built, vendored and generated files. The sources of the generated ones are counted."""

ABSENT = r"(spec|contract|design|stack|style)\.md"
"""Pages that are not part of the project."""


@cache
def lines() -> list[tuple[str, str]]:
    """(place, line) of every line that is written by hand."""
    paths = sorted(path for folder in ("runtime", "sql", "ops", "docs") for path in (ROOT / folder).rglob("*"))
    names = {path: str(path.relative_to(ROOT)) for path in paths if path.is_file() and not path.is_symlink()}
    return [
        (f"{name}:{number}", line)
        for path, name in names.items()
        if not SKIPPED.search(name)
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1)
    ]


def places(pattern: str) -> list[str]:
    compiled = re.compile(rf"\b({pattern})\b", re.IGNORECASE)
    return [f"{place}: {match[0]}" for place, line in lines() for match in compiled.finditer(line)]


@pytest.mark.parametrize("group", GROUPS)
def test_vague_words_stay_within_their_maximum(group: str) -> None:
    maximum = GROUPS[group]["maximum"]
    found = places("|".join(GROUPS[group]["words"]))
    assert len(found) <= maximum, "\n".join([f"{len(found)} > {maximum}; see tests/vocabulary.toml:", *found])


def test_repository_cites_no_absent_page_and_its_tests_pass_the_lint() -> None:
    assert places(ABSENT) == []
    assert list(map(str, lint.lint(lint.sources()))) == []


def test_fault_has_a_test() -> None:
    assert faults.problems(faults.rows(), faults.proofs()) == []
