"""What browsers load: the widget, the hosted pages, the dashboard and the API's page. `runtime.http` serves it."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

FILES: Final[Traversable] = resources.files(__package__)
"""The folder of this package."""
