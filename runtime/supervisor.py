"""Runs `tombola all` in several processes that share its ports: starts, restarts, rolls and stops them.

SIGTERM and SIGINT stop all processes within their drain. SIGHUP is a rolling restart: one after the other, each process
is replaced by a new one, and drains only once the new one serves. A process that dies is restarted; when processes die
repeatedly, the supervisor stops and reports why, so that its own supervisor (systemd, a container) takes over.

The processes are programs of their own, not forks: a rolling restart loads the code of an upgraded package. They stop
when the supervisor is killed, because their link to it ends.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runtime import inherited
from runtime.inherited import READY, Inherited

START_SECONDS: Final = 60.0
"""How long a process may take until it serves."""

KILL_SECONDS: Final = 5.0
"""How long after its drain a process may live before it is killed."""

DEATHS_MAX: Final = 3
DEATHS_SECONDS: Final = 60.0
"""The supervisor stops when processes died DEATHS_MAX times within this time."""

BACK_OFF_SECONDS: Final = 2.0
"""How long a restart waits per earlier death within DEATHS_SECONDS."""


class Port(NamedTuple):
    """A port to serve. each: every process has its own, counted up from this one."""

    variable: str
    host: str
    number: int
    each: bool = False


class SupervisorError(RuntimeError):
    """The processes cannot run; the message says why."""


class Process:
    """One started process."""

    def __init__(self, started: asyncio.subprocess.Process, link: socket.socket) -> None:
        self.pid = started.pid
        self._started = started
        self._link = link

    @property
    def status(self) -> str:
        """How it ended, in words."""
        code = self._started.returncode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"

    async def is_ready(self) -> bool:
        """Waits until it serves; False if it ended, or did not serve in time, and was killed."""
        try:
            async with asyncio.timeout(START_SECONDS):
                if await asyncio.get_running_loop().sock_recv(self._link, 1) == READY:
                    return True
        except (TimeoutError, OSError):
            self.signal(signal.SIGKILL)
        await self.ended()
        return False

    async def ended(self) -> None:
        await self._started.wait()
        self._link.close()

    async def stop(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL when its drain has taken `seconds`."""
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.ended(), seconds)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.ended()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._started.send_signal(number)


@dataclass
class Slot:
    """The place of one process and its successors, which inherit its sockets."""

    number: int
    listeners: dict[str, list[socket.socket]]
    environment: dict[str, str]
    process: Process | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the process is replaced: a death during a rolling restart would start two successors."""


class Supervisor:
    """Runs `command` in `processes` processes. Call `run` once.

    environment: of each process; `environment_of_others`: over it, for all but the first.
    """

    def __init__(
        self,
        command: Sequence[str],
        ports: Sequence[Port],
        processes: int,
        *,
        environment: Mapping[str, str],
        environment_of_others: Mapping[str, str],
        drain_seconds: float,
    ) -> None:
        self._command = command
        self._stop_seconds = drain_seconds + KILL_SECONDS
        self._deaths: deque[float] = deque(maxlen=DEATHS_MAX)
        self._stopping = asyncio.Event()
        self._failure = ""
        self._rolling: asyncio.Task[None] | None = None
        self._running: set[Process] = set()
        self._slots: list[Slot] = []
        first = _open(ports, processes)
        for number in range(1, processes + 1):
            own = {port.variable: str(port.number + number - 1) for port in ports if port.each}
            others = environment_of_others if number > 1 else {}
            self._slots.append(Slot(number, _listeners(first, ports, number), {**environment, **own, **others}))

    async def run(self) -> None:
        """Runs the processes until SIGTERM or SIGINT; SIGHUP replaces them one after another.

        SupervisorError if they cannot start or die repeatedly.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._roll_soon)
        working = asyncio.ensure_future(self._work())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            stopping.cancel()
            working.cancel()
            (outcome,) = await asyncio.gather(working, return_exceptions=True)
            await asyncio.gather(*(process.stop(self._stop_seconds) for process in self._running))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
        if isinstance(outcome, Exception):
            raise outcome
        if self._failure:
            raise SupervisorError(self._failure)

    def _stop(self) -> None:
        """Stops the processes; a second signal kills them."""
        if self._stopping.is_set():
            for process in self._running:
                process.signal(signal.SIGKILL)
        self._stopping.set()

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._stopping.set()

    async def _work(self) -> None:
        """Starts all processes and keeps them running. The first starts alone, to report a wrong setting once."""
        first, *others = self._slots
        async with asyncio.TaskGroup() as self._tasks:
            for slots in ([first], others):
                try:
                    started = await asyncio.gather(*(self._start(slot) for slot in slots))
                except OSError as error:
                    self._fail(f"a process could not be started ({error})")
                    return
                for slot, process in zip(slots, started, strict=True):
                    if process not in self._running:
                        self._fail(f"process {slot.number} did not start: it ended with {process.status}, see above")
                        return
                    self._place(process, slot)
            say(f"{len(self._slots)} processes serve")
            await self._stopping.wait()

    def _place(self, process: Process, slot: Slot) -> None:
        """Makes this the slot's process, which is replaced when it dies."""
        slot.process = process
        self._tasks.create_task(self._watch(process, slot))

    async def _start(self, slot: Slot) -> Process:
        """Starts a process in the slot, and waits until it serves or has ended: then it is not in `_running`.

        OSError if the system cannot start one now.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        listeners = {name: [one.fileno() for one in found] for name, found in slot.listeners.items()}
        handed = Inherited(slot.number, theirs.fileno(), listeners)
        with theirs, ExitStack() as unless_started:
            unless_started.enter_context(ours)
            started = await asyncio.create_subprocess_exec(
                *self._command,
                env={**slot.environment, **handed.environment()},
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *(one for found in listeners.values() for one in found)],
                process_group=0,  # Ctrl-C signals the terminal's whole group, and a second signal ends the drain.
            )
            unless_started.pop_all()
        process = Process(started, ours)
        self._running.add(process)
        if not await process.is_ready():
            self._running.discard(process)
        return process

    async def _watch(self, process: Process, slot: Slot) -> None:
        """Waits for the end of a process, and restarts it unless a rolling restart has replaced it."""
        await process.ended()
        self._running.discard(process)
        async with slot.changing:
            if process is not slot.process:
                return
            how = f"process {slot.number} ({process.pid}) ended with {process.status}"
            while slot.process is process:
                self._deaths.append(time.monotonic())
                recent = sum(at > time.monotonic() - DEATHS_SECONDS for at in self._deaths)
                if recent == DEATHS_MAX:
                    self._fail(f"processes ended {DEATHS_MAX} times within {DEATHS_SECONDS:g} s; {how}, see above")
                    return
                say(f"{how}; restarting it")
                await asyncio.sleep(BACK_OFF_SECONDS * (recent - 1))
                try:
                    self._place(await self._start(slot), slot)
                except OSError as error:
                    how = f"process {slot.number} could not be started ({error})"

    def _roll_soon(self) -> None:
        if self._stopping.is_set():
            return
        if not all(slot.process for slot in self._slots) or (self._rolling and not self._rolling.done()):
            say("a start or a rolling restart is under way; send SIGHUP again when it is done")
        else:
            self._rolling = self._tasks.create_task(self._roll())

    async def _roll(self) -> None:
        """Replaces the processes one after the other. If a new one does not start, the old ones go on."""
        for slot in self._slots:
            async with slot.changing:
                try:
                    old, new = slot.process, await self._start(slot)
                except OSError as error:
                    say(f"rolling restart given up: the new process {slot.number} could not be started ({error})")
                    return
                if new not in self._running:
                    say(f"rolling restart given up: the new process {slot.number} ended with {new.status}, see above")
                    return
                self._place(new, slot)
            assert old is not None
            await old.stop(self._stop_seconds)
            say(f"process {slot.number} replaced: {old.pid} by {new.pid}")
        say("rolling restart done")


def say(text: str) -> None:
    print(f"tombola: {text}", file=sys.stderr, flush=True)


def _open(ports: Sequence[Port], processes: int) -> dict[int, list[socket.socket]]:
    """The first sockets of every port number. SupervisorError if one is unavailable."""
    opened: dict[int, list[socket.socket]] = {}
    for port in ports:
        if not port.number:
            raise SupervisorError(f"{port.variable} must not be 0: processes share a port that is known to all")
        for number in range(port.number, port.number + (processes if port.each else 1)):
            if number in opened:
                raise SupervisorError(f"{port.variable}: port {number} has another use; each process has its own port")
            try:
                opened[number] = inherited.open_sockets(port.host, number)
            except OSError as error:
                why = f"cannot listen on {port.host}:{number} ({error.strerror or error})"
                raise SupervisorError(f"{why}; free it, or set {port.variable}") from None
    return opened


def _listeners(
    first: Mapping[int, list[socket.socket]], ports: Sequence[Port], number: int
) -> dict[str, list[socket.socket]]:
    """The sockets of a process, by variable: the first ones, or further ones on the same addresses."""
    found = {}
    for port in ports:
        opened = first[port.number + (number - 1 if port.each else 0)]
        found[port.variable] = opened if port.each or number == 1 else inherited.share(opened)
    return found
