"""Many at once for one thing, over both Cores."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from ops.certification.catalogue import CAP, World
from ops.certification.row import row
from ops.certification.run import Run
from ops.history.record import Asked

RACERS: Final = 200
UNITS: Final = 10
AT_ONCE: Final = 20
UNDER_A_KEY: Final = 50


@row("stock-race", fault="Stock race", quick=2, full=20, unit="races of 200 players", furnished=False)
async def stock_race(run: Run) -> None:
    """200 players at once, over both Cores, play for a prize of 10 units."""
    for nth in range(run.size):
        prize = f"mug {nth}"
        await run.world.prize(prize, total=UNITS)
        await run.world.game(f"wheel {nth}", handler_config={"prizes": run.world.chances(**{prize: 1.0})})
        rounds = [_round(run.world, f"wheel {nth}", f"racer{nth}-{each}") for each in range(RACERS)]
        played = await asyncio.gather(*rounds)
        won = sum(bool(asked.data["rewards"]) for asked in played if asked.ok)
        if won != UNITS or nth == run.size - 1:
            run.figure(f"wins in race {nth + 1}", won, exactly=UNITS)
    run.figure("answers that are errors of the service", _errors(run), exactly=0)


@row("same-session", fault="Same session", quick=5, full=50, unit="sessions", furnished=False)
async def same_session(run: Run) -> None:
    """One session is played 20 times at once, over both Cores."""
    await _wheel(run.world)
    plays = []
    for nth in range(run.size):
        session = await _session(run.world, "wheel", f"p{nth}")
        body = {"session_id": session, "payload": {}}
        path = f"/games/{run.world.ids['wheel']}/play"
        once = run.world.client.once
        asked = [
            once("Play", f"p{nth}", "POST", path, body, surface="core", of="wheel", key=f"twin {nth} {each}")
            for each in range(AT_ONCE)
        ]
        plays.append(sum(one.ok for one in await asyncio.gather(*asked)))
    run.figure("sessions that were not played exactly once", sum(count != 1 for count in plays), exactly=0)
    run.figure("answers that are errors of the service", _errors(run), exactly=0)


@row("same-key", fault="Same Idempotency-Key", quick=5, full=50, unit="keys", furnished=False)
async def same_key(run: Run) -> None:
    """One key is used 50 times at once, over both Cores, and then for another body."""
    await _wheel(run.world)
    told: Counter[str] = Counter()
    differing = mismatched = 0
    once = run.world.client.once
    for nth in range(run.size):
        who, key = f"p{nth}", f"key {nth}"
        session = await _session(run.world, "wheel", who)
        path, body = f"/games/{run.world.ids['wheel']}/play", {"session_id": session, "payload": {}}
        asked = [once("Play", who, "POST", path, body, surface="core", of="wheel", key=key) for _ in range(UNDER_A_KEY)]
        answers = await asyncio.gather(*asked)
        told.update(one.outcome for one in answers)
        differing += len({str(one.data) for one in answers if one.ok}) != 1
        other = {"session_id": session, "payload": {}, "client_seed": "another"}
        more = {"surface": "core", "of": "wheel", "key": key, "refusals": ("IDEMPOTENCY_MISMATCH",)}
        again = await once("Play", who, "POST", path, other, **more)
        mismatched += again.attempts[-1].http == 422
    run.figure("keys with other than one answer", differing, exactly=0)
    run.figure("answered as the first", told["ok"])
    unlike = sum(count for outcome, count in told.items() if outcome not in ("ok", "IDEMPOTENCY_IN_PROGRESS"))
    run.figure("answered otherwise than that or 409", unlike, exactly=0)
    run.figure("other bodies under a used key told 422", mismatched, exactly=run.size)


@row("cap-race", fault="Two turns of one game in one commit", quick=5, full=50, unit="players", furnished=False)
async def cap_race(run: Run) -> None:
    """60 plays of one player at once, over both Cores, of a game with a cap of 4."""
    await run.world.prize("points", type="points", value=1)
    await run.world.game(
        "capped", handler_config={"prizes": run.world.chances(points=1.0)}, rules={"max_plays_per_user": CAP}
    )
    wrong = 0
    for nth in range(run.size):
        rounds = await asyncio.gather(*(_round(run.world, "capped", f"p{nth}", f"{each}") for each in range(60)))
        wrong += sum(one.ok for one in rounds) != CAP
    run.figure("players with other than 4 plays", wrong, exactly=0)


async def _wheel(world: World) -> None:
    await world.prize("mug")
    await world.game("wheel", handler_config={"prizes": world.chances(mug=1.0)})


async def _session(world: World, game: str, who: str, nth: str = "") -> str:
    path = f"/games/{world.ids[game]}/start"
    key = f"start {game} {who} {nth}"
    asked = await world.client.ask("Start", who, "POST", path, {}, surface="core", of=game, key=key)
    return str(asked.data["session_id"]) if asked.ok else ""


async def _round(world: World, game: str, who: str, nth: str = "") -> Asked:
    """Starts and plays; the play, or the start that was refused."""
    session = await _session(world, game, who, nth)
    if not session:
        return world.history.asked[-1]
    body = {"session_id": session, "payload": {}}
    path, key = f"/games/{world.ids[game]}/play", f"play {game} {who} {nth}"
    return await world.client.ask("Play", who, "POST", path, body, surface="core", of=game, key=key)


def _errors(run: Run) -> int:
    return sum(attempt.http >= 500 for attempt in run.history.attempts)
