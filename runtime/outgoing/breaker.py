"""A circuit breaker: leaves a receiver alone for a while after several failures in a row.

Closed, it admits every attempt. The failure that makes it `failures_to_open` in a row opens it, and nothing
is admitted for `open_seconds`. After those it is tried: one attempt is admitted, and another each time that
`open_seconds` pass, until one succeeds and closes it.

Times are seconds of any one monotonic clock; the caller reads it. (The ephemeral store's breaker,
runtime/stores/ephemeral.py, is another thing: it opens at the first failure of a connection that all share,
and a probe of its own closes it.)
"""

from __future__ import annotations


class CircuitBreaker:
    """One receiver's breaker, in this process."""

    __slots__ = ("_failures", "_failures_to_open", "_open_seconds", "_open_until")

    def __init__(self, *, failures_to_open: int, open_seconds: float) -> None:
        self._failures_to_open = failures_to_open
        self._open_seconds = open_seconds
        self._failures = 0
        self._open_until = 0.0

    def is_open(self, now: float) -> bool:
        """Whether the receiver is being left alone. Asking changes nothing."""
        return self._failures >= self._failures_to_open and now < self._open_until

    @property
    def is_closed(self) -> bool:
        """Whether every attempt is admitted."""
        return self._failures < self._failures_to_open

    def admits(self, now: float) -> bool:
        """Whether an attempt may begin, which the caller then makes: where one is a trial, it is the only one."""
        if self._failures < self._failures_to_open:
            return True
        if self.is_open(now):
            return False
        self._open_until = now + self._open_seconds
        return True

    def ended(self, failed: bool, now: float) -> None:
        """Notes how an attempt ended."""
        self._failures = self._failures + 1 if failed else 0
        if self._failures == self._failures_to_open:
            self._open_until = now + self._open_seconds
