"""The README and the pages of docs/ are true: what they name exists. Their commands are run by test_pages.py."""

import ast
import html
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ops.generate import pages
from ops.ready import welcome
from runtime.commands import builder
from runtime.groups import GROUPS, ConsumerGroup

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = README + "".join((ROOT / "docs/how-to" / name).read_text() for name in ("listen-to-events.md", "plugins.md"))
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
NAMED = re.compile(r"(?:`|\]\(|\s)(?:\.{1,2}/)?((?:runtime|sql|ops|tests|docs)/[\w./-]*\w/?)")
STARTS = ("./ops/up", "./ops/test", "./ops/bench")
SIGNS = "BODY="
"""How the signed call of an event of a quest begins, which acceptance/campaigns/test_quest_events.py runs."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", EXAMPLES, re.MULTILINE | re.DOTALL)


def at(text: str, ready: dict[str, Any]) -> str:
    for port, url in (("8080", "core_url"), ("8081", "consumer_url"), ("8082", "admin_url")):
        text = text.replace(f"http://127.0.0.1:{port}", ready[url])
    return text


def test_imports_of_the_examples_are_installed_by_ops_up() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["embedded"]]
    installed = {re.split(r"[\[=<>; ]", package)[0].lower() for package in listed}
    for program in blocks("python"):
        for node in ast.walk(ast.parse(program)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, *installed, "runtime"}


def test_readme_is_short_and_its_links_exist() -> None:
    assert len(README) <= 7_000
    assert re.search(r"^!\[.+\]\(docs/pictures/up\.svg\)$", README, re.MULTILINE), "its picture"
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert linked and not [name for name in linked if not (ROOT / name).exists()]


def test_paths_named_by_the_pages_exist() -> None:
    named = {path for page in PAGES for path in NAMED.findall(page.read_text()) if "NAME" not in path}
    made_up = {path for path in named if path == "ops/.env" or Path(path).stem in ("notes", "test_notes")}
    assert len(named) > 40
    assert [path for path in sorted(named - made_up) if not (ROOT / path).exists()] == []


def test_architecture_page_names_every_package() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text()
    rooms = [f"`runtime/{path.name}/`" for path in (ROOT / "runtime").iterdir() if any(path.glob("*.py"))]
    rooms += [f"`{path.name}`" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))]
    assert len(rooms) > 15
    assert [room for room in rooms if room not in text] == []


def test_picture_of_the_readme_shows_the_output_of_ops_up() -> None:
    drawn = (ROOT / "docs/pictures/up.svg").read_text()
    shown = re.sub(r"\s", " ", html.unescape(re.sub(r"<[^>]+>", "", drawn)))
    ready = {"core_url": "", "consumer_url": "", "admin_url": "", "rpc_address": "", "tenant_id": "", "admin_token": ""}
    labels = re.findall(r"^  ([A-Z]\w+(?: \w+)?)(?:  |$)", welcome(ready, 0.0, ""), re.MULTILINE)
    assert len(labels) >= 5
    assert [label for label in labels if label not in shown] == []
    assert "Tombola is up" in shown and "seed_hash" in shown
    assert not re.search(r"@font-face|@import|(url\(|href=.)https?:", drawn), "it loads nothing"


def test_commands_named_by_the_pages_exist() -> None:
    named = {found for page in PAGES for found in re.findall(r"`tombola ([a-z]+) ([a-z][a-z-]+)\b", page.read_text())}
    assert len(named) >= 5
    for command, verb in named - {("worker", name) for name in GROUPS}:
        assert verb in getattr(builder, command), f"{command} {verb}"


def test_plugin_of_the_page_is_a_reward_handler(tmp_path: Path) -> None:
    (tmp_path / "double_or_nothing.py").write_text(plugin())
    program = (
        "from runtime.registry import load_plugins; from runtime.rules import *\n"
        "load_plugins(['double_or_nothing'])\n"
        "rules = compose('none', 'double_or_nothing', 'basic', {'prize_id': 'prize_1'})\n"
        "def attempt(seed):\n"
        "    return Attempt(rules.config, GameRule(), Words(seed), {}, (), lambda prize_id, quantity: True)\n"
        "won = [rules.reward_handler.decide(attempt(bytes([n] * 32))).awards for n in range(100)]\n"
        "assert {len(awards) for awards in won} == {0, 1} and {a.quantity for awards in won for a in awards} == {2}\n"
        "assert rules.reward_handler.odds(rules.config) == [(0.5, [Award('prize_1', 2)])]\n"
        "print('ok')"
    )
    assert run([sys.executable, "-c", program], tmp_path).stdout == "ok\n"


def test_generated_pages_equal_the_committed_ones() -> None:
    stale = [name for name, text in pages().items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "run `python -m ops.generate`"


def plugin() -> str:
    return next(block for block in blocks("python") if "def register" in block)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environ = {"PATH": path, "PYTHONPATH": f"{ROOT}:{folder}", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_architecture_page_names_each_group() -> None:
    reading = [group.name for group in GROUPS.values() if group.stream is not None]
    picture = (ROOT / "docs/pictures/architecture.svg").read_text()
    assert [name for name in reading if name.capitalize() not in picture] == []
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    assert f"| the consumer groups: {', '.join(GROUPS)} |" in page, "the table of rooms"


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_group_loads_the_coroutine_that_its_row_names(group: ConsumerGroup) -> None:
    run = group.load()
    assert inspect.iscoroutinefunction(run)
    assert [*inspect.signature(run).parameters][:2] == ["engine", "stop"]


def test_group_streams_are_one_per_shard_with_the_shard_as_hash_tag() -> None:
    for group in GROUPS.values():
        streams = group.streams(3)
        assert len(set(streams)) == (3 if group.stream is not None else 0)
        assert all(f"{{{shard}}}" in stream for shard, stream in enumerate(streams))


def pins(lines: list[str]) -> dict[str, str]:
    """{normalised name: version} of the lines that pin one."""
    found = (re.fullmatch(r"([\w.-]+)(?:\[.*\])?==(\S+)", line.strip()) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in found if match}


def test_constraints_and_project_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    constraints = pins((ROOT / "ops/constraints.txt").read_text().splitlines())
    wanted = pins(named)
    assert wanted.items() <= constraints.items()
    assert len(wanted) == len({line for line in named if not line.startswith("tombola[")})


def test_constraints_name_no_host() -> None:
    assert "://" not in (ROOT / "ops/constraints.txt").read_text()


FAIRNESS = (ROOT / "docs/explanation/fairness.md").read_text()
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_claims_of_the_page_name_tests_that_exist() -> None:
    covered = FAIRNESS.partition("## What it covers")[2].partition("\n## ")[0]
    claims = [line for line in covered.splitlines() if line.startswith("|")][2:]
    assert len(claims) > 10
    assert not [claim for claim in claims if not PROOF.search(claim)]
    for file, name in PROOF.findall(FAIRNESS):
        tree = ast.parse((ROOT / file).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in there, f"{file}::{name}"


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
