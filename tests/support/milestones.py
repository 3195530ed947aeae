"""Milestones of a game, and how far a player is."""

from typing import Any


def rung(id: str, threshold: int, prize_id: str, currency: str = "coin") -> dict[str, Any]:
    return {"id": id, "name": id.title(), "currency": currency, "threshold": threshold, "prize_id": prize_id}


def block(*rungs: dict[str, Any], auto_grant: bool = True, mode: str = "CUMULATIVE_UNLOCK") -> dict[str, Any]:
    return {"mode": f"MILESTONE_MODE_{mode}", "auto_grant": auto_grant, "rungs": list(rungs)}
