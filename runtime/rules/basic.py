"""Validator `basic`: the payload has the handler's shape, and its score is plausible."""

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
    """VALIDATION for a malformed payload, naming `payload.x`; IMPLAUSIBLE_SCORE for an impossible score."""
    if handler.Payload is NoPayload and payload == {}:
        return 0  # Fast path: nearly every play of a wheel.
    taken = read(handler.Payload, payload, "payload")
    return _check_plausible(taken, config, elapsed_ms) if isinstance(taken, ScorePayload) else 0


def _check_plausible(taken: ScorePayload, config: Any, elapsed_ms: int) -> int:
    """Check a score against the time since start and the config's limits (0: no limit).

    Returns the play's duration when there is a limit per second, as a longer play may then score more.
    """
    max_score = getattr(config, "max_score", 0)
    max_score_per_second = getattr(config, "max_score_per_second", 0)
    if taken.duration_ms > elapsed_ms + NETWORK_SLACK_MS:
        raise _implausible("payload.duration_ms", ahead_of_time_problem(taken.duration_ms, elapsed_ms))
    if max_score and taken.score > max_score:
        raise _implausible("payload.score", f"must be at most {max_score}, the highest score of this game")
    if max_score_per_second and taken.score * 1000 > max_score_per_second * taken.duration_ms:
        most = math.floor(max_score_per_second * taken.duration_ms / 1000)
        limit = f"must be at most {most} in {taken.duration_ms} ms: this game allows {max_score_per_second:g} a second"
        raise _implausible("payload.score", limit)
    return taken.duration_ms if max_score_per_second else 0


def ahead_of_time_problem(at_ms: int, elapsed_ms: int) -> str:
    """The error text for an `at_ms` that lies past the time since start (rules.verify_timing)."""
    most = max(0, elapsed_ms + NETWORK_SLACK_MS)
    return f"is {at_ms}, but this game verifies timing (rules.verify_timing): it must be at most {most} now"


def _implausible(field: str, description: str) -> Fault:
    return Fault(
        Status.INVALID_ARGUMENT,
        "IMPLAUSIBLE_SCORE",
        f"{field}: {description}",
        violations=[{"field": field, "description": description}],
    )
