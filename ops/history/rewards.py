"""What becomes of a reward, and the codes that players are told: a sequential model of each reward's state, and codes
compared among all answers that have one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ops.history.checker import FOREVER, Op
from ops.history.reading import Reading, closed
from ops.history.record import Asked, Attempt, History
from ops.history.tables import Tables

UNBORN: Final = ""
BEFORE: Final = {
    "claim": frozenset(("won",)),
    "fulfill": frozenset(("won", "claimed", "failed")),
    "revoke": frozenset(("won", "claimed", "fulfilling", "fulfilled", "failed")),
}
"""From which states each move is legal (contract.md, "Rewards and tasks"), stated here once more."""

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
    """Each reward that somebody moved or looked at, but for those of who became another."""
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
            ops = [Op(op.began, op.ended, _worked(op.step), op.told, op.optional) for op in ops]
        step = _has(Standing(row["status"], row["claimed_at"] is not None))
        end = step if name in born else _worked(step)
        yield f"the reward {reward} ({name})", closed(ops, end, row["status"]), Standing()


def _moved(reading: Reading) -> dict[str, list[Op[Any]]]:
    """What was done to each reward, and what was not for its state."""
    found: dict[str, list[Op[Any]]] = defaultdict(list)
    for asked in reading.history.of(*OPERATIONS):
        move = OPERATIONS[asked.operation]
        told = f"{asked.who} {move}s it (#{asked.number})"
        if asked.ok:
            after = _status(asked.data.get("reward", asked.data))
            found[asked.of].append(Op(asked.began, asked.ended, _moves(move, (after,)), f"{told}: {after}"))
        elif asked.unknown:
            step = _moves(move, AFTER[move])
            found[asked.of].append(Op(asked.began, FOREVER, step, f"perhaps {told}", optional=True))
        for attempt in asked.attempts:
            if (refused := _refused(move, attempt)) is not None:
                told = f"is told {attempt.reason} where {asked.who} would {move} it (#{asked.number})"
                found[asked.of].append(Op(attempt.began, attempt.ended, refused, told))
    return found


def _seen(reading: Reading) -> dict[str, list[Op[Any]]]:
    """Each reward as its owner's lists show it."""
    found: dict[str, list[Op[Any]]] = defaultdict(list)
    for asked in reading.history.of("ListRewards"):
        for one in asked.data["items"] if asked.ok else ():
            status = _status(one)
            step = _has(Standing(status, bool(one.get("claimed_at"))))
            found[one["id"]].append(Op(asked.began, asked.ended, step, f"is seen {status} (#{asked.number})"))
    return found


def _unseen(reading: Reading, player: str, row: Any, born: float) -> Iterator[Op[Any]]:
    """Whole lists of the player's that do not have it: it was not there yet."""
    for asked in reading.of(player, "ListRewards"):
        whole = asked.ok and not asked.data.get("pagination", {}).get("has_more")
        if whole and asked.ended > born and row["reward_id"] not in {one["id"] for one in asked.data["items"]}:
            yield Op(asked.began, asked.ended, _has(Standing()), f"is not seen yet (#{asked.number})")


def _refused(move: str, attempt: Attempt) -> Step | None:
    """What a refusal says of the reward. None: nothing."""
    if attempt.reason == "ALREADY_CLAIMED":
        return lambda state: [state] if state.claimed else []
    if attempt.reason != "ILLEGAL_TRANSITION":
        return None
    told = str((attempt.data or {}).get("reward_status", "")).removeprefix("REWARD_STATUS_").lower()

    def step(state: Standing) -> Iterator[Standing]:
        legal = state.status in BEFORE[move]
        if state.status != UNBORN and not legal and told in ("", state.status):
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
    """The same, after whatever a worker may have done before."""

    def after(state: Standing) -> Iterator[Standing]:
        reached, new = {state}, [state]
        while new:
            for status in WORKER.get(new.pop().status, ()):
                further = Standing(status, state.claimed)
                if further not in reached:
                    reached.add(further)
                    new.append(further)
        yield from {left for one in reached for left in step(one)}

    return after


def _status(reward: dict[str, Any]) -> str:
    return str(reward["status"]).removeprefix("REWARD_STATUS_").lower()


# -- codes -------------------------------------------------------------------------------------


def codes(history: History, tables: Tables) -> Iterator[str]:
    """What is wrong with the codes that players were told: each is one reward's, of those imported, always the same."""
    imported = {code for asked in history.of("ImportCodes") for code in (asked.body or {}).get("codes", ())}
    coded = {row["prize_id"] for row in tables["codes"]}
    held = Counter(row["reward_id"] for row in tables["codes"] if row["reward_id"])
    owners = {row["reward_id"]: row["player_id"] for row in tables["rewards"]}
    became = {row["player_id"]: row["merged_into"] or row["player_id"] for row in tables["players"]}
    code_of: dict[str, str] = {}
    reward_of: dict[str, str] = {}
    for asked, reward in _told(history):
        about, code = reward["id"], reward.get("code", "")
        if not code:
            if reward.get("prize_id") in coded and _status(reward) == "fulfilled" and not reward.get("code_error"):
                yield f"a code that was delivered is not told: {asked.told()}: {about}"
            continue
        if code not in imported:
            yield f"a code that nobody imported: {asked.told()}: {about}"
        if code_of.setdefault(about, code) != code:
            yield f"two codes of one reward: {asked.told()}: {about}"
        if reward_of.setdefault(code, about) != about:
            yield f"one code of two rewards: {asked.told()}: {reward_of[code]} and {about}"
        if held[about] != 1:
            yield f"{held[about]} codes are kept for a reward whose code was told: {asked.told()}: {about}"
        owner = owners.get(about, "")
        if asked.who in became and became[asked.who] != became.get(owner, owner):
            yield f"a code of another's: {asked.told()}: {about}"
    yield from (f"{count} codes for one reward: {reward}" for reward, count in held.items() if count > 1)


def _told(history: History) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """Rewards as their owners were answered them."""
    for asked in history.of("ListRewards", "ClaimReward", "Redeem"):
        for attempt in asked.attempts:
            if attempt.ok and asked.operation == "ListRewards":
                yield from ((asked, one) for one in attempt.data["items"])
            elif attempt.ok:
                yield asked, attempt.data.get("reward", attempt.data)
