"""What is known of budgets and stock, put into what is read: what is used as it was counted last, stock as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import sql
from runtime import messages as m

_SQL: Final = sql.load("limits")


class Source(Protocol):
    """The database, or a connection of it."""

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """The statement's rows."""
        ...


async def fill_budgets(source: Source, tenant_id: str, campaigns: Iterable[m.Campaign]) -> None:
    """Says of each budget what is used of it. Asks nothing where there is none."""
    budgets = {one.id: one.budget for one in campaigns if one.budget is not None}
    for row in await source.fetch(_SQL["used"], tenant_id, list(budgets)) if budgets else ():
        budget = budgets[row["campaign_id"]]
        budget.used, budget.used_at = row["used"], row["used_at"]


async def fill_low(source: Source, tenant_id: str, prizes: Iterable[m.Prize]) -> None:
    """Says of each prize that is watched whether it runs low. Asks nothing where none is."""
    watched = {one.id: one for one in prizes if one.low_stock_at}
    for prize_id in await low_of(source, tenant_id, list(watched)) if watched else ():
        watched[prize_id].low = True


async def low_of(source: Source, tenant_id: str, prize_ids: list[str]) -> set[str]:
    """Those of the prizes that run low."""
    return {row["prize_id"] for row in await source.fetch(_SQL["low"], tenant_id, prize_ids)}
