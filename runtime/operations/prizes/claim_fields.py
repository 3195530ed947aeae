"""The fields of a prize's claim form: checks and stored form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from runtime import messages as m
from runtime.operations.checks import Checks
from runtime.wire.enums import token

OPTIONS_MIN: Final = 2
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CLAIMED: Final = (m.RedemptionMode.ON_CLAIM, m.RedemptionMode.MANUAL)
"""Modes in which a reward is delivered only after its claim."""


def fill_kinds(fields: Iterable[m.ClaimField]) -> None:
    for field in fields:
        field.kind = field.kind or m.ClaimFieldKind.TEXT


def check(checks: Checks, fields: Sequence[m.ClaimField], mode: m.RedemptionMode) -> None:
    """Adds the problems of the fields of a prize with this redemption mode. The codec has checked their sizes."""
    if fields and mode not in _CLAIMED:
        checks.problem("claim_fields", "must be empty unless fulfillment.redemption_mode is ON_CLAIM or MANUAL")
    seen: set[str] = set()
    for index, field in enumerate(fields):
        path = f"claim_fields[{index}]"
        if not _KEY.fullmatch(field.key):
            checks.problem(f"{path}.key", "must begin with a letter and contain only letters, digits and _")
        elif field.key in seen:
            checks.problem(f"{path}.key", "must be unique")
        seen.add(field.key)
        checks.required(f"{path}.label", field.label)
        if wrong := _options_problem(field):
            checks.problem(f"{path}.options", wrong)


def _options_problem(field: m.ClaimField) -> str:
    options = field.options
    if field.kind is not m.ClaimFieldKind.CHOICE:
        return "must be empty unless kind is CHOICE" if options else ""
    if len(options) < OPTIONS_MIN:
        return f"must be at least {OPTIONS_MIN}"
    if any(not option or option != option.strip() for option in options):
        return "must not be empty, or begin or end with white space"
    return "must be unique" if len(set(options)) < len(options) else ""


def stored(fields: Iterable[m.ClaimField]) -> list[dict[str, Any]]:
    return [
        {
            "key": field.key,
            "label": field.label,
            "kind": token(field.kind),
            "required": field.required,
            "options": list(field.options),
        }
        for field in fields
    ]
