"""Fills budget usage (as of the last count) and low-stock flags (current) into campaigns and prizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import sql
from runtime import messages as m

_SQL: Final = sql.load("limits")


class Source(Protocol):
    """The database, or one connection."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


async def fill_budgets(source: Source, tenant_id: str, campaigns: Iterable[m.Campaign]) -> None:
    """Fills in the used amount of each budget. No query if there are no budgets."""
    budgets = {one.id: one.budget for one in campaigns if one.budget is not None}
    for row in await source.fetch(_SQL["used"], tenant_id, list(budgets)) if budgets else ():
        budget = budgets[row["campaign_id"]]
        budget.used, budget.used_at = row["used"], row["used_at"]


async def fill_low(source: Source, tenant_id: str, prizes: Iterable[m.Prize]) -> None:
    """Flags each watched prize that runs low. No query if none is watched."""
    watched = {one.id: one for one in prizes if one.low_stock_at}
    for prize_id in await low_stock_of(source, tenant_id, list(watched)) if watched else ():
        watched[prize_id].low = True


async def low_stock_of(source: Source, tenant_id: str, prize_ids: list[str]) -> set[str]:
    return {row["prize_id"] for row in await source.fetch(_SQL["low"], tenant_id, prize_ids)}
