"""Archives the plays of a campaign that is over: deletes their rows once they are in a dossier.

The caller names the dossier and its plays, as `tombola campaigns archive` reads them from the file. The plays are
first compared with the log, so that only plays in the file are deleted. Then they are deleted in the order of the log,
in short transactions: live plays of the tenant do not wait for them. A request works for at most WORK_SECONDS; the
caller repeats it until the archive is finished. The archive's row has the progress, so a killed process loses one step.
Concurrent requests take turns by locking the row.

The audit entry `campaign.archive` names the file, the number of plays and their digest. The first play is deleted once
a signed checkpoint of the log has this entry, so a witness knows which rows may be missing, and accepts no others.
Rewards, ledgers, entries, counters and figures stay.
"""

from __future__ import annotations

import asyncio
import re
import time
from enum import Enum, auto
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import audit
from runtime.operations.campaigns import analytics
from runtime.operations.campaigns.archives import archived, message_of
from runtime.operations.checks import Checks
from runtime.operations.log.appending import append
from runtime.operations.reporting import counting
from runtime.operations.row import ADMINS, Operation
from runtime.rules.log.digest import GROUP_LEAVES
from runtime.wire.schema import INT64
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("archives")

WORK_SECONDS: Final = 5.0
"""The duration of a request."""

REST: Final = 0.5
"""The pause after a step, as a share of its duration: plays get the database's time in between."""

GROUPS_COMPARED: Final = 16
"""Groups of leaves compared in one transaction."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")

OBSTACLES: Final = {
    "end": "it ended, was played, or ends its redemptions, less than ARCHIVE_AFTER_DAYS ({days}) days ago",
    "log": "its plays are not in the log yet",
    "figures": "its plays are not counted yet",
    "deliveries": "{count} deliveries are pending",
    "rewards": "{count} rewards are neither delivered nor expired or revoked",
    "leaderboards": "{count} leaderboards are not finalized",
    "draws": "{count} draws are not confirmed, or take tickets from its leaderboards and are not closed",
    "releases": "{count} release schedules are not opened",
    "discrepancies": "{count} discrepancies are open",
}
"""What each row of `obstacles` says."""


class State(Enum):
    """The state after a step. UNLOGGED: the audit entry must enter the log first."""

    DONE = auto()
    GOES_ON = auto()
    UNLOGGED = auto()


async def archive_campaign(engine: Engine, request: m.ArchiveCampaignRequest) -> m.ArchiveCampaignReply:
    """Deletes the plays of a campaign that is over, which the named dossier has. Repeat it until it has finished.

    FAILED_PRECONDITION NOT_SETTLED lists the open items; FILE_DIFFERS: the dossier does not have exactly the plays
    that are in the log; CAMPAIGN_ARCHIVED: another dossier was archived.
    """
    tenant_id, until = tenant_of(request), time.monotonic() + WORK_SECONDS
    _check(request)
    if await _begin(engine, request):
        games = await engine.database.fetchval(_SQL["games"], tenant_id, request.id)
        state = State.GOES_ON
        while state is not State.DONE and time.monotonic() < until:
            began = time.monotonic()
            state = await _step(engine, tenant_id, request.id, games)
            if state is State.UNLOGGED:
                await append(engine, tenant_id)
            await asyncio.sleep(max((time.monotonic() - began) * REST, 0.2 if state is State.UNLOGGED else 0.0))
    row = await engine.database.fetchrow(_SQL["get"], tenant_id, request.id)
    if row is None:
        message = f"the file does not have exactly the plays of campaign {request.id} that are in the log"
        raise Fault(Status.FAILED_PRECONDITION, "FILE_DIFFERS", message)
    if row["entry_id"] and row["file_sha256"] != request.file_sha256:  # A concurrent request archived another file.
        raise archived(request.id, row["file_sha256"])
    archive = message_of(row["archive"])
    return m.ArchiveCampaignReply(compared=row["plays"] if archive else row["counted"], archive=archive)


def _check(request: m.ArchiveCampaignRequest) -> None:
    checks = Checks()
    for name in ("file_sha256", "digest"):
        if not _HASH.fullmatch(getattr(request, name)):
            checks.problem(name, "must be a SHA-256 in hex: 64 digits")
    if request.plays < 1:
        checks.problem("plays", "must be at least 1: without plays there is nothing to archive")
    checks.between("first_leaf", request.first_leaf, 0, INT64[1])
    checks.between("last_leaf", request.last_leaf, max(request.first_leaf, 0), INT64[1])
    checks.raise_found()


async def _begin(engine: Engine, request: m.ArchiveCampaignRequest) -> bool:
    """Begins or resumes the archive. False: it has finished."""
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["get"], tenant_id, request.id)
    if row is not None and row["entry_id"]:
        if (row["file_sha256"], row["plays"], row["digest"]) != (request.file_sha256, request.plays, request.digest):
            raise archived(request.id, row["file_sha256"])
        return row["finished_at"] is None
    await _refuse_unsettled(engine, tenant_id, request.id)
    if (counted := await engine.database.fetchval(_SQL["counted"], tenant_id, request.id)) != request.plays:
        message = f"the file has {request.plays:,} plays, but {counted:,} were counted in campaign {request.id}"
        raise Fault(Status.FAILED_PRECONDITION, "FILE_DIFFERS", message)

    async def begin(connection: asyncpg.Connection) -> None:
        await connection.execute(_SQL["lock_tenant"], tenant_id)
        facts = (request.file_sha256, request.plays, request.digest, request.first_leaf, request.last_leaf)
        await connection.execute(_SQL["begin"], tenant_id, request.id, *facts)

    await engine.database.transaction(begin)
    return True


async def _refuse_unsettled(engine: Engine, tenant_id: str, campaign_id: str) -> None:
    if await engine.database.fetchrow(_CAMPAIGN, tenant_id, campaign_id, "") is None:
        raise unknown("campaign", campaign_id)
    await analytics.count_if_stale(engine, tenant_id, campaign_id)
    await counting.count_if_stale(engine, tenant_id)
    await _refuse_open(engine, engine.database, tenant_id, campaign_id)


async def _refuse_open(engine: Engine, source: Any, tenant_id: str, campaign_id: str) -> None:
    _refuse_without_log(engine, campaign_id)
    days = engine.settings.archive_after_days
    rows = await source.fetch(_SQL["obstacles"], tenant_id, campaign_id, days)
    open_ = {row["what"]: row["count"] for row in rows}
    if open_:
        why = "; ".join(OBSTACLES[what].format(count=count, days=days) for what, count in open_.items())
        message = f"campaign {campaign_id} cannot be archived yet: {why}"
        raise Fault(Status.FAILED_PRECONDITION, "NOT_SETTLED", message, open=sorted(open_))


def _refuse_without_log(engine: Engine, campaign_id: str) -> None:
    if not engine.settings.merkle_log:
        message = f"campaign {campaign_id} cannot be archived without a log: set MERKLE_LOG, then repeat the command"
        raise Fault(Status.FAILED_PRECONDITION, "NOT_SETTLED", message, open=["log"])


async def _step(engine: Engine, tenant_id: str, campaign_id: str, games: list[str]) -> State:
    """Compares or deletes the next plays, in one transaction."""

    async def step(connection: asyncpg.Connection) -> State:
        # Before the archive's row: the lock order.
        catalog = await connection.fetchval(_SQL["lock_tenant_if_compared"], tenant_id, campaign_id)
        row = await connection.fetchrow(_SQL["lock"], tenant_id, campaign_id)
        if row is None or row["finished_at"] is not None:
            return State.DONE
        about, first, last = (tenant_id, campaign_id, games), row["next_leaf"], row["last_leaf"]
        if row["entry_id"] and not row["is_logged"]:
            _refuse_without_log(engine, campaign_id)
            return State.UNLOGGED
        if row["entry_id"]:
            await connection.execute(_SQL["delete"], *about, first, _group_end(first, last), row["number"])
        elif first <= last:
            for _ in range(GROUPS_COMPARED):
                await connection.execute(_SQL["compare"], *about, first, _group_end(first, last))
                if (first := _group_end(first, last)) > last:
                    break
        elif (row["counted"], row["compared"]) != (row["plays"], row["digest"]):
            await connection.execute(_SQL["discard"], tenant_id, campaign_id)
        elif catalog is not None:  # Otherwise a concurrent request made the last comparison: the next step confirms.
            # Again: a leaderboard that was created meanwhile would be counted without its plays. The lock of the
            # catalogue makes a later one wait for the commit, and be refused.
            await _refuse_open(engine, connection, tenant_id, campaign_id)
            facts = {name: row[name] for name in ("plays", "file_sha256", "digest")}
            entry_id = await audit.record(connection, tenant_id, "campaign.archive", campaign_id, after=facts)
            await connection.execute(_SQL["confirm"], tenant_id, campaign_id, entry_id)
        return State.GOES_ON

    return await engine.database.transaction(step)


def _group_end(leaf_index: int, last: int) -> int:
    """The end of the leaf's group. Not beyond `last`: a play that enters the log later is not in the file."""
    return min((leaf_index // GROUP_LEAVES + 1) * GROUP_LEAVES, last + 1)


_CAMPAIGN: Final = sql.load("analytics")["campaign"]

ROWS: Final = (
    Operation(
        "ArchiveCampaign",
        "POST /campaigns/{id}/archive",
        run=archive_campaign,
        admin=ADMINS,
        tenant_wide=True,
        lengthy=True,
        invalidates_cache=True,
        refusals=("NOT_SETTLED", "FILE_DIFFERS", "CAMPAIGN_ARCHIVED"),
        example={
            "file_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "plays": 20_418,
            "digest": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
            "first_leaf": 12,
            "last_leaf": 61_022,
        },
    ),
)
