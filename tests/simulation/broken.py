"""Tombola broken on purpose, one promise at a time: the simulation's judging of each must notice.

Unlike what reverted.py brings back, nobody ever made these. They are no subtle bugs, but show that a check looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from runtime import events
from runtime.operations import fulfillment
from runtime.streams import backfill, expiry


@contextmanager
def gaps_are_not_filled() -> Iterator[None]:
    """What the streams lost stays lost."""

    async def begin(self: backfill.Filling) -> None:
        """Nobody looks."""

    with patch.object(backfill.Filling, "begin", begin):
        yield


@contextmanager
def rows_tell_under_another_id() -> Iterator[None]:
    """What is found in the rows has not the id that the stream told it by."""
    whole = backfill._happened

    def happened(tenant_id: str, row: Any, data: events.EventData, *, nth: int = 0, id: str = "") -> Any:
        return whole(tenant_id, row, data, nth=nth, id=id or f"evt_{row['id']}_{nth}")

    with patch.object(backfill, "_happened", happened):
        yield


@contextmanager
def expiry_keeps_the_stock() -> Iterator[None]:
    """What expires is not given back."""
    with patch.object(expiry, "give_back", _nothing):
        yield


@contextmanager
def retry_takes_no_stock() -> Iterator[None]:
    """A delivery that was given up is tried again, with a unit that may be somebody else's."""
    with patch.object(fulfillment, "take_again", _nothing):
        yield


@contextmanager
def callbacks_are_awaited_for_ever() -> Iterator[None]:
    """Nobody gives up a delivery whose callback does not come."""
    with patch.object(expiry, "give_up_awaited", _nothing):
        yield


async def _nothing(*_: Any) -> None:
    """Does nothing."""


BROKEN: Final[dict[str, tuple[Callable[[], AbstractContextManager[None]], str]]] = {
    made.__name__: (made, by)
    for made, by in (
        (gaps_are_not_filled, "an integration hears of everything"),
        (rows_tell_under_another_id, "what happened once has one event id"),
        (expiry_keeps_the_stock, "what is awarded of a prize is what its rewards hold"),
        (retry_takes_no_stock, "what is awarded of a prize is what its rewards hold"),
        (callbacks_are_awaited_for_ever, "what is due is delivered"),
    )
}
"""What is broken, and what it is found by."""
