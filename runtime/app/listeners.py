"""The ports of a process: Core's REST and RPC, the two edges, health and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from runtime.app.process import CannotStart, Running
from runtime.background import Background
from runtime.core import Caller
from runtime.http import admin, callback, consumer
from runtime.http import core as core_http
from runtime.http.admission.local_rates import Gate
from runtime.http.auth import revocations
from runtime.http.core_guard import CoreGuard
from runtime.http.cors import Cors
from runtime.http.dashboard import serving as dashboard
from runtime.http.docs import pages as docs
from runtime.http.edge import Edge
from runtime.http.login import routes as login
from runtime.http.login import sign_in
from runtime.http.operational import Check, mount_health, mount_metrics
from runtime.http.pages import assets, hosted, unsubscribe, verify_page
from runtime.http.pages import files as widget
from runtime.http.serving import Runner, make_app
from runtime.http.serving import serve as listen
from runtime.http.traffic import Traffic
from runtime.inherited import Inherited
from runtime.rpc.server import RpcServer
from runtime.settings import SettingsError
from runtime.stores.ephemeral import Ephemeral


class Listeners:
    """The open ports of a process. `checks`: the readiness checks, by name."""

    def __init__(
        self, process: Running, inherited: Inherited | None, ephemeral: Ephemeral, checks: Mapping[str, Check]
    ) -> None:
        self._process = process
        self._settings = process.settings
        self._inherited = inherited
        self._ephemeral = ephemeral
        self._checks = checks
        self._runners: list[Runner] = []
        self._rpc_stops: list[Callable[[], Awaitable[None]]] = []
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._edge_jobs = Background()

    async def open(self, roles: frozenset[str]) -> None:
        """Opens the ports of `roles` and writes their addresses to the process."""
        settings, process = self._settings, self._process
        if "core" in roles:
            assert process.caller is not None
            app = self._make_core_app(process.caller)
            process.core_url = await self._serve(app, settings.core_host, settings.core_port, "CORE_PORT")
        if "rpc" in roles:
            assert process.caller is not None
            process.rpc_address = await self._serve_rpc(process.caller)
        if "consumer" in roles:
            edge = await self._build_edge("consumer")
            process.consumer_url = await self._serve(
                self._make_consumer_app(edge),
                settings.host,
                settings.consumer_port,
                "CONSUMER_PORT",
                edge.new_gate(),
                Cors(edge.origins),
                Traffic("consumer"),
            )
        if "admin" in roles:
            edge = await self._build_edge("admin")
            app = self._make_admin_app(edge)
            process.admin_url = await self._serve(
                app, settings.host, settings.admin_port, "ADMIN_PORT", edge.new_gate(), traffic=Traffic("admin")
            )
        # A separate port, so that monitoring needs no access to anything else.
        app = make_app()
        mount_health(app, self._checks)
        mount_metrics(app)
        process.metrics_url = await self._serve(app, settings.core_host, settings.metrics_port, "METRICS_PORT")

    async def stop_accepting(self) -> None:
        """Refuses new requests and waits for the accepted ones."""
        stops = [runner.cleanup() for runner in self._runners] + [stop() for stop in self._rpc_stops]
        await asyncio.gather(*stops, return_exceptions=True)

    async def stop_jobs(self) -> None:
        """Ends the edges' background jobs. They call Core, so they end before it."""
        await self._edge_jobs.close()

    async def close(self) -> None:
        """Closes the edges' connections to issuers and Core."""
        for close in self._closers:
            await close()

    def _make_core_app(self, core: Caller) -> web.Application:
        settings = self._settings
        app = make_app(body_bytes_max=settings.body_limit_bytes)
        core_http.mount(app, core, CoreGuard(settings.core_hosts, settings.service_token))
        docs.mount(app, "core")
        mount_health(app, self._checks)
        mount_metrics(app)
        return app

    def _make_consumer_app(self, edge: Edge) -> web.Application:
        settings = self._settings
        app = make_app(body_bytes_max=settings.body_limit_bytes)
        consumer.mount(app, edge)
        try:
            login.mount(app, edge)
        except SettingsError as error:
            raise CannotStart(f"tombola: {error}") from None
        docs.mount(app, "consumer", header_fallback=settings.header_fallback)
        widget.mount(app)
        hosted.mount(app, edge)
        verify_page.mount(app)
        unsubscribe.mount(app, edge)
        assets.mount(app, edge)
        mount_health(app, self._checks)
        return app

    def _make_admin_app(self, edge: Edge) -> web.Application:
        settings = self._settings
        app = make_app(body_bytes_max=settings.body_limit_bytes)
        admin.mount(app, edge)
        issuer = sign_in.mount(app, edge)
        if issuer is not None:
            self._closers.append(issuer.close)
        dashboard.mount(app)
        widget.mount(app)  # The game designer shows it.
        assets.mount(app, edge)
        callback.mount(app, edge.caller, default_tenant=settings.default_tenant)
        docs.mount(app, "admin", role_matrix=settings.role_matrix)
        mount_health(app, self._checks)
        return app

    async def _build_edge(self, name: str) -> Edge:
        assert self._process.caller is not None
        edge = Edge.build(self._settings, self._process.caller, self._ephemeral, staff=name == "admin")
        self._closers.append(edge.close)
        await self._edge_jobs.repeat(f"revocations of {name}", edge.revocations.read, revocations.EVERY_SECONDS)
        return edge

    async def _serve(
        self,
        app: Any,
        host: str,
        port: int,
        variable: str,
        gate: Gate | None = None,
        cors: Cors | None = None,
        traffic: Traffic | None = None,
    ) -> str:
        """Listens. Returns the URL."""
        every = round(1 / self._settings.log_sample) if self._settings.log_sample else 0
        try:
            runner = await listen(
                app,
                host,
                port,
                shutdown_seconds=self._process.drain_seconds,
                access_log_every=every,
                sockets=self._sockets(variable),
                gate=gate,
                cors=cors,
                connections_max=max(1, self._settings.connections_max // self._settings.processes),
                proxies=self._settings.trusted_proxies,
                traffic=traffic,
                short_path=self._settings.short_path,
            )
        except OSError as error:
            raise CannotStart(_port_message(host, port, variable, error)) from None
        self._runners.append(runner)
        address = runner.addresses[0]
        return f"http://{_url_host(address[0])}:{address[1]}"

    def _sockets(self, variable: str) -> list[socket.socket]:
        """The inherited sockets of a port; empty: the process opens its own."""
        return self._inherited.sockets(variable) if self._inherited is not None else []

    async def _serve_rpc(self, core: Caller) -> str:
        host, port = self._settings.core_host, self._settings.rpc_port
        server = RpcServer(core, self._settings.service_token)
        try:
            address = await server.start(host, port, self._sockets("RPC_PORT"))
        except OSError as error:
            raise CannotStart(_port_message(host, port, "RPC_PORT", error)) from None
        self._rpc_stops.append(server.stop)
        return address


def _port_message(host: str, port: int, variable: str, error: OSError) -> str:
    return f"tombola: cannot listen on {host}:{port} ({error.strerror or error}); free it, or set {variable}"


def _url_host(host: str) -> str:
    """The host as a URL writes it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host
