"""What things cost, currency by currency: amounts of two currencies add up to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from runtime import messages as m


def by_currency(rows: Iterable[Any]) -> list[m.Cost]:
    """What rows of a `cost` and its `currency` come to, without the currencies of which there is nothing."""
    sums = Counter[str]()
    for row in rows:
        sums[row["currency"]] += row["cost"]
    return [m.Cost(currency=currency, amount=amount) for currency, amount in sorted(sums.items()) if amount]


def of_one(costs: Sequence[m.Cost]) -> float:
    """The amount where all is of one currency, else 0."""
    return costs[0].amount if len(costs) == 1 else 0.0
