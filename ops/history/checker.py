"""Whether a history can be explained: is there an order of the operations on a thing in which each answer is right?

An operation takes effect at one moment between its request and its answer (linearizability: Herlihy and Wing, 1990).
The search is Wing and Gong's (Testing and verifying concurrent objects, 1993) with Lowe's memory of the
configurations that were tried in vain (Testing for linearizability, 2017), as porcupine does it: a configuration
is the set of operations that have taken effect, and the state that they left. A history is checked thing by thing
(a player's plays, a balance, a prize's stock), since it is linearizable where each of its parts is (Herlihy and
Wing's locality; Horn and Kroening, Faster linearizability checking via P-compositionality, 2015).

What was never answered may take effect at any later time, or never. A state may have several successors, where the
model does not say which (a play near midnight counts on either day).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

S = TypeVar("S", bound=Hashable)

FOREVER: Final = float("inf")
CONFIGURATIONS_MAX: Final = 200_000
"""Beyond so many the search is given up, and says so: no history here comes near."""


@dataclass(slots=True)
class Op(Generic[S]):
    """An operation on one thing.

    step(state) -> the states that it may leave, none where its answer is not one that this state gives.
    optional: it may also never have taken effect. told: for the story. about: the numbers of its attempts.
    """

    began: float
    ended: float
    step: Callable[[S], Iterable[S]]
    told: str
    optional: bool = False
    about: tuple[int, ...] = ()


@dataclass(slots=True)
class Verdict:
    """explained: there is such an order. longest: of what could be explained most; blocked: what then did not fit."""

    explained: bool
    longest: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    state: Any = None
    about: tuple[int, ...] = ()
    gave_up: bool = False


def check(ops: Sequence[Op[S]], initial: S) -> Verdict:
    """Whether some order explains all of these operations, from this state."""
    ops = sorted(ops, key=lambda op: (op.began, op.ended, op.told))
    count = len(ops)
    needed = 0
    for nth, op in enumerate(ops):
        if not op.optional:
            needed |= 1 << nth
    best = Verdict(False)
    best_done = -1
    seen: set[tuple[int, float, S]] = set()
    # Depth first; each entry is a configuration, when the last of its operations was asked at the latest, and the order
    # that led to it, as a chain.
    stack: list[tuple[int, float, S, tuple[Any, int] | None]] = [(0, 0.0, initial, None)]
    while stack:
        done, latest, state, chain = stack.pop()
        if done & needed == needed:
            return Verdict(True, longest=_told(ops, chain), state=state)
        for nth in range(count):
            # It ended before something was asked that has taken effect: it never did.
            if ops[nth].optional and ops[nth].ended < latest:
                done |= 1 << nth
        if (done, latest, state) in seen:
            continue
        seen.add((done, latest, state))
        if len(seen) > CONFIGURATIONS_MAX:
            return Verdict(True, gave_up=True)
        # Nothing can come before what ended before it began: the earliest end of what is left is the bound.
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
            best = Verdict(False, _told(ops, chain), [ops[nth].told for nth in reversed(blocked)], state, tuple(about))
    return best


def _told(ops: Sequence[Op[Any]], chain: Any) -> list[str]:
    told = []
    while chain is not None:
        chain, nth = chain
        told.append(ops[nth].told)
    return told[::-1]
