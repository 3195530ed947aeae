"""The mutants that no test can tell from the original, each with why: survivors.toml beside this file.

    [[survivors]]
    why = "the unique index of plays refuses the second one as well"
    mutants = ["commit.commit played: widen ..."]

A name that no mutant has (its condition was changed or is gone) is an error, and so is one that a test kills.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("survivors.toml")


def explained() -> dict[str, str]:
    """Why each of them survives, by the mutant's name. ValueError where one is there twice or has no reason."""
    reasons: dict[str, str] = {}
    for group in tomllib.loads(FILE.read_text()).get("survivors", []):
        for name in group["mutants"]:
            if name in reasons or len(group["why"].split()) < 4:
                raise ValueError(f"{FILE.name}: {name} is there twice, or its reason says nothing")
            reasons[name] = group["why"]
    return reasons


def stale(reasons: Iterable[str], there: Iterable[str]) -> list[str]:
    """Names that no mutant has."""
    names = set(there)
    return [name for name in reasons if name not in names]
