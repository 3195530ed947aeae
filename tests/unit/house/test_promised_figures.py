"""Figures of the contract and the faults page equal the code's: tests of behaviour pass whatever they are."""

from typing import Any

import pytest

from runtime.actors import starts
from runtime.http import bodies, connections
from runtime.http.admission import idempotency
from runtime.http.auth import tokens
from runtime.http.feeds import live
from runtime.http.serving import BODY_BYTES_MAX
from runtime.operations.desk import bulk
from runtime.operations.games import trials
from runtime.operations.players import challenges
from runtime.outgoing import connector, schedule, senders, signing
from runtime.rpc import MESSAGE_BYTES_MAX, client
from runtime.settings import Settings
from runtime.streams.consumer import TRIES

SHIPPED = Settings()


@pytest.mark.parametrize(
    ("promise", "figure", "promised"),
    [
        ("an attempt at a webhook ends within 15 s", connector.ATTEMPT_SECONDS, 15.0),
        ("an attempt at a mail ends within 15 s", senders.MAIL_SECONDS, 15.0),
        ("a signature counts for 5 minutes", signing.TOLERANCE_SECONDS, 300),
        ("a session is played within 15 minutes", SHIPPED.session_ttl_seconds, 900),
        ("an answer is kept for its key for 24 h", idempotency.ANSWER_SECONDS, 86_400),
        ("a player's token lives for 15 minutes", SHIPPED.player_token_seconds, 900),
        ("a login code counts for 5 minutes", challenges.CODE_SECONDS, 300),
        ("a login code is sent again after 60 s", challenges.RESEND_SECONDS, 60),
        ("a login code has 5 tries", challenges.TRIES_MAX, 5),
        ("a contact's codes of six digits have 100 wrong guesses", challenges.WRONG_MAX, 100),
        ("a message that fails 5 times is a dead letter", TRIES, 5),
        ("a task waits from 5 s to 10 h", schedule.SCHEDULE_SECONDS, (5, 300, 1800, 7200, 18000, 36000, 36000)),
        ("a player may start and play 10 times a second", SHIPPED.rate_player_per_second, 10.0),
        ("a player may start and play 20 times at once", SHIPPED.rate_player_burst, 20),
        ("an address may 200 times a second", SHIPPED.rate_ip_per_second, 200.0),
        ("an address may 400 times at once", SHIPPED.rate_ip_burst, 400),
        ("a Core that says nothing is asked after 1 s", client.SILENT_SECONDS, 1.0),
        ("a body holds 256 KiB", BODY_BYTES_MAX, 256 * 1024),
        ("a message holds 4 MiB", MESSAGE_BYTES_MAX, 4 * 1024 * 1024),
        ("headers are not believed", (SHIPPED.header_fallback, SHIPPED.development), (False, False)),
        ("a subject of staff has 6 streams of what happens", live.STREAMS_MAX, 6),
        ("staff make 1,000 test plays at once", trials.TIMES_MAX, 1000),
        ("rewards are moved 100 at once", bulk.REWARDS_MAX, 100),
        ("nothing private is called", SHIPPED.outbound_allow_cidrs, ()),
    ],
)
@pytest.mark.fault("Slow or dripping webhook", size="as shipped", figure="an attempt has 15 s")
def test_figure_is_the_one_that_was_promised(promise: str, figure: Any, promised: Any) -> None:
    assert figure == promised, promise


@pytest.mark.parametrize(
    ("promise", "figure", "most"),
    [
        ("503 within 1 s where the pool is exhausted", SHIPPED.database_acquire_timeout_seconds, 1.0),
        ("503 within 1.5 s where a backend is frozen", SHIPPED.database_statement_timeout_seconds, 1.5),
        ("503 within 1.5 s whatever holds a play up", SHIPPED.answer_timeout_seconds, 1.5),
        ("at most 0.25 s for a store that is away", SHIPPED.redis_timeout_seconds, 0.25),
        ("a stop ends within 30 s", SHIPPED.drain_seconds + 2.0, 30.0),
        ("a head has its time, and no more", connections.HEAD_SECONDS, 10.0),
        ("of starts at most 5 s are lost with a process", starts.EVERY_SECONDS, 5.0),
        ("a body has its time, and no more", bodies.BODY_SECONDS, 10.0),
        ("clocks may differ by seconds", tokens.LEEWAY_SECONDS, 5),
        ("an edge gives up on Core", client.DEADLINE_SECONDS, 5.0),
    ],
)
@pytest.mark.fault("Core stopped (SIGTERM)", size="the settings as shipped", figure="the drain is 30 s at most")
@pytest.mark.fault("Postgres backend frozen", size="the settings as shipped", figure="a wait of 1.5 s at most")
@pytest.mark.fault("Pool exhausted", size="the settings as shipped", figure="a wait of 1 s at most")
@pytest.mark.fault("Valkey killed, or frozen 30 s", size="the settings as shipped", figure="a wait of 0.25 s at most")
def test_wait_is_no_longer_than_was_promised(promise: str, figure: float, most: float) -> None:
    assert 0 < figure <= most, promise
