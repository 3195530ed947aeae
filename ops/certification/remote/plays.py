"""Rows for idempotency, stock, caps, draws and rate limits."""

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from ops.certification.remote import draws
from ops.certification.remote.deployment import STOCK, Answer, Broken, Deployment, NotRun, Row, hold

AT_ONCE: Final = 20
CLAIMS_AT_ONCE: Final = 10
ROUNDS: Final = 3
"""How often each guest plays the game with verified draws."""

BURST_MAX: Final = 500
"""A rate limit with a larger burst is not tried: that would be a load test."""

_QUOTA: Final = re.compile(r'"(\w+)";q=(\d+);w=(\d+)')


def counted(answers: Iterable[Answer]) -> dict[str, int]:
    """The number of responses per status and reason, such as "200"."""
    return dict(Counter(f"{answer.http} {answer.reason}".strip() for answer in answers))


def all_of(answers: Iterable[Answer], *allowed: str) -> dict[str, int]:
    """The counts. Raises Broken on any other response."""
    seen = counted(answers)
    hold(seen.keys() <= set(allowed), seen)
    return seen


async def same_key(deployment: Deployment) -> str:
    """Same Idempotency-Key."""
    guest, key = deployment.guests[0], secrets.token_hex(8)
    started = await deployment.start("draws", guest)

    async def play(seed: str) -> Answer:
        return await deployment.play("draws", guest, started, seed, key)

    answers = await asyncio.gather(*(play("one") for _ in range(AT_ONCE)))
    seen = all_of(answers, "200", "409 IDEMPOTENCY_IN_PROGRESS")
    effects = {answer.data["play_id"] for answer in answers if answer.http == 200}
    hold(len(effects) == 1, f"{len(effects)} plays: {seen}")
    again, other = await play("one"), await play("two")
    hold(again.data["play_id"] in effects, "the retry returned another play")
    hold(other.http == 422 and other.reason == "IDEMPOTENCY_MISMATCH", f"another body: {other.summary}")
    return f"1 play of {AT_ONCE}, 422 for another body"


async def same_session(deployment: Deployment) -> str:
    """Same session."""
    guest = deployment.guests[1]
    started = await deployment.start("draws", guest)
    answers = await asyncio.gather(*(deployment.play("draws", guest, started, f"{n}") for n in range(AT_ONCE)))
    seen = all_of(answers, "200", "409 SESSION_PLAYED")
    hold(seen.get("200") == 1, seen)
    stranger = await deployment.play("draws", deployment.guests[2], started, "x")
    hold(stranger.reason in ("SESSION_INVALID", "SESSION_PLAYED"), f"another's session: {stranger.summary}")
    return f"1 play of {AT_ONCE}"


async def stock_race(deployment: Deployment) -> str:
    """Stock race."""
    started = await asyncio.gather(*(deployment.start("stock", guest) for guest in deployment.guests))
    plays = (deployment.play("stock", *own, "race") for own in zip(deployment.guests, started, strict=True))
    answers = await asyncio.gather(*plays)
    all_of(answers, "200")
    wins = sum(len(answer.data["rewards"]) for answer in answers)
    hold(wins == STOCK, f"{wins} wins of a stock of {STOCK}")
    stock = (await deployment.admin("GET", f"/prizes/{deployment.prizes['scarce']}")).data["stock"]
    hold((stock["remaining"], stock["awarded"]) == (0, STOCK), f"the stock says {stock}")
    return f"{wins} wins of {len(answers)} players at once"


async def claims(deployment: Deployment) -> str:
    """Claims and redeems at once."""
    guest = deployment.guests[3]
    reward = (await deployment.round("claims", guest))["rewards"][0]["reward_id"]
    path = f"/rewards/{reward}/claim"
    requests = [deployment.consumer("POST", path, {}, token=guest) for _ in range(CLAIMS_AT_ONCE)]
    claimed = all_of(await asyncio.gather(*requests), "200", "409 ALREADY_CLAIMED")
    hold(claimed.get("200") == 1, f"claims: {claimed}")
    stranger = await deployment.consumer("POST", path, {}, token=deployment.guests[4])
    hold(stranger.http == 404, f"another's reward: {stranger.summary}")
    await deployment.round("coins", guest)
    game = deployment.games["coins"]
    rung = (await deployment.consumer("GET", f"/games/{game}/milestones", token=guest)).data["items"][0]["id"]
    body = {"milestone_id": rung}
    requests = [deployment.consumer("POST", f"/games/{game}/redeem", body, token=guest) for _ in range(CLAIMS_AT_ONCE)]
    redeemed = all_of(await asyncio.gather(*requests), "200", "409 ALREADY_GRANTED")
    hold(redeemed.get("200") == 1, f"redeems: {redeemed}")
    return f"1 claim and 1 redeem of {CLAIMS_AT_ONCE} each"


async def wallets(deployment: Deployment) -> str:
    """Wallets."""
    entries = 0
    for guest in deployment.guests[3:6]:
        await deployment.round("coins", guest)
        balances = (await deployment.consumer("GET", "/wallet", token=guest)).data["items"]
        ledger = (await deployment.consumer("GET", "/wallet/ledger?limit=100", token=guest)).data["items"]
        for balance in balances:
            own = [one for one in ledger if one["currency"] == balance["currency"]]
            hold(sum(one["amount"] for one in own) == balance["balance"] >= 0, f"{balance} of {own}")
            hold(own[0]["balance_after"] == balance["balance"], f"{balance} after {own[0]}")
        entries += len(ledger)
    hold(entries > 0, "nothing was credited")
    return f"{entries} entries"


async def caps(deployment: Deployment) -> str:
    """Caps."""
    guest = deployment.guests[6]
    for game, reason, dated in (("capped", "CAP_USER", False), ("daily", "CAP_DAY", True)):
        sessions = [await deployment.start(game, guest) for _ in range(3)]
        answers = await asyncio.gather(*(deployment.play(game, guest, one, "") for one in sessions))
        seen = all_of(answers, "200", f"400 {reason}")
        hold(seen.get("200") == 1, f"a cap of 1: {seen}")
        _named(await _start(deployment, game, guest), reason, dated)
    _named(await _start(deployment, "turns", guest), "NO_TURNS", False)
    game = deployment.games["dear"]
    rung = (await deployment.consumer("GET", f"/games/{game}/milestones", token=guest)).data["items"][0]["id"]
    refused = await deployment.consumer("POST", f"/games/{game}/redeem", {"milestone_id": rung}, token=guest)
    _named(refused, "THRESHOLD_NOT_REACHED", False)
    return "CAP_USER, CAP_DAY with resets_at, NO_TURNS, THRESHOLD_NOT_REACHED"


async def _start(deployment: Deployment, game: str, guest: str) -> Answer:
    return await deployment.consumer("POST", f"/games/{deployment.games[game]}/start", {}, token=guest)


def _named(refused: Answer, reason: str, dated: bool) -> None:
    hold((refused.http, refused.code, refused.reason) == (400, "FAILED_PRECONDITION", reason), refused.summary)
    hold(not dated or refused.refusal.get("resets_at", 0) > 0, f"{reason} without resets_at")


async def draws_checked(deployment: Deployment) -> str:
    """Every draw."""
    for nth in range(ROUNDS):
        await asyncio.gather(
            *(deployment.round("draws", guest, f"{secrets.token_hex(4)} {nth}") for guest in deployment.guests)
        )
    gone = frozenset({deployment.prizes["scarce"]})
    terms: dict[str, Any] = {}
    for draw in deployment.draws:
        promised = draw.started["revision_hash"]
        if promised not in terms:
            terms[promised] = (await deployment.admin("GET", f"/revisions/{promised}")).data["terms"]
        draws.check(draw, terms[promised], gone if draw.game == "stock" else frozenset())
    won = sum(bool(draw.play["rewards"]) for draw in deployment.draws)
    return f"{len(deployment.draws)} plays, {won} of them won"


async def rates(deployment: Deployment) -> str:
    """Rate limit."""
    guest, path = deployment.guests[7], f"/games/{deployment.games['draws']}/start"
    first = await deployment.consumer("POST", path, {}, token=guest)
    quotas = {name: (int(q), int(w)) for name, q, w in _QUOTA.findall(first.headers.get("RateLimit-Policy", ""))}
    if "player" not in quotas:
        raise Broken("players' starts have no rate limit: no RateLimit-Policy in the response")
    burst, window = quotas["player"]
    if burst > BURST_MAX:
        raise NotRun(f"{burst} concurrent starts are allowed, more than this test sends")
    loop = asyncio.get_running_loop()
    began = loop.time()
    requests = [deployment.consumer("POST", path, {}, token=guest, patient=False) for _ in range(2 * burst + 10)]
    answers = await asyncio.gather(*requests)
    # Tokens that the bucket refills meanwhile may be used too.
    most = burst + 1 + burst * (loop.time() - began) / window
    seen = all_of(answers, "200", "429 RATE_LIMITED")
    hold(seen.get("200", 0) <= most, f"{seen}, where {most:.0f} may pass")
    refused = [answer for answer in answers if answer.http == 429]
    if not refused:
        raise NotRun(f"{len(answers)} starts took {loop.time() - began:.0f} s, which is within the limit")
    hold(all(answer.headers.get("Retry-After", "").isdigit() for answer in refused), "429 without Retry-After")
    waited = int(refused[-1].headers["Retry-After"])
    await asyncio.sleep(waited)
    after = await deployment.consumer("POST", path, {}, token=guest, patient=False)
    hold(after.http == 200, f"after the {waited} s of Retry-After: {after.summary}")
    return f"{seen.get('200', 0)} of {len(answers)} passed, {burst} may; Retry-After {waited} s"


ROWS: Final = (
    Row("Same Idempotency-Key", "1 effect, duplicates get the same response or 409; another body 422", same_key),
    Row("Same session", "1 play", same_session),
    Row("Stock race", f"exactly {STOCK} wins, no 5xx", stock_race),
    Row("Claims and redeems at once", "1 of each", claims),
    Row("Wallets", "the sum of a ledger is its balance", wallets),
    Row("Caps", "refused by FAILED_PRECONDITION, naming the cap", caps),
    Row("Every draw", "is the one that was promised", draws_checked),
    Row("Rate limit", "at most limit + 1 pass; 429 with Retry-After, and after it a start", rates),
)
