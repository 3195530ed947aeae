"""What the rows came to at the sizes of docs/faults.md: record.json, which `--record` writes, and its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ops.certification.row import Figure, Result

FILE: Final = Path(__file__).with_name("record.json")

_NONE: Final = "never"


class Kept(msgspec.Struct, frozen=True):
    """What one row came to. date: UTC, ISO 8601. commit: of the code, abbreviated. figures: as people are told them."""

    date: str
    commit: str
    size: int
    unit: str
    ok: bool
    seconds: int
    slowness: float
    error: str
    figures: tuple[str, ...]


def read() -> dict[str, Kept]:
    """By the rows' names."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Kept]) if FILE.exists() else {}


def keep(results: Iterable[Result], date: str, commit: str) -> None:
    """Writes down what rows came to that ran at their whole size, whether they hold or not; others stay as they are."""
    known = read()
    for result in results:
        if result.size < result.row.full or result.not_run:
            continue
        known[result.row.name] = Kept(
            date=date,
            commit=commit,
            size=result.size,
            unit=result.row.unit,
            ok=result.ok,
            seconds=round(result.seconds),
            slowness=round(result.slowness, 2),
            error=result.error,
            figures=tuple(_told(figure) for figure in result.figures),
        )
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=1) + b"\n")


def _told(figure: Figure) -> str:
    return f"{'' if figure.ok else 'FAILED: '}{figure.told()}"


def table(names: Iterable[str], known: Mapping[str, Kept]) -> str:
    """The rows in this order, each with what it came to."""
    lines = ["| Row | Size | Took | On | Holds | Figures |", "|---|---|---:|---|---|---|"]
    for name in names:
        one = known.get(name)
        if one is None:
            lines.append(f"| `{name}` | | | {_NONE} | | |")
            continue
        figures = "; ".join([*([one.error] if one.error else []), *one.figures]).replace("|", "\\|")
        lines.append(
            f"| `{name}` | {one.size:,} {one.unit} | {one.seconds:,} s, machine x {one.slowness:.2g} "
            f"| {one.date}, {one.commit} | {'yes' if one.ok else '**no**'} | {figures} |"
        )
    return "\n".join(lines)
