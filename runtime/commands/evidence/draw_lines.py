"""The fields of the lines in a draw's evidence file. runtime/web/verifiers/draws.mjs has the same, in JavaScript."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from runtime.operations.checks import TIME_MAX
from runtime.rules.raffle.selection import FORMS

_MOST: Final = 2**63 - 1


class _Misfit(Exception):
    """A field that does not fit. The message says what it must be."""


class _Form(NamedTuple):
    """What a value must be, and whether it is."""

    expected: str
    fits: Callable[[Any], bool]


def _whole(least: int) -> _Form:
    expected = f"a whole number from {least} to {_MOST}"
    return _Form(expected, lambda value: type(value) is int and least <= value <= _MOST)


_TEXT: Final = _Form("a text", lambda value: isinstance(value, str))
_HOLDER: Final = _Form("a pseudonym", lambda value: isinstance(value, str) and value.isascii())
_TIME: Final = _Form(
    "a time in whole unix seconds, at most in the year 9999", lambda value: type(value) is int and 0 < value <= TIME_MAX
)

_HEAD: Final = {
    **dict.fromkeys(("id", "campaign_id", "name", "tickets_root"), _TEXT),
    "tickets": {},
    "prizes": [{"prize_id": _TEXT, "count": _whole(1)}],
    **dict.fromkeys(("alternates", "ticket_count", "holder_count"), _whole(0)),
    "closed_at": _TIME,
    "randomness": {
        "kind": _Form(f"one of {', '.join(FORMS)}", lambda value: isinstance(value, str) and value in FORMS)
    },
}
_RANDOMNESS: Final = {
    "DRAND": {"at": _TIME, "round": _whole(1)},
    "DECLARED": {"at": _TIME, "source": _TEXT},
    "INTERNAL": {"commitment": _TEXT, "at": _Form(_TIME.expected, lambda value: value is None or _TIME.fits(value))},
}
_TICKETS: Final = {"holder": _HOLDER, "tickets": _whole(1)}
_END: Final = {
    **dict.fromkeys(("value", "result_hash"), _TEXT),
    "result": [{"ticket": _whole(0), "holder": _HOLDER}],
    "drawn_at": _TIME,
}


def check(line: Mapping[str, Any], name: str) -> None:
    """Checks the fields of a line. Raises ValueError, which names the first field that is missing or wrong."""
    try:
        if "holder" in line:
            _check(line, _TICKETS)
        elif "format" in line:
            _check(line, _HEAD)
            _check(line["randomness"], _RANDOMNESS[line["randomness"]["kind"]], "randomness")
            _check_encoding(line)
        else:
            _check(line, _END)
            _check_encoding(line)
    except _Misfit as error:
        raise ValueError(f"{name}: {error}") from None


def _check(value: Any, shape: Any, name: str = "") -> None:
    if isinstance(shape, _Form):
        if not shape.fits(value):
            raise _Misfit(f"{name} must be {shape.expected}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _Misfit(f"{name} must be a list")
        for at, one in enumerate(value):
            _check(one, shape[0], f"{name}[{at}]")
    elif not isinstance(value, dict):
        raise _Misfit(f"{name} must be an object")
    else:
        for field, part in shape.items():
            _check(value.get(field), part, f"{name}.{field}".removeprefix("."))


def _check_encoding(line: Mapping[str, Any]) -> None:
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON can have half of a surrogate pair, which cannot be hashed.
        raise _Misfit("the texts must be valid Unicode") from None
