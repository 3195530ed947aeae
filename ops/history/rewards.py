"""Reward states and revealed codes: a sequential model of each reward's state, and a comparison of the codes in all
responses.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ops.history.checker import FOREVER, Op
from ops.history.reading import Reading, closed
from ops.history.record import Attempt, History, Request
from ops.history.tables import Tables

UNBORN: Final = ""
BEFORE: Final = {
    "claim": frozenset(("won",)),
    "fulfill": frozenset(("won", "claimed", "failed")),
    "revoke": frozenset(("won", "claimed", "fulfilling", "fulfilled", "failed")),
}
"""From which states each move is legal. Stated independently of the service's own table."""

OPERATIONS: Final = {"ClaimReward": "claim", "FulfillReward": "fulfill", "RevokeReward": "revoke"}
AFTER: Final = {"claim": ("claimed", "fulfilled"), "fulfill": ("fulfilled",), "revoke": ("revoked",)}

WORKER: Final = {
    "won": ("fulfilling",),
    "claimed": ("fulfilling",),
    "failed": ("fulfilling",),
    "fulfilling": ("fulfilled", "failed"),
}


class Standing(NamedTuple):
    """A reward's status, and whether it was ever claimed."""

    status: str = UNBORN
    claimed: bool = False


Step = Callable[[Standing], Iterable[Standing]]


def standings(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each reward that was changed or read, except those of merged players."""
    moved, seen = _moved(reading), _seen(reading)
    players = set(reading.players)
    for row in reading.tables["rewards"]:
        reward, player = row["reward_id"], row["player_id"]
        ops = [*moved.get(reward, ()), *seen.get(reward, ())]
        if not ops or player not in players:
            continue
        name, born = reading.name_of(row["prize_id"]), reading.terms.born
        began, ended = reading.births.get(reward, (0.0, FOREVER))
        ops.append(Op(began, ended, _is_born(born.get(name, ("won", "fulfilled"))), "it is won"))
        ops += _unseen(reading, player, row, began)
        if name not in born:
            ops = [Op(op.began, op.ended, _worked(op.step), op.label, op.optional) for op in ops]
        step = _has(Standing(row["status"], row["claimed_at"] is not None))
        end = step if name in born else _worked(step)
        yield f"the reward {reward} ({name})", closed(ops, end, row["status"]), Standing()


def _moved(reading: Reading) -> dict[str, list[Op[Any]]]:
    """What was done to each reward, and what was refused because of its state."""
    found: dict[str, list[Op[Any]]] = defaultdict(list)
    for request in reading.history.of(*OPERATIONS):
        move = OPERATIONS[request.operation]
        label = f"{request.who} {move}s it (#{request.number})"
        if request.ok:
            after = _status(request.data.get("reward", request.data))
            found[request.of].append(Op(request.began, request.ended, _moves(move, (after,)), f"{label}: {after}"))
        elif request.unknown:
            step = _moves(move, AFTER[move])
            found[request.of].append(Op(request.began, FOREVER, step, f"perhaps {label}", optional=True))
        for attempt in request.attempts:
            if (refused := _refused(move, attempt)) is not None:
                label = f"{attempt.reason} for {request.who}'s {move} (#{request.number})"
                found[request.of].append(Op(attempt.began, attempt.ended, refused, label))
    return found


def _seen(reading: Reading) -> dict[str, list[Op[Any]]]:
    """Each reward as shown in its owner's lists."""
    found: dict[str, list[Op[Any]]] = defaultdict(list)
    for request in reading.history.of("ListRewards"):
        for one in request.data["items"] if request.ok else ():
            status = _status(one)
            step = _has(Standing(status, bool(one.get("claimed_at"))))
            found[one["id"]].append(Op(request.began, request.ended, step, f"is seen {status} (#{request.number})"))
    return found


def _unseen(reading: Reading, player: str, row: Any, born: float) -> Iterator[Op[Any]]:
    """Complete lists of the player without the reward: it was not won yet."""
    for request in reading.of(player, "ListRewards"):
        whole = request.ok and not request.data.get("pagination", {}).get("has_more")
        if whole and request.ended > born and row["reward_id"] not in {one["id"] for one in request.data["items"]}:
            yield Op(request.began, request.ended, _has(Standing()), f"is not seen yet (#{request.number})")


def _refused(move: str, attempt: Attempt) -> Step | None:
    """What a refusal implies about the reward. None: nothing."""
    if attempt.reason == "ALREADY_CLAIMED":
        return lambda state: [state] if state.claimed else []
    if attempt.reason != "ILLEGAL_TRANSITION":
        return None
    reported = str((attempt.data or {}).get("reward_status", "")).removeprefix("REWARD_STATUS_").lower()

    def step(state: Standing) -> Iterator[Standing]:
        legal = state.status in BEFORE[move]
        if state.status != UNBORN and not legal and reported in ("", state.status):
            yield state

    return step


def _moves(move: str, after: tuple[str, ...]) -> Step:
    def step(state: Standing) -> Iterator[Standing]:
        if state.status in BEFORE[move]:
            for status in set(after) & set(AFTER[move]):
                yield Standing(status, state.claimed or move == "claim")

    return step


def _is_born(statuses: tuple[str, ...]) -> Step:
    return lambda state: [Standing(status) for status in statuses] if state.status == UNBORN else []


def _has(standing: Standing) -> Step:
    return lambda state: [state] if state == standing else []


def _worked(step: Step) -> Step:
    """The same, after any transitions by a worker."""

    def after(state: Standing) -> Iterator[Standing]:
        reached, new = {state}, [state]
        while new:
            for status in WORKER.get(new.pop().status, ()):
                further = Standing(status, state.claimed)
                if further not in reached:
                    reached.add(further)
                    new.append(further)
        yield from {next_state for one in reached for next_state in step(one)}

    return after


def _status(reward: dict[str, Any]) -> str:
    return str(reward["status"]).removeprefix("REWARD_STATUS_").lower()


# -- codes -------------------------------------------------------------------------------------


def codes(history: History, tables: Tables) -> Iterator[str]:
    """Checks revealed codes: each belongs to one reward, was imported, and never changes."""
    imported = {code for request in history.of("ImportCodes") for code in (request.body or {}).get("codes", ())}
    coded = {row["prize_id"] for row in tables["codes"]}
    held = Counter(row["reward_id"] for row in tables["codes"] if row["reward_id"])
    owners = {row["reward_id"]: row["player_id"] for row in tables["rewards"]}
    became = {row["player_id"]: row["merged_into"] or row["player_id"] for row in tables["players"]}
    code_of: dict[str, str] = {}
    reward_of: dict[str, str] = {}
    for request, reward in _shown(history):
        about, code = reward["id"], reward.get("code", "")
        if not code:
            if reward.get("prize_id") in coded and _status(reward) == "fulfilled" and not reward.get("code_error"):
                yield f"a delivered code is not shown: {request.describe()}: {about}"
            continue
        if code not in imported:
            yield f"a code that was not imported: {request.describe()}: {about}"
        if code_of.setdefault(about, code) != code:
            yield f"two codes of one reward: {request.describe()}: {about}"
        if reward_of.setdefault(code, about) != about:
            yield f"one code of two rewards: {request.describe()}: {reward_of[code]} and {about}"
        if held[about] != 1:
            yield f"{held[about]} codes are stored for a reward whose code was shown: {request.describe()}: {about}"
        owner = owners.get(about, "")
        if request.who in became and became[request.who] != became.get(owner, owner):
            yield f"another player's code: {request.describe()}: {about}"
    yield from (f"{count} codes for one reward: {reward}" for reward, count in held.items() if count > 1)


def _shown(history: History) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Rewards as their owners' responses show them."""
    for request in history.of("ListRewards", "ClaimReward", "Redeem"):
        for attempt in request.attempts:
            if attempt.ok and request.operation == "ListRewards":
                yield from ((request, one) for one in attempt.data["items"])
            elif attempt.ok:
                yield request, attempt.data.get("reward", attempt.data)
