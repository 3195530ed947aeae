"""The random value of a draw, by kind. It must not be known when the tickets are frozen.

| Kind | Value | Who could know it before the tickets are frozen |
|---|---|---|
| DRAND | the signature of a future round of drand's quicknet | a majority of drand's operators together |
| DECLARED | a public number that is named before and published later | only its publisher |
| INTERNAL | a seed whose hash is published at creation | an operator with SERVER_KEYS |
"""

from __future__ import annotations

import os
import unicodedata
from typing import Any, Final

from runtime import messages as m
from runtime.actors import sealed_seeds
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid
from runtime.rules.raffle import beacon
from runtime.rules.raffle.selection import commitment

KINDS: Final = ("DRAND", "DECLARED", "INTERNAL")

VALUE_CHARACTERS_MAX: Final = 1_000

CLOSING_SECONDS: Final = 120
"""The time that a draw has to close after closes_at, before its random value may be known."""


def problems(randomness: m.DrawRandomness, closes_at: int, now: float) -> list[tuple[str, str]]:
    """(field, description) of each problem."""
    kind = randomness.kind
    if kind not in KINDS:
        return [("randomness.kind", f"must be one of {', '.join(KINDS)}")]
    found = []
    if kind == "DRAND" and not beacon.is_available():
        found.append(("randomness.kind", "DRAND needs the extra `drand`: pip install 'tombola[drand]'"))
    if kind == "DECLARED" and not randomness.source.strip():
        found.append(("randomness.source", "is required: which number it will be, and where it is published"))
    if kind == "INTERNAL":
        if randomness.at:
            found.append(("randomness.at", "is only for DECLARED and DRAND"))
    elif randomness.at <= now or (closes_at and randomness.at < closes_at + CLOSING_SECONDS):
        text = f"must be in the future, and {CLOSING_SECONDS} seconds or more after closes_at"
        found.append(("randomness.at", f"{text}: the value must not be known when the tickets are frozen"))
    elif kind == "DRAND" and randomness.at < beacon.GENESIS:
        found.append(("randomness.at", "is before drand's first round"))
    return found


def new_salt() -> bytes:
    return os.urandom(32)


def stored(engine: Engine, tenant_id: str, draw_id: str, randomness: m.DrawRandomness | None) -> dict[str, Any]:
    """The column of a draw: its terms, and what each kind fixes in advance."""
    assert randomness is not None, "the caller has checked it"
    terms: dict[str, Any] = {"kind": randomness.kind, "source": randomness.source, "at": randomness.at}
    if randomness.kind == "DRAND":
        terms["round"] = beacon.round_at(randomness.at)
    if randomness.kind == "INTERNAL":
        key = engine.keyring.server[0]
        seed = sealed_seeds.derived(key, *_purpose(tenant_id, draw_id))
        terms |= {"key_id": key.id, "commitment": commitment(seed.hex())}
    return terms


def message(terms: dict[str, Any]) -> m.DrawRandomness:
    return m.DrawRandomness(**{name: value for name, value in terms.items() if name != "key_id"})


def check_unknown(draw_id: str, terms: dict[str, Any], now: float) -> None:
    """FAILED_PRECONDITION RANDOMNESS_KNOWN if the value may be known already: the tickets can no longer be frozen."""
    if terms["at"] and now >= terms["at"]:
        message = (
            f"the random value of draw {draw_id} may be known already; set a later randomness.at, then close the draw"
        )
        raise Fault(Status.FAILED_PRECONDITION, "RANDOMNESS_KNOWN", message)


async def value_of(engine: Engine, tenant_id: str, draw_id: str, terms: dict[str, Any], given: str) -> str:
    """The value that determines the winners.

    INVALID_ARGUMENT on field `value`; FAILED_PRECONDITION RANDOMNESS_PENDING with `available_at`.
    """
    given = given.strip()
    if terms["kind"] == "INTERNAL":
        if given:
            raise invalid("value", "an internal draw takes no value: its seed is fixed")
        return sealed_seeds.opened(engine.keyring.server, terms["key_id"], *_purpose(tenant_id, draw_id)).hex()
    if engine.clock.now() < terms["at"]:
        message = f"the value of draw {draw_id} cannot be known yet"
        raise Fault(Status.FAILED_PRECONDITION, "RANDOMNESS_PENDING", message, available_at=terms["at"])
    if not given:
        what = terms["source"] or f"the signature of drand's round {terms['round']}, in hex"
        raise invalid("value", f"is required: {what}")
    if terms["kind"] == "DRAND":
        given = given.lower()
        if not await beacon.verifies(terms["round"], given):
            raise invalid("value", f"is not the signature of round {terms['round']} of drand's quicknet")
        return given
    if not (value := canonical(given)):
        raise invalid("value", "must contain a number")
    return value


def canonical(declared: str) -> str:
    """A declared number in its only form: its digits without separators and zeros, "0" if all are zeros.

    Otherwise an operator could choose the winners among notations, such as "4 8 15", "04 08 15" and "4815".
    INVALID_ARGUMENT for letters, which could be added or left out, and for fractions.
    """
    if any(one.isalnum() and not one.isdecimal() for one in declared):
        raise invalid("value", "must be a number, without letters and fractions")
    digits = "".join(str(unicodedata.digit(one)) for one in declared if one.isdecimal())
    return digits.replace("0", "") or digits[:1]


def _purpose(tenant_id: str, draw_id: str) -> tuple[str, ...]:
    return "raffle", tenant_id, draw_id
