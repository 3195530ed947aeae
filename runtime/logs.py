"""Logs: one event per line on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from runtime import trace
from runtime.settings import Settings


def configure_logs(settings: Settings) -> None:
    """Configures logs: one event per line, as JSON or readable text (LOG_FORMAT), from LOG_LEVEL up."""
    level = getattr(logging, settings.log_level.upper())
    logging.basicConfig(level=level, format="%(levelname)s %(name)s %(message)s")
    renderer: Any = (
        # The plain traceback: a rich one prints local variables, and with them seeds, sessions and codes.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if settings.log_format == "console"
        else structlog.processors.JSONRenderer()
    )
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_trace_id,
    ]
    if settings.log_format == "json":
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def add_trace_id(_logger: Any, _method: str, event: Any) -> Any:
    """A structlog processor that adds the request's trace id to every line."""
    trace_id = trace.current.get()  # aiohttp handles each request in its own context.
    if trace_id:
        event.setdefault("trace_id", trace_id)
    return event
