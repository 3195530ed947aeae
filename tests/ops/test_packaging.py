"""The constraints hold every package that pyproject.toml names, at the same version."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
