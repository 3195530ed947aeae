"""A circuit breaker: pauses deliveries to a receiver after several consecutive failures.

Closed, it admits every attempt. After `failures_to_open` consecutive failures it opens and admits nothing
for `open_seconds`. Then it is half-open: it admits one trial attempt per `open_seconds`, until one succeeds
and closes it.

Times are seconds of one monotonic clock, which the caller reads. The ephemeral store's breaker
(runtime/stores/ephemeral.py) is different: it opens at the first failure of a shared connection, and its
own probe closes it.
"""

from __future__ import annotations


class CircuitBreaker:
    __slots__ = ("_failures", "_failures_to_open", "_open_seconds", "_open_until")

    def __init__(self, *, failures_to_open: int, open_seconds: float) -> None:
        self._failures_to_open = failures_to_open
        self._open_seconds = open_seconds
        self._failures = 0
        self._open_until = 0.0

    def is_open(self, now: float) -> bool:
        """Whether deliveries are paused. Has no side effect."""
        return self._failures >= self._failures_to_open and now < self._open_until

    @property
    def is_closed(self) -> bool:
        """Whether every attempt is admitted."""
        return self._failures < self._failures_to_open

    def admits(self, now: float) -> bool:
        """Whether an attempt may begin. After True the caller must make it: when half-open, no other is admitted."""
        if self._failures < self._failures_to_open:
            return True
        if self.is_open(now):
            return False
        self._open_until = now + self._open_seconds
        return True

    def record(self, failed: bool, now: float) -> None:
        self._failures = self._failures + 1 if failed else 0
        if self._failures == self._failures_to_open:
            self._open_until = now + self._open_seconds
