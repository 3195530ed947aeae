"""The trace that the work at hand belongs to: a W3C trace id, 32 hex digits, or empty.

Set where a request comes in (HTTP, RPC, a stream's message); it goes into every log line, event,
audit entry and outgoing call.
"""

from __future__ import annotations

from contextvars import ContextVar

current: ContextVar[str] = ContextVar("trace_id", default="")

# Who acts, for the audit log: the subject of the admin's token, set by the admin edge.
actor: ContextVar[str] = ContextVar("actor", default="")
