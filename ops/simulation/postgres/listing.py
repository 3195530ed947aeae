"""What staff's lists show: the rows of a table that they may read, and that have what was asked for."""

from __future__ import annotations

from ops.simulation.postgres.values import Row, like
from ops.simulation.postgres.vocabulary import Statement


def listed(
    st: Statement,
    table: str,
    tenant_id: str,
    merchant_id: str,
    *,
    standing: str | None = None,
    pattern: str | None = None,
    **equals: str,
) -> list[Row]:
    """equals: columns by name, '' = any. standing: the status, '' = all but archived; pattern: of the name."""
    may = st.theirs(tenant_id, merchant_id, False)
    return [
        row
        for row in st.find(table, tenant_id=tenant_id)
        if all(value in ("", getattr(row, name)) for name, value in equals.items())
        and (standing is None or (row.status != "archived" if standing == "" else row.status == standing))
        and (pattern is None or like(row.name, pattern))
        and may(row.campaign_id)
    ]
