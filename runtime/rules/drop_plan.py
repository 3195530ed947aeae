"""Validator `drop_plan`: every caught item is in the session's plan, caught once, and not before it fell.

It does not limit items per type: the handler counts up to `max_catchable` and ignores the rest.

It never reports consumed time: a session with a plan is valid only for the player's next play.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.errors import Fault, Status, invalid, violations
from runtime.rules.base import Drop, DropSource, RewardHandler
from runtime.rules.basic import ahead_of_time_problem
from runtime.rules.payloads import NETWORK_SLACK_MS, CaughtPayload
from runtime.rules.reading import MAX_VIOLATIONS, Violation, read


def check_config(config: Any) -> None:
    """Refuse, on field `validator`, a handler without a drop plan."""
    if not isinstance(config, DropSource):
        raise invalid("validator", "drop_plan needs a reward handler with drops, such as collect_items")


def check(
    handler: RewardHandler, config: Any, payload: Mapping[str, Any], plan: tuple[Drop, ...], elapsed_ms: int
) -> int:
    """NOT_IN_PLAN for items that are not in the plan or have not fallen yet; VALIDATION for the rest.

    Each violation names `payload.caught_items[i]`.
    """
    taken = read(handler.Payload, payload, "payload")
    if not isinstance(taken, CaughtPayload):
        return 0  # A plugin's payload: only its shape can be checked here.
    falls_at_ms = {drop.id: drop.at_ms for drop in plan}
    seen: set[str] = set()
    absent: list[Violation] = []
    repeated: list[Violation] = []
    for i, item_id in enumerate(taken.caught_items):
        field = f"payload.caught_items[{i}]"
        at_ms = falls_at_ms.get(item_id)
        if at_ms is None:
            absent.append((field, "is not in this session's drop plan"))
        elif at_ms > elapsed_ms + NETWORK_SLACK_MS:
            absent.append((field, f"has not fallen yet: its at_ms {ahead_of_time_problem(at_ms, elapsed_ms)}"))
        elif item_id in seen:
            repeated.append((field, "was caught twice"))
        seen.add(item_id)
    if absent:
        raise _not_in_plan(absent + repeated)
    if repeated:
        raise violations(repeated[:MAX_VIOLATIONS])
    return 0


def _not_in_plan(found: list[Violation]) -> Fault:
    rows = [{"field": field, "description": description} for field, description in found[:MAX_VIOLATIONS]]
    field, description = found[0]
    return Fault(Status.INVALID_ARGUMENT, "NOT_IN_PLAN", f"{field}: {description}", violations=rows)
