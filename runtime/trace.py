"""The current trace: a W3C trace id, 32 hex digits, or empty.

Set where a request arrives (HTTP, RPC, a stream's message); it is added to every log line, event, audit entry and
outgoing call. Not opentelemetry-api's propagator: it takes 6 times as long to extract a trace, 4 times to inject one,
and 22 ms to import, and only the SDK makes new ids.
"""

from __future__ import annotations

import os
import random
import re
from contextvars import ContextVar
from typing import Final

# Version 00 ends after the flags; later ones may continue (W3C Trace Context, 4.3). ff is invalid.
_TRACEPARENT: Final = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-((?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?"
)
_bits: Final = random.Random(os.urandom(32)).getrandbits

current: ContextVar[str] = ContextVar("trace_id", default="")

# The caller's span and flags within the trace, as in `traceparent`: `span_id-flags`; "" for none.
caller: ContextVar[str] = ContextVar("caller", default="")

# The acting person, for the audit log: the subject of the admin's token, set by the admin edge.
actor: ContextVar[str] = ContextVar("actor", default="")

# The tenant of the current work, for its connection quota: set by Core and the committer; "" for none.
tenant: ContextVar[str] = ContextVar("tenant", default="")

# The merchant of the request's scope, for the audit log: set by Core; "" for the tenant itself.
merchant: ContextVar[str] = ContextVar("merchant", default="")


def begin(traceparent: str) -> None:
    """Continues the trace of a `traceparent` (W3C Trace Context, level 1 and later versions); a new one if invalid."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    current.set(new() if match is None else match[1])
    caller.set("" if match is None else match[2])


def new() -> str:
    """A new trace id."""
    return f"{_bits(128):032x}"


def parent() -> str:
    """A `traceparent` that continues the current trace."""
    return f"00-{current.get()}-{caller.get() or f'{_bits(64) or 1:016x}-00'}"
