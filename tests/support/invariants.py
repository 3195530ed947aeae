"""What is true of the database at every moment between transactions (faults.md): the checks of sql/conservation.sql."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from runtime.operations.conservation.checks import CHECKS, CONSERVATION, KINDS

LEDGERS: Final = "player_ledger_sum"
CHAIN: Final = "player_ledger_chain"
TURNS: Final = "player_turn_sum"

TENANTS: Final = "SELECT tenant_id FROM tenants"

Keys = Mapping[str, Sequence[str]]


class Reads(Protocol):
    """The part of a connection, a pool or `Database` that is needed here."""

    async def fetch(self, query: str, /, *args: Any) -> list[Any]: ...


async def everything(database: Reads, tenant_id: str) -> Keys:
    found = {}
    for kind in KINDS:
        rows = await database.fetch(CONSERVATION[f"walk_{kind}"], tenant_id, "", 10_000_000)
        found[kind] = [row["id"] for row in rows]
    return found


async def broken_of(database: Reads, tenant_id: str, keys: Keys) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for check in CHECKS.values():
        if keys.get(check.kind):
            found[check.name] = await database.fetch(check.statement, tenant_id, keys[check.kind])
    return {name: [dict(row) for row in rows] for name, rows in found.items() if rows}


async def broken(database: Reads, tenant_id: str = "") -> dict[str, list[dict[str, Any]]]:
    """What does not hold, of one tenant or of all, each with the rows that break it."""
    found: dict[str, list[dict[str, Any]]] = {}
    tenants = [tenant_id] if tenant_id else [row["tenant_id"] for row in await database.fetch(TENANTS)]
    for one in tenants:
        for name, rows in (await broken_of(database, one, await everything(database, one))).items():
            found.setdefault(CHECKS[name].holds, []).extend(rows)
    return found


async def check(database: Reads) -> None:
    found = await broken(database)
    assert found == {}, found


async def check_sums(database: Reads, *names: str) -> None:
    found = await broken(database)
    assert not {CHECKS[name].holds for name in names or (LEDGERS, CHAIN, TURNS)} & found.keys(), found
