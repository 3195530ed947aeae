"""The edges' connection to Core: what holds for a call holds however many travel with it."""

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from runtime import messages as m
from runtime import trace
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, OPERATIONS, Operation
from runtime.rpc import MESSAGE_BYTES_MAX, spread
from runtime.rpc.client import RpcCaller
from runtime.rpc.connection import HELLO, SendQueue
from runtime.rpc.frames import FRAME_BYTES, GOODBYE, Answer, Call, answers_of, body, calls_of, frames
from runtime.rpc.server import RpcServer
from tests.support.messages import filled
from tests.support.waiting import HANG_SECONDS, until

SCOPE = m.Scope(tenant_id="tenant_a")
GET, CREATE, PLAY, COPY = (BY_NAME[name] for name in ("GetCampaign", "CreateCampaign", "Play", "DuplicateCampaign"))


class Desk:
    """core.Caller: a campaign is answered with its name, once `gates` lets the one of that name pass."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.seen: list[str] = []
        self.players: list[str] = []
        self.arrived = asyncio.Event()

    async def call(self, operation: Operation, request: Any) -> Any:
        name = request.campaign.name if operation is CREATE else request.id
        self.seen.append(name)
        self.arrived.set()
        if name in self.gates:
            await self.gates[name].wait()
        if name == "trace":
            name = f"{trace.current.get()} {trace.actor.get()}"
        if name == "fault":
            raise Fault(
                Status.FAILED_PRECONDITION, "CAP_DAY", "geschafft: ü " * 200, retry_after_seconds=2.5, resets_at=7
            )
        if operation is PLAY:
            self.players.append(request.player_id)
            return m.PlayReply(play_id=name)
        if operation is COPY:
            return m.DuplicateCampaignReply(campaign=m.Campaign(name=name))
        return m.CampaignReply(campaign=m.Campaign(name=name))


@asynccontextmanager
async def core(desk: Desk) -> AsyncIterator[tuple[RpcServer, str]]:
    server = RpcServer(desk)
    try:
        yield server, await server.start("127.0.0.1", 0)
    finally:
        await server.stop()


@asynccontextmanager
async def edge(*addresses: str, deadline_seconds: float = HANG_SECONDS) -> AsyncIterator[RpcCaller]:
    caller = RpcCaller(addresses, deadline_seconds=deadline_seconds)
    try:
        yield caller
    finally:
        await caller.close()


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def address(desk: Desk) -> AsyncIterator[str]:
    async with core(desk) as (_, address):
        yield address


@pytest.fixture
async def caller(address: str) -> AsyncIterator[RpcCaller]:
    async with edge(address) as caller:
        yield caller


async def get(caller: RpcCaller, name: str) -> str:
    return str((await caller.call(GET, m.GetCampaignRequest(scope=SCOPE, id=name))).campaign.name)


async def copy(caller: RpcCaller, name: str) -> str:
    return str((await caller.call(COPY, m.DuplicateCampaignRequest(scope=SCOPE, id=name))).campaign.name)


async def create(caller: RpcCaller, name: str) -> str:
    reply = await caller.call(CREATE, m.CreateCampaignRequest(scope=SCOPE, campaign=m.Campaign(name=name)))
    return str(reply.campaign.name)


class TestCalls:
    async def test_slow_call_does_not_delay_its_neighbours(self, desk: Desk, caller: RpcCaller) -> None:
        desk.gates["slow"] = asyncio.Event()
        slow = asyncio.ensure_future(get(caller, "slow"))
        names = [f"c{number}" for number in range(100)]
        assert await asyncio.gather(*(get(caller, name) for name in names)) == names
        assert not slow.done()
        desk.gates["slow"].set()
        assert await slow == "slow"

    async def test_refused_call_does_not_fail_its_neighbours(self, caller: RpcCaller) -> None:
        answers = await asyncio.gather(*(get(caller, name) for name in ("a", "fault", "b")), return_exceptions=True)
        fault = answers[1]
        assert (answers[0], answers[2]) == ("a", "b")
        assert isinstance(fault, Fault)
        assert (fault.status, fault.reason, fault.facts) == (Status.FAILED_PRECONDITION, "CAP_DAY", {"resets_at": 7})
        assert (fault.message, fault.retry_after_seconds) == ("geschafft: ü " * 200, 2.5)

    async def test_call_carries_its_trace_and_actor(self, caller: RpcCaller) -> None:
        async def ask(number: int) -> str:
            trace.current.set(f"{number:032x}")
            trace.actor.set(f"Zoë {number}")
            return await get(caller, "trace")

        answers = await asyncio.gather(*(asyncio.create_task(ask(number)) for number in (1, 2)))
        assert answers == [f"{number:032x} Zoë {number}" for number in (1, 2)]

    async def test_call_past_its_deadline_is_given_up_alone(self, desk: Desk, address: str) -> None:
        desk.gates["never"] = asyncio.Event()
        async with edge(address, deadline_seconds=2.0) as caller:
            assert await get(caller, "before") == "before"
            copied = asyncio.ensure_future(copy(caller, "never"))
            with pytest.raises(Fault) as caught:
                await get(caller, "never")
            assert (caught.value.status, caught.value.reason) == (Status.UNAVAILABLE, "CORE_UNAVAILABLE")
            desk.gates["never"].set()
            assert await copied == "never", "a lengthy operation has longer"
            assert await get(caller, "after") == "after"

    async def test_cancelled_call_is_finished_by_core(self, desk: Desk, caller: RpcCaller) -> None:
        desk.gates["left"] = asyncio.Event()
        left = asyncio.ensure_future(get(caller, "left"))
        await desk.arrived.wait()
        left.cancel()
        desk.gates["left"].set()
        assert await get(caller, "next") == "next"
        assert desk.seen == ["left", "next"]

    async def test_message_over_the_limit_is_refused_alone(self, caller: RpcCaller) -> None:
        answers = await asyncio.gather(
            create(caller, "x" * MESSAGE_BYTES_MAX), create(caller, "a"), return_exceptions=True
        )
        assert isinstance(answers[0], Fault)
        assert (answers[0].status, answers[0].reason) == (Status.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
        assert answers[1] == "a"

    async def test_text_that_no_message_can_hold_is_refused(self, caller: RpcCaller) -> None:
        for name in ("\ud800", "a\0"):
            with pytest.raises(Fault) as caught:
                await create(caller, name)
            assert (caught.value.status, caught.value.reason) == (Status.INVALID_ARGUMENT, "VALIDATION")


class TestReplicas:
    async def test_stop_of_core_loses_no_call(self, desk: Desk) -> None:
        async with core(desk) as (first, one), core(desk) as (_, two), edge(one, two) as caller:
            requests = [asyncio.ensure_future(create(caller, f"c{number}")) for number in range(20)]
            await desk.arrived.wait()
            stopped = asyncio.ensure_future(first.stop())
            while not stopped.done():
                requests.append(asyncio.ensure_future(create(caller, f"c{len(requests)}")))
                await asyncio.sleep(0)
            requests += [asyncio.ensure_future(create(caller, f"c{len(requests) + number}")) for number in range(20)]
            names = [f"c{number}" for number in range(len(requests))]
            assert await asyncio.gather(*requests) == names
            assert sorted(desk.seen) == sorted(names)

    async def test_busy_game_is_spread_by_player_and_a_calm_one_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spread, "CALLS_PER_REPLICA", 16)
        desks = [Desk() for _ in range(3)]
        async with AsyncExitStack() as stack:
            cores = [await stack.enter_async_context(core(desk)) for desk in desks]
            addresses = [address for _, address in cores]
            caller, calmed = [await stack.enter_async_context(edge(*addresses)) for _ in range(2)]

            async def asked_by(players: int, caller: RpcCaller = caller) -> list[set[str]]:
                for desk in desks:
                    desk.players.clear()
                own: dict[str, Any] = {"scope": SCOPE, "id": "hot", "session_id": "s"}
                plays = [m.PlayRequest(player_id=f"p{nth % players}", **own) for nth in range(2 * players)]
                await asyncio.gather(*(caller.call(PLAY, play) for play in plays))
                return [{*desk.players} for desk in desks if desk.players]

            assert [len(own) for own in await asked_by(4)] == [4]
            first = next(server for desk, (server, _) in zip(desks, cores, strict=True) if desk.players)
            for left in (3, 2):
                await asked_by(50)
                shares = [len(own) for own in await asked_by(50)]
                assert len(shares) == left and sum(shares) == 50 and min(shares) > 5, "a player asked two, or none"
                await first.stop()
            monkeypatch.setattr(spread, "CALM_SECONDS", 0.01)
            await asked_by(50, calmed)
            await until(lambda: asked_by(4, calmed), lambda it: len(it) == 1)

    async def test_stop_of_core_waits_for_slow_calls(self, desk: Desk) -> None:
        desk.gates["slow"] = asyncio.Event()
        async with core(desk) as (server, address), edge(address) as caller:
            slow = asyncio.ensure_future(get(caller, "slow"))
            await desk.arrived.wait()
            stopped = asyncio.ensure_future(server.stop())
            with pytest.raises(Fault) as caught:
                await get(caller, "late")
            assert caught.value.status is Status.UNAVAILABLE
            assert not stopped.done()
            desk.gates["slow"].set()
            assert await slow == "slow"
            await stopped

    async def test_lost_call_is_retried_only_where_it_is_idempotent(self, desk: Desk, address: str) -> None:
        async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(HELLO)
            await reader.readuntil(b"lost-")
            writer.close()

        breaker = await asyncio.start_server(break_off, "127.0.0.1", 0)
        async with breaker, edge(f"127.0.0.1:{breaker.sockets[0].getsockname()[1]}", address) as caller:
            with pytest.raises(Fault) as caught:
                await create(caller, "lost-create")  # The turn of the broken one.
            assert caught.value.reason == "CORE_UNAVAILABLE"
            assert await get(caller, "turn") == "turn"
            assert await get(caller, "lost-get") == "lost-get"
            play = m.PlayRequest(scope=SCOPE, id="lost-play", session_id="s")
            assert (await caller.call(PLAY, play)).play_id == "lost-play"
        assert desk.seen == ["turn", "lost-get", "lost-play"]

    @pytest.mark.parametrize("said", [b"", b"\0\0\6\4\0\0\0\0\0", HELLO[:4], HELLO[:-1] + b"0"])
    @pytest.mark.parametrize("hangs_up", [True, False])
    async def test_unknown_peer_gets_no_request(self, desk: Desk, address: str, said: bytes, hangs_up: bool) -> None:
        """A Core of another version: the next one does what was meant for it, once."""
        heard = bytearray()

        async def be_strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            heard.extend(await reader.readexactly(len(HELLO)))
            if not hangs_up:
                heard.extend(await reader.read())
            writer.close()

        stranger = await asyncio.start_server(be_strange, "127.0.0.1", 0)
        async with stranger, edge(f"127.0.0.1:{stranger.sockets[0].getsockname()[1]}", address) as caller:
            assert [await create(caller, name) for name in ("one", "two", "three")] == ["one", "two", "three"]
        assert (bytes(heard[: len(HELLO)]), desk.seen) == (HELLO, ["one", "two", "three"])
        assert b"one" not in heard


class TestConnection:
    async def send(self, address: str, *sent: bytes) -> bytes:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for part in sent:
            writer.write(part)
            await asyncio.sleep(0)
        writer.write_eof()
        async with asyncio.timeout(HANG_SECONDS):
            said = await reader.read()
        writer.close()
        return said

    async def exchange(self, address: str, *sent: bytes) -> list[Answer]:
        said = await self.send(address, OPENING, *(framed(frame) for frame in sent))
        return [answer for frame in unframed(said) for answer in answers_of(frame)]

    async def test_call_that_is_no_message_is_refused_alone(self, address: str) -> None:
        request = m.GetCampaignRequest(scope=SCOPE, id="a")
        deep = msgspec.Raw(b"\x91" * 100_000 + b"\x90")
        rows = [
            *(Call(1, "GetCampaign", body({"id": 5})).row(), Call(2, "GetCampaign", body(request)).row()),
            Call(3, "Nothing", body(request)).row(),
            Call(4, "GetCampaign", body({"scope": None, "of_the_next_release": 1, "id": "b"})).row(),
        ]
        answers = {answer.number: answer for answer in await self.exchange(address, *frames(rows))}
        assert Status(answers[1].status) is Status.INVALID_ARGUMENT
        assert answers[2].result(GET).campaign.name == "a"
        assert Status(answers[3].status) is Status.UNIMPLEMENTED
        assert answers[4].result(GET).campaign.name == "b"
        (refused,) = await self.exchange(address, *frames([Call(1, "GetCampaign", deep).row()]))
        assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)

    @pytest.mark.parametrize("broken", [b"", b"\xc1", b"\x91\x91", b"\x91\x93\x01\x02\x03", b"{}"])
    async def test_malformed_frame_ends_the_connection(self, address: str, broken: bytes) -> None:
        (refused,) = await self.exchange(address, broken)
        assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)

    async def test_frame_over_the_limit_is_refused_before_it_arrives(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(OPENING + struct.pack(">I", 16 * MESSAGE_BYTES_MAX))
        async with asyncio.timeout(HANG_SECONDS):
            (frame,) = unframed(await reader.read())
        (refused,) = answers_of(frame)
        assert (refused.number, Status(refused.status)) == (GOODBYE, Status.INVALID_ARGUMENT)
        writer.close()

    async def test_frames_may_come_in_pieces(self, desk: Desk, address: str) -> None:
        rows = [Call(1, "GetCampaign", body(m.GetCampaignRequest(scope=SCOPE, id="a"))).row()]
        whole = OPENING + b"".join(framed(frame) for frame in frames(rows))
        said = await self.send(address, *(whole[at : at + 1] for at in range(len(whole))))
        assert [len(answers_of(frame)) for frame in unframed(said)] == [1]
        assert desk.seen == ["a"]

    async def test_edge_that_reads_no_answers_is_read_no_more(self, desk: Desk, address: str) -> None:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        sent = 0
        call = body(m.GetCampaignRequest(scope=SCOPE, id="x" * 9_000))
        writer.write(OPENING)
        with pytest.raises(TimeoutError):
            while sent < 10_000:
                writer.write(framed(next(frames([Call(sent, "GetCampaign", call).row()]))))
                sent += 1
                async with asyncio.timeout(0.5):
                    await writer.drain()
        seen = len(desk.seen)
        assert 0 < seen < sent
        while len(desk.seen) == seen:
            assert await reader.read(2**20)
        writer.transport.abort()

    async def test_peer_that_is_no_core_is_unavailable(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with other, edge(f"127.0.0.1:{other.sockets[0].getsockname()[1]}") as caller:
            with pytest.raises(Fault) as caught:
                await get(caller, "a")
        assert (caught.value.status, caught.value.reason) == (Status.UNAVAILABLE, "CORE_UNAVAILABLE")
        assert "does not speak the protocol" in caught.value.message


def framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame


OPENING = HELLO + framed(b"")


def unframed(said: bytes) -> list[bytes]:
    assert said.startswith(HELLO)
    found, at = [], len(HELLO)
    while at < len(said):
        (length,) = struct.unpack_from(">I", said, at)
        found.append(said[at + 4 : at + 4 + length])
        at += 4 + length
    assert at == len(said)
    return found


class TestFrames:
    async def test_messages_of_a_pause_or_of_one_turn_go_in_one_frame(self) -> None:
        sent: list[int] = []
        queue = SendQueue(lambda frame: sent.append(len(answers_of(frame))))
        for number in range(10):
            queue.put(number, Answer(number).row())
            await asyncio.sleep(0)
        assert sent == []
        queue.resume()
        for number in range(50):
            queue.put(number, Answer(number).row())
        assert queue.withdraw(7)
        await asyncio.sleep(0)
        assert sent == [10, 49]
        assert not queue.withdraw(8)

    def test_frames_are_bounded_and_keep_the_order(self) -> None:
        rows = [Call(number, "x" * size, body(None)).row() for number, size in enumerate((9, FRAME_BYTES, 9, 9, 9))]
        made = [calls_of(frame) for frame in frames(rows)]
        assert [[call.number for call in calls] for calls in made] == [[0], [1], [2, 3, 4]]

    def test_message_of_every_operation_crosses_as_it_is(self) -> None:
        failed = []
        for operation, make in itertools.product(OPERATIONS, (filled, lambda message: message())):
            request, reply = make(operation.request), make(operation.reply)
            (call,) = calls_of(next(frames([Call(1, operation.name, body(request)).row()])))
            (answer,) = answers_of(next(frames([Answer(1, body(reply)).row()])))
            if (call.message(operation), answer.result(operation)) != (request, reply):
                failed.append(operation.name)
            assert type(call.message(operation)) is operation.request
        assert failed == []

    def test_enum_value_of_the_next_release_crosses(self) -> None:
        reply = m.GameReply(game=m.Game(status=m.GameStatus(99)))
        assert Answer(1, body(reply)).result(BY_NAME["GetGame"]).game.status == 99
