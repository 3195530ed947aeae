"""What a prize's claim asks of its winner: the fields as they are checked and stored."""

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
"""Modes in which nothing is delivered before somebody claims it."""


def fill_kinds(fields: Iterable[m.ClaimField]) -> None:
    """A field that does not say its kind is a text."""
    for field in fields:
        field.kind = field.kind or m.ClaimFieldKind.TEXT


def check(checks: Checks, fields: Sequence[m.ClaimField], mode: m.RedemptionMode) -> None:
    """Adds what is wrong with the fields of a prize that is redeemed so. Sizes the surfaces have checked."""
    if fields and mode not in _CLAIMED:
        what = "need a prize that is claimed: fulfillment.redemption_mode ON_CLAIM or MANUAL"
        checks.problem("claim_fields", what)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        path = f"claim_fields[{index}]"
        if not _KEY.fullmatch(field.key):
            checks.problem(f"{path}.key", "must be a letter, then letters, digits and _")
        elif field.key in seen:
            checks.problem(f"{path}.key", "is there twice")
        seen.add(field.key)
        checks.required(f"{path}.label", field.label)
        if wrong := _options_problem(field):
            checks.problem(f"{path}.options", wrong)


def _options_problem(field: m.ClaimField) -> str:
    options = field.options
    if field.kind is not m.ClaimFieldKind.CHOICE:
        return "are a choice's alone" if options else ""
    if len(options) < OPTIONS_MIN:
        return f"must be at least {OPTIONS_MIN}"
    if any(not option or option != option.strip() for option in options):
        return "must not be empty, nor begin or end with white space"
    return "must each be there once" if len(set(options)) < len(options) else ""


def stored(fields: Iterable[m.ClaimField]) -> list[dict[str, Any]]:
    """The fields as the prize's row has them."""
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
