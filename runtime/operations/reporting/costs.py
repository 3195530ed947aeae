"""Costs by currency; amounts of different currencies are never added."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from runtime import messages as m


def by_currency(rows: Iterable[Any]) -> list[m.Cost]:
    """The sums of rows with `cost` and `currency`, without zero sums."""
    costs = defaultdict[str, list[float]](list)
    for row in rows:
        costs[row["currency"]].append(row["cost"])
    sums = {currency: math.fsum(amounts) for currency, amounts in sorted(costs.items())}
    return [m.Cost(currency=currency, amount=amount) for currency, amount in sums.items() if amount]


def of_one(costs: Sequence[m.Cost]) -> float:
    """The amount if there is a single currency, else 0."""
    return costs[0].amount if len(costs) == 1 else 0.0
