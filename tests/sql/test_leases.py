import asyncio
from contextlib import AsyncExitStack

import pytest

from runtime.actors.engine import Engine
from runtime.app import parts, running
from runtime.jobs import Job
from runtime.settings import Settings
from runtime.stores.database import Database
from runtime.stores.leases import LEASE_SECONDS, Leases
from tests.support.waiting import until


class Rival:
    """A process's leases, and how often it ran the job."""

    def __init__(self, database: Database) -> None:
        self.leases = Leases(database)
        self.runs = 0

    async def runs_it(self) -> bool:
        before = self.runs
        await self.leases.run("job", self._work)
        return self.runs > before

    async def _work(self) -> None:
        self.runs += 1


@pytest.fixture
def one(empty: Database) -> Rival:
    return Rival(empty)


@pytest.fixture
def two(empty: Database) -> Rival:
    return Rival(empty)


async def ends_in(empty: Database, seconds: float) -> None:
    """Sets the end of the lease, as time or a clock that was set would."""
    await empty.execute("UPDATE job_leases SET leased_until = now() + make_interval(secs => $1)", seconds)


async def test_job_runs_in_one_process_at_a_time(one: Rival, two: Rival) -> None:
    assert await one.runs_it() and not await two.runs_it()
    await two.leases.renew()
    assert await one.runs_it() and not await two.runs_it()


async def test_processes_that_ask_together_get_one_lease(empty: Database) -> None:
    rivals = [Rival(empty) for _ in range(8)]
    assert sum(await asyncio.gather(*[rival.runs_it() for rival in rivals])) == 1


async def test_renewal_extends_the_lease(one: Rival, two: Rival, empty: Database) -> None:
    assert await one.runs_it()
    await ends_in(empty, 1.0)
    await one.leases.renew()
    left = await empty.fetchval("SELECT extract(epoch FROM leased_until - now())::float8 FROM job_leases")
    assert LEASE_SECONDS - 5 < left <= LEASE_SECONDS


async def test_expired_lease_is_taken_over_and_the_late_holder_skips(one: Rival, two: Rival, empty: Database) -> None:
    assert await one.runs_it()
    await ends_in(empty, -1.0)
    assert await two.runs_it()
    await one.leases.renew()
    assert not await one.runs_it()


async def test_released_lease_is_free_at_once(one: Rival, two: Rival) -> None:
    assert await one.runs_it()
    await one.leases.release()
    assert await two.runs_it() and not await one.runs_it()


async def test_lease_of_a_clock_that_was_set_back_is_free(one: Rival, two: Rival, empty: Database) -> None:
    assert await one.runs_it()
    await ends_in(empty, 3600.0)
    assert await two.runs_it()


async def test_second_core_continues_a_leased_job(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: dict[str, list[Engine]] = {"leased": [], "own": []}

    async def leased(engine: Engine) -> None:
        ran["leased"].append(engine)

    async def own(engine: Engine) -> None:
        ran["own"].append(engine)

    monkeypatch.setattr(parts, "jobs", lambda: (Job("leased", leased, 0.02), Job("own", own, 0.02, leased=False)))
    async with AsyncExitStack() as processes:
        first_process, second_process = [await processes.enter_async_context(AsyncExitStack()) for _ in range(2)]
        first = await first_process.enter_async_context(running(settings, ("core",)))
        await second_process.enter_async_context(running(settings, ("core",)))
        await until(lambda: len({id(engine) for engine in ran["own"]}) == 2 and len(ran["leased"]) > 10)
        [holder] = {id(engine) for engine in ran["leased"]}
        await (first_process if holder == id(first.engine) else second_process).aclose()
        ran["leased"].clear()
        await until(lambda: ran["leased"])
        assert id(ran["leased"][0]) != holder
