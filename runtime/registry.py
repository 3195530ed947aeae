"""Open registries: a name in configuration stands for a thing in code.

Seed generators, reward handlers, validators and providers are registries (spec.md, "Game composition"),
so that a plugin can add one without a change here. A taken name is an error, never a replacement.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from runtime.errors import invalid

T = TypeVar("T")

_SHOWN_NAME_LENGTH: Final = 200


class Registry(Generic[T]):
    """Things of one kind by name; `kind` is how messages call them ("reward handler")."""

    __slots__ = ("_things", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str, thing: T) -> T:
        """Give `thing` its name and return it. Raises ValueError when the name is empty or taken."""
        if not name:
            raise ValueError(f"a {self.kind} needs a name")
        if name in self._things:
            raise ValueError(f"{self.kind} {name!r} is already registered")
        self._things[name] = thing
        return thing

    def get(self, name: str) -> T | None:
        """The thing of that name, or None."""
        return self._things.get(name)

    def names(self) -> list[str]:
        """Every registered name, sorted."""
        return sorted(self._things)

    def require(self, name: str, field: str) -> T:
        """The thing of that name; an unknown one is INVALID_ARGUMENT on `field`, listing what there is."""
        thing = self._things.get(name)
        if thing is None:
            # repr also escapes what JSON could not carry (lone surrogates).
            shown = repr(name[:_SHOWN_NAME_LENGTH])
            raise invalid(field, f"unknown {self.kind} {shown}; registered: {', '.join(self.names())}")
        return thing


_loaded: set[str] = set()


def load_plugins(modules: Sequence[str]) -> None:
    """Import each module that the setting PLUGINS names and call its `register()`, where it has one.

    A module is loaded once per process, however many applications start in it. Raises RuntimeError,
    naming the module and the setting, when it cannot be imported or its `register()` fails (a taken
    name, for one): a process must not start with half of its rules.
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
