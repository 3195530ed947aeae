"""Validator `basic`: the payload has the handler's shape, and a score is one that could have been reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runtime.errors import Fault, Status, invalid
from runtime.rules.base import Drop, DropSource, RewardHandler
from runtime.rules.payloads import NETWORK_SLACK_MS, NoPayload, ScorePayload
from runtime.rules.reading import read


def check_config(config: Any) -> None:
    """Refuse, on field `validator`, a handler with a drop plan: caught items would go unchecked."""
    if isinstance(config, DropSource):
        raise invalid("validator", "basic does not check caught items; use drop_plan")


def check(
    handler: RewardHandler, config: Any, payload: Mapping[str, Any], plan: tuple[Drop, ...], elapsed_ms: int
) -> int:
    """VALIDATION for what is malformed, naming `payload.x`; IMPLAUSIBLE_SCORE for what cannot have been played."""
    if handler.Payload is NoPayload and payload == {}:
        return 0  # Nearly every play of a wheel: nothing to read.
    taken = read(handler.Payload, payload, "payload")
    return _check_plausible(taken, config, elapsed_ms) if isinstance(taken, ScorePayload) else 0


def _check_plausible(taken: ScorePayload, config: Any, elapsed_ms: int) -> int:
    """Hold a score against the time since start and the limits in the config, where the handler has them (0: none).

    Where a longer play may score more, its time is what pays for it.
    """
    max_score = getattr(config, "max_score", 0)
    max_score_per_second = getattr(config, "max_score_per_second", 0)
    if taken.duration_ms > elapsed_ms + NETWORK_SLACK_MS:
        raise _implausible("payload.duration_ms", late(taken.duration_ms, elapsed_ms))
    if max_score and taken.score > max_score:
        raise _implausible("payload.score", f"is above this game's highest score, {max_score}")
    if max_score_per_second and taken.score * 1000 > max_score_per_second * taken.duration_ms:
        most = math.floor(max_score_per_second * taken.duration_ms / 1000)
        told = f"is above this game's {max_score_per_second:g} a second: at most {most} in {taken.duration_ms} ms"
        raise _implausible("payload.score", told)
    return taken.duration_ms if max_score_per_second else 0


def late(at_ms: int, elapsed_ms: int) -> str:
    """What is wrong with `at_ms`, so early a time after start, and what would be accepted (rules.verify_timing)."""
    most = max(0, elapsed_ms + NETWORK_SLACK_MS)
    return f"is {at_ms}, and this game verifies timing (rules.verify_timing): at most {most} is accepted now"


def _implausible(field: str, description: str) -> Fault:
    return Fault(
        Status.INVALID_ARGUMENT,
        "IMPLAUSIBLE_SCORE",
        f"{field}: {description}",
        violations=[{"field": field, "description": description}],
    )
