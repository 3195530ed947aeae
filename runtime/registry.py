"""Registries: map names in configuration to code.

Seed generators, reward handlers, validators and providers have registries, so that a plugin can add one without a
change here. Registering a taken name is an error, never a replacement.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from runtime.errors import invalid

T = TypeVar("T")

_SHOWN_NAME_LENGTH: Final = 200


class Registry(Generic[T]):
    """Entries of one kind by name; `kind` is their name in messages ("reward handler")."""

    __slots__ = ("_things", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str, thing: T) -> T:
        """Registers `thing` and returns it. Raises ValueError if the name is empty or taken."""
        if not name:
            raise ValueError(f"a {self.kind} needs a name")
        if name in self._things:
            raise ValueError(f"{self.kind} {name!r} is already registered")
        self._things[name] = thing
        return thing

    def get(self, name: str) -> T | None:
        """The entry of that name, or None."""
        return self._things.get(name)

    def names(self) -> list[str]:
        """Every registered name, sorted."""
        return sorted(self._things)

    def require(self, name: str, field: str) -> T:
        """The entry of that name. An unknown name is INVALID_ARGUMENT on `field`, listing the known ones."""
        thing = self._things.get(name)
        if thing is None:
            # repr also escapes characters that JSON cannot carry (lone surrogates).
            shown = repr(name[:_SHOWN_NAME_LENGTH])
            raise invalid(field, f"unknown {self.kind} {shown}; registered: {', '.join(self.names())}")
        return thing


_loaded: set[str] = set()


def load_plugins(modules: Sequence[str]) -> None:
    """Imports each module in PLUGINS and calls its `register()`, if it has one.

    A module is loaded once per process. Raises RuntimeError, naming the module and the setting, if it cannot be
    imported or its `register()` fails (for example for a taken name): a process must not start with only part of its
    rules.
    """
    for name in modules:
        if name in _loaded:
            continue
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise RuntimeError(f"PLUGINS names module {name!r}, which cannot be imported: {error!r}") from error
        register = getattr(module, "register", None)
        if callable(register):
            try:
                register()
            except Exception as error:
                raise RuntimeError(f"PLUGINS names module {name!r}, whose register() failed: {error}") from error
        _loaded.add(name)
