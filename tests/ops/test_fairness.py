"""docs/explanation/fairness.md claims nothing of a proof that no test shows."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/fairness.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_claims_of_the_page_name_tests_that_exist() -> None:
    covered = PAGE.partition("## What it covers")[2].partition("\n## ")[0]
    claims = [line for line in covered.splitlines() if line.startswith("|")][2:]
    assert len(claims) > 10
    assert not [claim for claim in claims if not NAMED.search(claim)]
    for file, name in NAMED.findall(PAGE):
        tree = ast.parse((ROOT / file).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in there, f"{file}::{name}"
