"""What browsers load: the widget, the hosted pages, the dashboard and the API's page.

`built/` has the served files of the first three, which ops/web/build.js makes from the folders beside it. `verifiers/`
has the programs that auditors run.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

_FOLDER: Final[Traversable] = resources.files(__package__)


def read(path: str) -> bytes:
    """The file at this path below runtime/web."""
    return _FOLDER.joinpath(path).read_bytes()


def read_all(folder: str) -> dict[str, bytes]:
    """The files of a folder below runtime/web, by their paths in it."""
    return dict(_files(_FOLDER.joinpath(folder), ""))


def _files(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, f"{above}{item.name}/")
        else:
            yield above + item.name, item.read_bytes()
