"""The simulated machine: its clocks and randomness derive from the loop and the seed.

Within `simulated_time`, `time.time`, `time.monotonic` and `time.perf_counter` follow the loop, with each process's wall
clock off by the seconds of its `Incarnation`. `os.urandom`, `secrets` and `random` follow the seed, and each process
creates its own identifiers. The order of string sets depends on PYTHONHASHSEED, read at the interpreter's start:
`replays_exactly` says whether it is fixed, and `with_fixed_order` restarts the interpreter if not.
"""

import asyncio
import gc
import importlib.util
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any, Final

import structlog

from ops.simulation.loop import INCARNATION, SimulatedLoop
from runtime import ids, trace

EPOCH: Final = 1_772_323_200.0
"""The simulation starts at midnight of 1 March 2026, UTC."""

MONOTONIC: Final = 1_000_000.0
"""Every process's monotonic clock at the start: clearly not a wall clock."""


def replays_exactly() -> bool:
    """Whether sets of strings have the same order in every interpreter started with this environment."""
    return os.environ.get("PYTHONHASHSEED") == "0"


def with_fixed_order(module: str) -> None:
    """Restarts as `python -m module` with the same arguments and a fixed set order, unless it is fixed already."""
    if not replays_exactly():
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})


@contextmanager
def simulated_time(loop: SimulatedLoop, seed: str) -> Iterator[None]:
    """Simulates time and randomness within the block. Disables the collector, which would end dropped tasks."""
    dice = Random(f"{seed}/machine")
    state, collecting = random.getstate(), gc.isenabled()
    random.seed(f"{seed}/random")
    makers: dict[Any, ModuleType] = {}

    def make(prefix: str) -> str:
        owner = INCARNATION.get(None)
        module = makers.get(owner)
        if module is None:
            module = makers[owner] = _fresh(ids)
        identifier: str = module.make(prefix)
        return identifier

    def wall() -> float:
        owner = INCARNATION.get(None)
        return EPOCH + loop.now + (owner.wall_seconds if owner is not None else 0.0)

    def monotonic() -> float:
        return MONOTONIC + loop.now

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (time, "time", wall),
        (time, "monotonic", monotonic),
        (time, "perf_counter", monotonic),
        (os, "urandom", dice.randbytes),
        (random, "_urandom", dice.randbytes),
        (ids, "make", make),
        (trace, "_bits", dice.getrandbits),
        # Python 3.11's version asks the system for the process id, which takes a tenth of a run.
        (asyncio, "get_running_loop", lambda: loop),
        (asyncio.events, "get_running_loop", lambda: loop),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    gc.disable()
    try:
        for owner, name, own in replaced:
            setattr(owner, name, own)
        ids._pool, ids._used = "", 0  # otherwise the previous run's
        yield
    finally:
        for owner, name, own in before:
            setattr(owner, name, own)
        ids._pool, ids._used = "", 0
        random.setstate(state)
        if collecting:
            gc.enable()


def _fresh(module: ModuleType) -> ModuleType:
    """A second instance of the module, with its own state."""
    assert module.__spec__ is not None and module.__spec__.loader is not None
    copied = importlib.util.module_from_spec(module.__spec__)
    module.__spec__.loader.exec_module(copied)
    return copied


@contextmanager
def captured_logs(events: list[dict[str, Any]]) -> Iterator[None]:
    """Collects log events instead of writing them."""

    def capture(_: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        error = event.get("exc_info")
        if error:  # as text: its frames would keep the run's world alive
            event["exc_info"] = repr(sys.exc_info()[1] if error is True else error)
        events.append({"level": method, **event})
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def ignored_warnings() -> Iterator[None]:
    """Silences the warnings of dropped coroutines when they are collected."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    gc.freeze()  # The collector skips older objects: there may be a thousand times more than the block leaves.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
            gc.collect()
    finally:
        gc.unfreeze()
        sys.unraisablehook = before
