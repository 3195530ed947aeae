"""A process that runs one leased job all the time: `python -m tests.support.leased_job DATABASE_URL LEASE_SECONDS`.

It prints a line for each run. SIGTERM stops it cleanly.
"""

import asyncio
import signal
import sys

from runtime.background import Background
from runtime.stores import leases
from runtime.stores.database import Database


async def _run() -> None:
    print("ran", flush=True)


async def main(url: str, lease_seconds: float) -> None:
    leases.LEASE_SECONDS = lease_seconds  # type: ignore[misc]
    database = Database(url, size=2, acquire_seconds=30, statement_seconds=30)
    await database.start()
    held, background, stop = leases.Leases(database), Background(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await background.repeat("leases", held.renew, lease_seconds / 10)
    await background.repeat("job", lambda: held.run("job", _run), 0.02)
    await stop.wait()
    await background.close()
    await held.release()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
