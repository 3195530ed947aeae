"""The circuit breaker: open after failures in a row, tried once a pause, closed by a success."""

from __future__ import annotations

from runtime.outgoing.breaker import CircuitBreaker


def failing(breaker: CircuitBreaker, times: int, now: float) -> None:
    for _ in range(times):
        assert breaker.admits(now)
        breaker.record(True, now)


def breaker() -> CircuitBreaker:
    return CircuitBreaker(failures_to_open=3, open_seconds=10.0)


def test_breaker_opens_at_the_last_failure_in_a_row() -> None:
    one = breaker()
    failing(one, 2, 0.0)
    assert not one.is_open(0.0) and one.admits(0.0)
    one.record(True, 0.0)
    assert one.is_open(9.9) and not one.admits(9.9)


def test_success_in_between_begins_the_count_anew() -> None:
    one = breaker()
    failing(one, 2, 0.0)
    one.record(False, 0.0)
    failing(one, 2, 0.0)
    assert one.admits(0.0)


def test_breaker_admits_one_attempt_per_pause() -> None:
    one = breaker()
    failing(one, 3, 0.0)
    assert [one.admits(now) for now in (10.0, 10.0, 19.9, 20.0)] == [True, False, False, True]


def test_trial_that_succeeds_closes_it_and_one_that_fails_does_not() -> None:
    one = breaker()
    failing(one, 3, 0.0)
    assert one.admits(10.0)
    one.record(True, 11.0)
    assert not one.admits(19.0)
    assert one.admits(20.0)
    one.record(False, 20.0)
    assert one.admits(20.0) and one.admits(20.0)


def test_asking_whether_it_is_open_takes_no_trial() -> None:
    one = breaker()
    failing(one, 3, 0.0)
    assert not one.is_open(10.0) and not one.is_open(10.0)
    assert one.admits(10.0)
