"""sql/history.sql: which history of the database a process sees."""

from __future__ import annotations

from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("history.history")
def history(st: Statement) -> Result:
    return [{"name": f"1.1.{st.store.timeline:08x}", "written": st.store.commits}]
