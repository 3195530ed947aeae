"""What a stream's client raises where its connection is lost, under the loop that processes run on."""

import asyncio

import uvloop

from runtime.settings import Settings
from runtime.stores.pipeline import AWAY
from runtime.streams.servers import Servers


def test_command_on_a_connection_just_lost_fails_as_unavailable(valkey_url: str) -> None:
    async def lost() -> BaseException | None:
        client = await Servers(Settings(redis_url=valkey_url)).client("a stream")
        await client.ping()
        connection = client.connection_pool._available_connections[0]
        connection._writer.transport.abort()
        try:
            await connection.send_command("PING", check_health=False)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            await client.aclose()
        return None

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        error = runner.run(lost())
    assert isinstance(error, RuntimeError), "else AWAY need not name it"
    assert isinstance(error, AWAY)
