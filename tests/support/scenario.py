"""The size of a fault, and the figures that a test of it measures.

A test says by its mark which fault it makes, how often, and what it asserts:

    @pytest.mark.fault("Core killed (SIGKILL)", small=2, full=50, unit="kills", figure="1 play a key")
    async def test_...(scenario: Scenario) -> None:

The suite makes `small` of it; `./ops/certify` sets TOMBOLA_FULL and makes `full`.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

FULL: Final = bool(os.environ.get("TOMBOLA_FULL"))
FIGURE: Final = "figure"
"""The property of a test's report that holds one measured figure."""


@dataclass
class Scenario:
    """size: how often, or how long, the fault is made. full: at its full size. dice: seeded by the test's name."""

    size: int
    full: bool
    dice: random.Random
    _record: Callable[[str, object], None]

    def figure(
        self, name: str, value: float, unit: str = "", *, most: float | None = None, least: float | None = None
    ) -> None:
        """Records a figure. Fails the test if it is out of its bounds."""
        actual = self._record_figure(name, value, unit, most, least)
        assert (most is None or value <= most) and (least is None or value >= least), actual

    def seconds(self, name: str, value: float, most: float) -> None:
        """Records a time. Fails the test if it is too long, at full size only: other tests slow a small one down."""
        actual = self._record_figure(name, value, "s", most, None)
        assert not self.full or value <= most, actual

    def _record_figure(self, name: str, value: float, unit: str, most: float | None, least: float | None) -> str:
        bounds = [f"at most {most:g}"] if most is not None else []
        bounds += [f"at least {least:g}"] if least is not None else []
        actual = " ".join(filter(None, [name, f"{value:.3g}", unit, f"({', '.join(bounds)})" if bounds else ""]))
        self._record(FIGURE, actual)
        return actual


@pytest.fixture
def scenario(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Scenario:
    size = request.node.get_closest_marker("fault").kwargs["full" if FULL else "small"]
    return Scenario(size, FULL, random.Random(request.node.name), record_property)
