"""The inheritance of a process from its supervisor (supervisor.py): listening sockets, a number, and a link.

The supervisor opens one socket per port and process, with SO_REUSEPORT, so that the kernel spreads new connections over
the processes. A process's successor inherits the same sockets. The connections that wait to be accepted belong to the
socket, so none is reset when a process ends; a process that opened its own socket would reset them.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from typing import Final

VARIABLE: Final = "TOMBOLA_INHERITED"
"""Set by the supervisor only."""

READY: Final = b"r"
"""Sent over the link once the process serves."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """number: the process's, from 1. link: a descriptor that takes READY, and ends with the supervisor.

    listeners: descriptors of the listening sockets, by the port's variable.
    """

    number: int
    link: int
    listeners: Mapping[str, list[int]] = field(default_factory=dict)

    def sockets(self, variable: str) -> list[socket.socket]:
        """The listening sockets of a port."""
        return [socket.socket(fileno=descriptor) for descriptor in self.listeners[variable]]

    def environment(self) -> dict[str, str]:
        """The variable that hands this to a child process."""
        return {VARIABLE: json.dumps(asdict(self))}


def take(environ: MutableMapping[str, str]) -> Inherited | None:
    """The inheritance of this process; None without a supervisor. Its children inherit nothing."""
    text = environ.pop(VARIABLE, "")
    if not text:
        return None
    inherited = Inherited(**json.loads(text))
    for descriptor in (inherited.link, *(one for found in inherited.listeners.values() for one in found)):
        os.set_inheritable(descriptor, False)
    return inherited


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to each address of `host`, to share with other processes. They do not listen yet.

    OSError if another program listens there.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            with _unbound(family, kind, protocol) as probe:
                probe.bind(address)  # Without SO_REUSEPORT: with it, a second Tombola would silently share the port.
            opened.append(_unbound(family, kind, protocol))
            opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            opened[-1].bind(address)
    except BaseException:
        for one in opened:
            one.close()
        raise
    return opened


def share(sockets: list[socket.socket]) -> list[socket.socket]:
    """Further sockets on the same addresses, for another process."""
    made = []
    for one in sockets:
        made.append(_unbound(one.family, one.type, one.proto))
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made[-1].bind(one.getsockname())
    return made


def _unbound(family: int, kind: int, protocol: int) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.setblocking(False)
    return made
