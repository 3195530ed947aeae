"""The launch check: what would go wrong, or perhaps not as meant, if a campaign were put in front of players as it is.

It reads, changes nothing and forbids nothing. What is looked at: the campaign's dates, its active games, the prizes
that these and its boards name, its quests, its budget, and the settings of this Core that players would meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.snapshot import segments_of
from runtime.errors import unknown
from runtime.operations.games.definitions import prizes_named
from runtime.operations.row import STAFF, Operation
from runtime.outgoing.channels import BY_STAFF, CHANNELS
from runtime.outgoing.providers import CHANNEL_PROVIDERS, INTEGRATION_PROVIDERS
from runtime.rules import REWARD_HANDLERS
from runtime.rules import ui as looks
from runtime.rules.payloads import CaughtPayload, ScorePayload
from runtime.settings import Settings
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("launch")

ALMOST: Final = 1e-9
COUNTS: Final = ("points", "turns")
"""Types whose value is a count, and no money."""

Items: TypeAlias = Iterator[m.LaunchItem]


@dataclass(frozen=True, slots=True)
class Looked:
    """All that is looked at: rows of sql/launch.sql, and the settings."""

    campaign: Any
    games: Sequence[Any]
    prizes: Sequence[Any]
    quests: Sequence[Any]
    integrations: Sequence[str]
    settings: Settings
    now: float


async def get_launch_check(engine: Engine, request: m.GetCampaignRequest) -> m.LaunchCheckReply:
    """What was looked at, problems first, then warnings. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id, campaign_id = tenant_of(request), request.id
    async with engine.database.connection() as connection:
        campaign = await connection.fetchrow(_SQL["campaign"], tenant_id, campaign_id, merchant_of(request))
        if campaign is None:
            raise unknown("campaign", campaign_id)
        games = await connection.fetch(_SQL["games"], tenant_id, campaign_id)
        boards = await connection.fetch(_SQL["boards"], tenant_id, campaign_id)
        named = {prize_id for game in games for _, prize_id in prizes_named(game["definition"])}
        named |= {rank["prize_id"] for board in boards for rank in board["prizes"]}
        prizes = await connection.fetch(_SQL["prizes"], tenant_id, sorted(named))
        quests = await connection.fetch(_SQL["quests"], tenant_id, campaign_id)
        types = [row["type"] for row in await connection.fetch(_SQL["integrations"], tenant_id, campaign_id)]
    looked = Looked(
        campaign=campaign,
        games=games,
        prizes=prizes,
        quests=quests,
        integrations=types,
        settings=engine.settings,
        now=engine.clock.now(),
    )
    return m.LaunchCheckReply(items=sorted(items(looked), key=lambda one: -one.level))


def items(looked: Looked) -> Items:
    """Each thing that was looked at."""
    yield from _dates(looked)
    yield from _games(looked)
    yield from _wheels(looked)
    for prize in looked.prizes:
        yield from _stock(prize)
        yield from _delivery(prize, looked.settings)
    yield from _timing(looked)
    yield from _turns(looked)
    yield from _budget(looked)
    yield from _pictures(looked)
    yield from _looks(looked)
    yield from _integrations(looked)
    yield from _logins(looked)
    yield from _addresses(looked)


def _ok(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.OK, field=field, message=message)


def _warning(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.WARNING, field=field, message=message)


def _problem(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.PROBLEM, field=field, message=message)


def _of(section: str, identifier: str, field: str) -> str:
    """A field of something else than the campaign: prizes/prize_1.stock.total."""
    return f"{section}/{identifier}.{field}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


# -- the campaign and its games --------------------------------------------------------------


def _dates(looked: Looked) -> Items:
    end = looked.campaign["end_date"]
    if end and end <= looked.now:
        yield _problem("end_date", "It ends in the past")
    elif not end:
        yield _warning("end_date", "It has no end")
    else:
        yield _ok("end_date", "Its dates are right")


def _games(looked: Looked) -> Items:
    count = len(looked.games)
    if not count:
        yield _problem("games", "No game is active")
        return
    yield _ok("games", "One game is active" if count == 1 else f"{count} games are active")
    for game in looked.games:
        for total in _odds(game["definition"]["handler_config"]):
            field = _of("games", game["game_id"], "handler_config")
            if total > ALMOST:
                yield _ok(field, f"The odds of {game['name']} add up to {round(total * 100, 4):g} %")
            else:
                yield _warning(field, f"{game['name']} has no prizes: every play loses")


def _odds(config: Mapping[str, Any]) -> Iterator[float]:
    """What the probabilities of each list of prizes add up to, where a handler has such."""
    for one in _drawn(config):
        yield math.fsum(prize.get("probability", 0) for prize in one)


def _drawn(config: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """The lists of prizes that a play draws from."""
    prizes, groups = config.get("prizes"), config.get("prize_groups")
    return [prizes] if isinstance(prizes, list) else groups.values() if isinstance(groups, dict) else ()


# -- wheels ----------------------------------------------------------------------------------


def _wheels(looked: Looked) -> Items:
    """That each wheel shows what a spin may win, and nothing else."""
    names = {prize["prize_id"]: prize["name"] for prize in looked.prizes}
    for game in looked.games:
        definition, field = game["definition"], _of("games", game["game_id"], "ui.wheel.segments")
        segments, lists = segments_of(definition), list(_drawn(definition["handler_config"]))
        if not segments or not lists or not _has_wheel(definition):
            continue
        if not any(segments):
            yield from _unnamed(game["name"], field, segments=len(segments), prizes=max(map(len, lists)))
            continue
        won = dict.fromkeys(one["prize_id"] for prizes in lists for one in prizes if one.get("probability"))
        if definition["on_unavailable"] == "fallback" and definition["fallback_prize_id"]:
            won[definition["fallback_prize_id"]] = None
        for prize_id in won:
            if prize_id not in segments:
                told = f"The wheel of {game['name']} has no segment for {names.get(prize_id, prize_id)}"
                yield _problem(field, f"{told}: it points at nothing when that is won")
        for number, prize_id in enumerate(segments, start=1):
            if prize_id and prize_id not in won:
                shown = names.get(prize_id) or _label(definition, number) or prize_id
                told = f"Segment {number} of the wheel of {game['name']} shows {shown}, which has no odds"
                yield _problem(field, f"{told}: no spin wins it")
        if all(segments) and min(_odds(definition["handler_config"])) < 1 - ALMOST:
            told = f"The wheel of {game['name']} has no segment without a prize"
            yield _warning(field, f"{told}: it points at nothing when a spin wins nothing")


def _has_wheel(definition: Mapping[str, Any]) -> bool:
    """Whether the widget draws a wheel (runtime/web/widget/games.js)."""
    kind: str = definition["type"]
    return kind == "spin_wheel" or (kind != "scratch_card" and str(definition["reward_handler"]) == "probability")


def _unnamed(name: str, field: str, *, segments: int, prizes: int) -> Items:
    """Segments that name no prize stand for the prizes in their order."""
    if prizes > segments:
        yield _problem(field, f"The wheel of {name} has fewer segments ({segments}) than prizes ({prizes})")
    else:
        told = f"The segments of {name} name no prizes: the first shows the first prize of the odds, and so on"
        yield _warning(field, told)


def _label(definition: Mapping[str, Any], number: int) -> str:
    segment = definition["ui"]["wheel"]["segments"][number - 1]
    return str(segment.get("label") or segment.get("emoji") or "")


# -- prizes ----------------------------------------------------------------------------------


def _stock(prize: Any) -> Items:
    name, left, codes = prize["name"], prize["remaining"], prize["codes"]
    if prize["type"] == "points":
        return
    field = _of("prizes", prize["prize_id"], "stock.total")
    if not prize["total"]:
        if codes is None:
            yield _ok(field, f"{name} is unlimited")
    elif left:
        yield _ok(field, f"{name} has stock: {_number(left)} left")
    else:
        yield _problem(field, f"{name} has no stock left")
    if codes is not None:
        yield from _codes(prize)
    least = min((one for one in (left if prize["total"] else None, codes) if one is not None), default=None)
    if least and least <= prize["low_stock_at"]:
        yield _warning(_of("prizes", prize["prize_id"], "low_stock_at"), f"{name} runs low: {_number(least)} left")


def _codes(prize: Any) -> Items:
    name, codes, field = prize["name"], prize["codes"], _of("prizes", prize["prize_id"], "codes")
    if not codes:
        yield _problem(field, f"{name} has no codes to give")
    elif prize["total"] and codes != prize["remaining"]:
        yield _warning(field, f"{name} has {_number(codes)} codes for a stock of {_number(prize['remaining'])}")
    else:
        yield _ok(field, f"{name} has {_number(codes)} codes")


def _delivery(prize: Any, settings: Settings) -> Items:
    """That what is delivered elsewhere has somebody who delivers it."""
    name, channel, field = prize["name"], prize["channel"], _of("prizes", prize["prize_id"], "fulfillment")
    known = CHANNELS.get(channel)
    if known is None or not (known.instant or channel == BY_STAFF or CHANNEL_PROVIDERS.get(channel)):
        yield _problem(field, f"Nobody delivers {name}: no plugin has the channel {channel}")
        return
    if prize["idle_codes"]:
        told = f"{name} has codes that nobody is given: its delivery is {channel}, and voucher_code gives them"
        yield _warning(field, told)
    if channel in ("webhook", "workflow") and not prize["channel_config"].get("secret"):
        if channel == "workflow":
            yield _problem(field, f"{name} has no secret: no callback of its workflow can be verified")
        else:
            yield _warning(field, f"{name} is sent without a secret: its receiver cannot know that it comes from here")
    if channel == "workflow" and not settings.callback_base_url:
        told = f"Callbacks for {name} go to {settings.callback_url}: set CALLBACK_BASE_URL to where its workflow is"
        yield _warning("CALLBACK_BASE_URL", told)


# -- catching and turns -----------------------------------------------------------------------------------


def _timing(looked: Looked) -> Items:
    """That prizes of value are not won by a score or a catch that took no time."""
    valuable = {prize["prize_id"] for prize in looked.prizes if prize["value"] and prize["type"] not in COUNTS}
    for game in looked.games:
        definition = game["definition"]
        handler = REWARD_HANDLERS.get(definition["reward_handler"])
        timed = handler is not None and handler.Payload in (ScorePayload, CaughtPayload)
        if not timed or definition["rules"].get("verify_timing"):
            continue
        if any(prize_id in valuable for _, prize_id in prizes_named(definition)):
            told = f"{game['name']} has prizes of value and does not verify timing: a client may send any score at once"
            yield _warning(_of("games", game["game_id"], "rules.verify_timing"), told)


def _turns(looked: Looked) -> Items:
    """That turns which are given can be spent, and those which plays need are given."""
    given = [(_of("prizes", one["prize_id"], "type"), one["name"]) for one in looked.prizes if one["type"] == "turns"]
    given += [(_of("quests", one["quest_id"], "turns"), f"The quest {one['name']}") for one in looked.quests]
    rules = [(game, game["definition"]["rules"]) for game in looked.games]
    # Beyond a day's free plays each takes a turn, where there is one.
    if rules and not any(rule.get("requires_turn") or rule.get("max_plays_per_day") for _, rule in rules):
        for field, giver in given:
            yield _warning(field, f"{giver} gives turns, and no active game takes any")
    for game in (game for game, rule in rules if rule.get("requires_turn")):
        field = _of("games", game["game_id"], "rules.requires_turn")
        if given:
            yield _ok(field, f"The turns that {game['name']} takes are given")
        else:
            yield _warning(field, f"Every play of {game['name']} takes a turn, and no quest or prize gives any")


# -- what it costs ---------------------------------------------------------------------------


def _budget(looked: Looked) -> Items:
    amount, currency, used = (looked.campaign[name] for name in ("budget", "budget_currency", "used"))
    if not amount:
        yield _ok("budget", "It has no budget to be held to")
        return
    cost = 0.0
    for prize in looked.prizes:
        if prize["type"] in COUNTS or not prize["value"]:
            continue
        left = _left(prize)
        if prize["currency"] != currency:
            is_of = f"is of {prize['currency']}" if prize["currency"] else "names no currency"
            field = _of("prizes", prize["prize_id"], "currency")
            yield _warning(field, f"The value of {prize['name']} {is_of}: it does not count against the budget")
        elif left is None:
            field = _of("prizes", prize["prize_id"], "stock.total")
            yield _warning(field, f"{prize['name']} is unlimited: nothing holds what it costs to the budget")
        else:
            cost += left * prize["value"]
    held = f"the budget of {_number(amount)} {currency}"
    if used >= amount:
        yield _problem("budget", f"{_number(used)} {currency} of {held} are used")
    elif used + cost > amount:
        given = f", with the {_number(used)} {currency} given," if used else ""
        yield _warning("budget", f"All that may be won costs {_number(cost)} {currency}{given} more than {held}")
    else:
        yield _ok("budget", f"All that may be won costs {_number(cost)} {currency}, within {held}")


def _left(prize: Any) -> int | None:
    """How much of a prize may still be won; None: no end."""
    counts = [prize["remaining"]] if prize["total"] else []
    counts += [prize["codes"]] if prize["codes"] is not None else []
    return min(counts, default=None)


# -- what players meet -----------------------------------------------------------------------


def _pictures(looked: Looked) -> Items:
    for game in looked.games:
        ui, name, field = game["definition"]["ui"] or {}, game["name"], _of("games", game["game_id"], "ui")
        if not ui:
            yield _warning(field, f"{name} has no look of its own: it is shown plainly")
        elif not ui.get("picture"):
            yield _warning(field, f"{name} has no picture: it is offered by its name alone")
        else:
            yield _ok(field, f"{name} has a look of its own")
        yield from _idle_pictures(game)
    shown = {prize_id for game in looked.games for prize_id in _things(game["definition"]["ui"])}
    for prize in looked.prizes:
        if prize["type"] != "points" and not prize["image_url"] and prize["prize_id"] not in shown:
            yield _warning(_of("prizes", prize["prize_id"], "image_url"), f"{prize['name']} has no picture")


def _idle_pictures(game: Any) -> Items:
    """Pictures of prizes that the game cannot award: most often of one that was replaced. Segments: see `_wheels`."""
    definition = game["definition"]
    awarded = {prize_id for _, prize_id in prizes_named(definition)}
    for prize_id in _things({**(definition["ui"] or {}), "wheel": None}):
        if prize_id not in awarded:
            told = f"{game['name']} has a picture of the prize {prize_id}, which it cannot award"
            yield _warning(_of("games", game["game_id"], "ui"), told)


def _looks(looked: Looked) -> Items:
    """What is stored of the looks and not used: its default is shown."""
    for field, said in looks.problems_of_settings(looked.campaign["settings"]):
        yield _warning(field, f"The campaign is shown without {field}, which {said}")
    for game in looked.games:
        for field, said in looks.problems("ui", game["definition"]["ui"]):
            told = f"{game['name']} is shown without {field}, which {said}"
            yield _warning(_of("games", game["game_id"], field), told)


def _things(ui: Any) -> Iterator[str]:
    """The prizes that a ui has a picture of its own for, found as the widget finds them (widget/look.js)."""
    ui = ui or {}
    wheel = ui.get("wheel")
    for part in (ui.get("prizes"), wheel.get("segments") if isinstance(wheel, dict) else None, ui.get("items")):
        things = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        for thing in things:
            prize_id = thing.get("prize_id") if isinstance(thing, dict) else None
            if prize_id and isinstance(prize_id, str) and (thing.get("image") or thing.get("emoji")):
                yield prize_id


def _integrations(looked: Looked) -> Items:
    """That what hears of it is more than a stub, which sends nothing."""
    for kind in looked.integrations:
        if kind not in INTEGRATION_PROVIDERS.names():
            told = f"Nobody sends for the integration {kind}: a plugin must register who does (setting PLUGINS)"
            yield _warning("integrations", told)


def _logins(looked: Looked) -> Items:
    """That who must log in to play can. An edge refuses to start with no sender, unless it is for development."""
    settings = looked.settings
    closed = [game["name"] for game in looked.games if _needs_login(game["definition"])]
    if not closed:
        return
    if settings.login_sender == "log" and settings.development:
        told = f"{closed[0]} asks players to log in, and their codes are only printed here: set LOGIN_SENDER"
        yield _warning("LOGIN_SENDER", told)
    elif settings.login_sender == "smtp":
        yield _ok("LOGIN_SENDER", "Login codes are sent by e-mail; nobody sends them to phones")
    elif settings.login_sender != "log":
        yield _ok("LOGIN_SENDER", f"Login codes are sent by {settings.login_sender}")


def _needs_login(definition: Mapping[str, Any]) -> bool:
    return definition["access"] == "player" and not definition["rules"]["admits_guests"]


def _addresses(looked: Looked) -> Items:
    if looked.campaign["origins"] or looked.campaign["origins_of_tenant"]:
        yield _ok("origins", "Pages of other origins may show it")
    else:
        yield _warning("origins", "No origins are named: only our own pages may show it")
    if looked.settings.consumer_base_url:
        yield _ok("CONSUMER_BASE_URL", f"Players find it below {looked.settings.consumer_base_url}")
    else:
        told = "Nobody has said where players are, so none can be sent there: set CONSUMER_BASE_URL, for Core too"
        yield _warning("CONSUMER_BASE_URL", told)


GET_LAUNCH_CHECK: Final = Operation(
    "GetLaunchCheck", "GET /campaigns/{id}/launch-check", run=get_launch_check, admin=STAFF, lengthy=True
)
