"""The settings as a table, for `tombola settings` and docs/reference/settings.md."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from typing import NamedTuple

from runtime.settings import Settings
from runtime.settings.field import variable


class Row(NamedTuple):
    """One line of the table."""

    variable: str
    kind: str
    default: str
    needed_by: str
    meaning: str


def table() -> list[Row]:
    """All settings in the order of `Settings`."""
    return [
        Row(
            variable(item),
            item.metadata["kind"].label,
            item.metadata["default"],
            ", ".join(item.metadata["needed_by"].split()),
            item.metadata["meaning"],
        )
        for item in fields(Settings)
    ]


def markdown() -> str:
    """The table of docs/reference/settings.md."""
    lines = ["| Variable | Value | Default | Meaning |", "|---|---|---|---|"]
    for row in table():
        default = f"`{row.default}`" if row.default else (f"needed by {row.needed_by}" if row.needed_by else "")
        lines.append(f"| `{row.variable}` | {row.kind} | {default} | {row.meaning} |")
    return "\n".join(lines) + "\n"


def misspelt(environ: Iterable[str]) -> dict[str, str]:
    """Variables that nearly match a setting's name, with that name. They have no effect, so the caller warns."""
    known = [row.variable for row in table()]
    guesses = {name: difflib.get_close_matches(name, known, 1, cutoff=0.9) for name in environ if name not in known}
    return {name: guess[0] for name, guess in guesses.items() if guess}
