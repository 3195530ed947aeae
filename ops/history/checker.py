"""Linearizability checker: is there an order of the operations on an object in which each response is right?

An operation takes effect at one moment between its request and its response (linearizability: Herlihy and Wing, 1990).
The search is Wing and Gong's (Testing and verifying concurrent objects, 1993) with Lowe's cache of the
configurations tried before (Testing for linearizability, 2017), as in porcupine. A configuration
is the set of operations that have taken effect, and the resulting state. Each object is checked separately
(a player's plays, a balance, a prize's stock): a history is linearizable if each of its parts is (Herlihy and
Wing's locality; Horn and Kroening, Faster linearizability checking via P-compositionality, 2015).

A request without a response may take effect at any later time, or never. A state may have several successors if the
model does not determine one (a play near midnight counts on either day).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

S = TypeVar("S", bound=Hashable)

FOREVER: Final = float("inf")
CONFIGURATIONS_MAX: Final = 200_000
"""Limit after which the search gives up and reports it. No history of these suites comes near."""


@dataclass(slots=True)
class Op(Generic[S]):
    """An operation on one object.

    step(state) -> the possible next states; empty if the response is impossible in this state.
    optional: it may never have taken effect. label: for reports. about: the numbers of its attempts.
    """

    began: float
    ended: float
    step: Callable[[S], Iterable[S]]
    label: str
    optional: bool = False
    about: tuple[int, ...] = ()


@dataclass(slots=True)
class Verdict:
    """explained: an order exists. longest: the longest explained prefix; blocked: the operations that did not fit."""

    explained: bool
    longest: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    state: Any = None
    about: tuple[int, ...] = ()
    gave_up: bool = False


def check(ops: Sequence[Op[S]], initial: S) -> Verdict:
    """Whether some order explains all of these operations from the initial state."""
    ops = sorted(ops, key=lambda op: (op.began, op.ended, op.label))
    count = len(ops)
    needed = 0
    for nth, op in enumerate(ops):
        if not op.optional:
            needed |= 1 << nth
    best = Verdict(False)
    best_done = -1
    seen: set[tuple[int, float, S]] = set()
    # Depth first. Each entry is a configuration, the latest start of its operations, and the order that led to it as
    # a linked list.
    stack: list[tuple[int, float, S, tuple[Any, int] | None]] = [(0, 0.0, initial, None)]
    while stack:
        done, latest, state, chain = stack.pop()
        if done & needed == needed:
            return Verdict(True, longest=_labels(ops, chain), state=state)
        for nth in range(count):
            # It ended before an operation started that has taken effect, so it can no longer take effect.
            if ops[nth].optional and ops[nth].ended < latest:
                done |= 1 << nth
        if (done, latest, state) in seen:
            continue
        seen.add((done, latest, state))
        if len(seen) > CONFIGURATIONS_MAX:
            return Verdict(True, gave_up=True)
        # An operation cannot precede one that ended before it began: the earliest end of the others is the bound.
        bound = FOREVER
        for nth in range(count):
            if not done >> nth & 1 and not ops[nth].optional and ops[nth].ended < bound:
                bound = ops[nth].ended
        blocked: list[int] = []
        for nth in range(count - 1, -1, -1):
            op = ops[nth]
            if done >> nth & 1 or op.began > bound:
                continue
            after = list(op.step(state))
            if not after and not op.optional:
                blocked.append(nth)
            for next_state in after:
                stack.append((done | 1 << nth, max(latest, op.began), next_state, (chain, nth)))
        finished = (done & needed).bit_count()
        if finished > best_done:
            best_done = finished
            about = sorted({number for nth in blocked for number in ops[nth].about})
            best = Verdict(
                False, _labels(ops, chain), [ops[nth].label for nth in reversed(blocked)], state, tuple(about)
            )
    return best


def _labels(ops: Sequence[Op[Any]], chain: Any) -> list[str]:
    labels = []
    while chain is not None:
        chain, nth = chain
        labels.append(ops[nth].label)
    return labels[::-1]
