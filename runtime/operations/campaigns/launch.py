"""The launch check: problems and warnings to review before a campaign goes live.

It is read-only and blocks nothing. It checks the campaign's dates, active games, open draws, prizes of games, draws and
boards, quests, packs and budget, and the settings of this Core that affect players.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.snapshot import segments_of
from runtime.actors.tenant_sender import has_own
from runtime.errors import unknown
from runtime.operations.campaigns.launch_assets import missing_assets
from runtime.operations.campaigns.launch_dates import check_dates
from runtime.operations.campaigns.launch_ways import check_ways
from runtime.operations.games.definitions import prizes_named
from runtime.operations.prizes import release
from runtime.operations.row import STAFF, Operation
from runtime.outgoing.channels import BY_STAFF, CHANNELS
from runtime.outgoing.integrations import SERVICES, has_services
from runtime.outgoing.providers import CHANNEL_PROVIDERS
from runtime.rules import REWARD_HANDLERS
from runtime.rules import ui as ui_rules
from runtime.rules.payloads import CaughtPayload, ScorePayload
from runtime.settings import Settings
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("launch")

ALMOST: Final = 1e-9
COUNTS: Final = ("points", "turns")
"""Prize types whose value is a count, not money."""

Items: TypeAlias = Iterator[m.LaunchItem]


@dataclass(frozen=True, slots=True)
class LaunchState:
    """The input of the checks: rows of sql/launch.sql, and the settings."""

    campaign: Any
    games: Sequence[Any]
    draws: Sequence[Any]
    prizes: Sequence[Any]
    givers: Sequence[Any]
    integrations: Sequence[Any]
    settings: Settings
    now: float


async def get_launch_check(engine: Engine, request: m.GetCampaignRequest) -> m.LaunchCheckReply:
    """The result of each check: problems first, then warnings. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id, campaign_id = tenant_of(request), request.id
    async with engine.database.connection() as connection:
        campaign = await connection.fetchrow(_SQL["campaign"], tenant_id, campaign_id, merchant_of(request))
        if campaign is None:
            raise unknown("campaign", campaign_id)
        games = await connection.fetch(_SQL["games"], tenant_id, campaign_id)
        draws = await connection.fetch(_SQL["draws"], tenant_id, campaign_id)
        boards = await connection.fetch(_SQL["boards"], tenant_id, campaign_id)
        named = {prize_id for game in games for _, prize_id in prizes_named(game["definition"])}
        named |= {one["prize_id"] for contest in (*boards, *draws) for one in contest["prizes"]}
        prizes = await connection.fetch(_SQL["prizes"], tenant_id, sorted(named))
        givers = await connection.fetch(_SQL["givers"], tenant_id, campaign_id)
        integrations = await connection.fetch(_SQL["integrations"], tenant_id, campaign_id)
        missing = await missing_assets(connection, tenant_id, campaign, games, prizes)
    state = LaunchState(
        campaign=campaign,
        games=games,
        draws=draws,
        prizes=prizes,
        givers=givers,
        integrations=integrations,
        settings=engine.settings,
        now=engine.clock.now(),
    )
    return m.LaunchCheckReply(items=sorted([*items(state), *missing], key=lambda one: -one.level))


def items(state: LaunchState) -> Items:
    yield from check_dates(state.campaign, state.games, state.now)
    yield from check_ways(state.campaign, state.games, state.draws)
    yield from _games(state)
    yield from _wheels(state)
    yield from _moments(state)
    for prize in state.prizes:
        yield from _stock(prize)
        yield from _release(prize, state.campaign)
        yield from _delivery(prize, state.settings)
    yield from _timing(state)
    yield from _turns(state)
    yield from _budget(state)
    yield from _pictures(state)
    yield from _ui_problems(state)
    yield from _integrations(state)
    yield from _logins(state)
    yield from _addresses(state)


def _ok(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.OK, field=field, message=message)


def _warning(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.WARNING, field=field, message=message)


def _problem(field: str, message: str) -> m.LaunchItem:
    return m.LaunchItem(level=m.LaunchLevel.PROBLEM, field=field, message=message)


def _of(section: str, identifier: str, field: str) -> str:
    """The path of a field outside the campaign: prizes/prize_1.stock.total."""
    return f"{section}/{identifier}.{field}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


# -- the campaign and its games --------------------------------------------------------------


def _games(state: LaunchState) -> Items:
    for game in state.games:
        for total in _odds(game["definition"]["handler_config"]):
            field = _of("games", game["game_id"], "handler_config")
            if total > ALMOST:
                yield _ok(field, f"The odds of {game['name']} add up to {round(total * 100, 4):g} %")
            else:
                yield _warning(field, f"{game['name']} has no prizes: every play loses")


def _odds(config: Mapping[str, Any]) -> Iterator[float]:
    for one in _drawn(config):
        if any("probability" in prize for prize in one) or not one:
            yield math.fsum(prize.get("probability", 0) for prize in one)


def _drawn(config: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    prizes, groups = config.get("prizes"), config.get("prize_groups")
    return [prizes] if isinstance(prizes, list) else list(groups.values()) if isinstance(groups, dict) else ()


# -- wheels ----------------------------------------------------------------------------------


def _wheels(state: LaunchState) -> Items:
    """Checks that each wheel shows exactly what a spin may win."""
    names = {prize["prize_id"]: prize["name"] for prize in state.prizes}
    for game in state.games:
        definition, field = game["definition"], _of("games", game["game_id"], "ui.wheel.segments")
        segments, lists = segments_of(definition), list(_drawn(definition["handler_config"]))
        if not segments or not lists or not _has_wheel(definition):
            continue
        if not any(segments):
            yield from _unnamed(game["name"], field, segments=len(segments), prizes=max(map(len, lists)))
            continue
        won = dict.fromkeys(one["prize_id"] for prizes in lists for one in prizes if one.get("probability", 1))
        if definition["on_unavailable"] == "fallback" and definition["fallback_prize_id"]:
            won[definition["fallback_prize_id"]] = None
        for prize_id in won:
            if prize_id not in segments:
                missing = f"The wheel of {game['name']} has no segment for {names.get(prize_id, prize_id)}"
                yield _problem(field, f"{missing}: a win of it points at nothing")
        for number, prize_id in enumerate(segments, start=1):
            if prize_id and prize_id not in won:
                shown = names.get(prize_id) or _label(definition, number) or prize_id
                segment = f"Segment {number} of the wheel of {game['name']} shows {shown}"
                yield _problem(field, f"{segment}, which has no odds and cannot be won")
        if all(segments) and min(_odds(definition["handler_config"]), default=0) < 1 - ALMOST:
            missing = f"The wheel of {game['name']} has no segment without a prize"
            yield _warning(field, f"{missing}: a loss points at nothing")


def _has_wheel(definition: Mapping[str, Any]) -> bool:
    """Whether the widget draws a wheel (runtime/web/widget/games.js)."""
    kind: str = definition["type"]
    return kind == "spin_wheel" or (kind != "scratch_card" and str(definition["reward_handler"]) == "probability")


def _unnamed(name: str, field: str, *, segments: int, prizes: int) -> Items:
    """Segments without prizes show the prizes in order."""
    if prizes > segments:
        yield _problem(field, f"The wheel of {name} has fewer segments ({segments}) than prizes ({prizes})")
    else:
        yield _warning(field, f"The segments of {name} have no prizes: they show the prizes of the odds in order")


def _label(definition: Mapping[str, Any], number: int) -> str:
    segment = definition["ui"]["wheel"]["segments"][number - 1]
    return str(segment.get("label") or segment.get("emoji") or "")


# -- prizes ----------------------------------------------------------------------------------


def _stock(prize: Any) -> Items:
    name, remaining, codes = prize["name"], prize["remaining"], prize["codes"]
    if prize["type"] == "points":
        return
    field = _of("prizes", prize["prize_id"], "stock.total")
    if not prize["total"]:
        if codes is None:
            yield _ok(field, f"{name} is unlimited")
    elif remaining:
        yield _ok(field, f"{name} has stock: {_number(remaining)} left")
    else:
        yield _problem(field, f"{name} has no stock left")
    if codes is not None:
        yield from _codes(prize)
    least = min((one for one in (remaining if prize["total"] else None, codes) if one is not None), default=None)
    if least and least <= prize["low_stock_at"]:
        yield _warning(_of("prizes", prize["prize_id"], "low_stock_at"), f"{name} runs low: {_number(least)} left")


def _codes(prize: Any) -> Items:
    name, codes, field = prize["name"], prize["codes"], _of("prizes", prize["prize_id"], "codes")
    if not codes:
        yield _problem(field, f"{name} has no codes left")
    elif prize["total"] and codes != prize["remaining"]:
        yield _warning(field, f"{name} has {_number(codes)} codes for a stock of {_number(prize['remaining'])}")
    else:
        yield _ok(field, f"{name} has {_number(codes)} codes")


def _delivery(prize: Any, settings: Settings) -> Items:
    """Checks that a provider exists for the prize's delivery channel, and that its config is complete."""
    name, channel, field = prize["name"], prize["channel"], _of("prizes", prize["prize_id"], "fulfillment")
    known = CHANNELS.get(channel)
    if known is None or not (known.instant or channel == BY_STAFF or CHANNEL_PROVIDERS.get(channel)):
        yield _problem(field, f"{name} cannot be delivered: no plugin provides the channel {channel}")
        return
    if prize["idle_codes"]:
        yield _warning(field, f"{name} has codes that are never given: its channel is {channel}. Use voucher_code")
    if channel in ("webhook", "workflow") and not prize["channel_config"].get("secret"):
        if channel == "workflow":
            yield _problem(field, f"{name} has no secret: callbacks of its workflow cannot be verified")
        else:
            yield _warning(field, f"{name} has no secret: its receiver cannot verify requests")
    if channel == "workflow" and not settings.callback_base_url:
        target = f"Callbacks for {name} go to {settings.callback_url}"
        yield _warning("CALLBACK_BASE_URL", f"{target}: set CALLBACK_BASE_URL to a URL that its workflow can reach")


def _release(prize: Any, campaign: Any) -> Items:
    """Checks that a schedule frees all units before the campaign ends."""
    if (terms := prize["release"]) is None:
        return
    field, ends_at = _of("prizes", prize["prize_id"], "release"), release.ends_at(terms)
    if campaign["end_date"] and ends_at > campaign["end_date"]:
        yield _warning(field, f"{prize['name']} still has units to release when the campaign ends")
    else:
        yield _ok(field, f"{prize['name']} is released over time")


def _moments(state: LaunchState) -> Items:
    """Checks that each prize of a `moments` game has a release. Without one, the first plays win all of it."""
    unscheduled = {prize["prize_id"]: prize["name"] for prize in state.prizes if prize["release"] is None}
    for game in state.games:
        if game["definition"]["reward_handler"] != "moments":
            continue
        for prize in _drawn(game["definition"]["handler_config"])[0]:
            if (name := unscheduled.get(prize["prize_id"])) is not None:
                field = _of("prizes", prize["prize_id"], "release")
                yield _warning(field, f"{name} has no release: the first plays of {game['name']} win all of it")


# -- timing and turns ------------------------------------------------------------------------


def _timing(state: LaunchState) -> Items:
    """Checks that games with valuable prizes verify timing, so that a client cannot send any score at once."""
    valuable = {prize["prize_id"] for prize in state.prizes if prize["value"] and prize["type"] not in COUNTS}
    for game in state.games:
        definition = game["definition"]
        handler = REWARD_HANDLERS.get(definition["reward_handler"])
        timed = handler is not None and handler.Payload in (ScorePayload, CaughtPayload)
        if not timed or definition["rules"].get("verify_timing"):
            continue
        if any(prize_id in valuable for _, prize_id in prizes_named(definition)):
            risk = f"{game['name']} has prizes of value but does not verify timing: a client may send any score at once"
            yield _warning(_of("games", game["game_id"], "rules.verify_timing"), risk)


def _turns(state: LaunchState) -> Items:
    """Checks that granted turns can be spent, and that a source grants the turns that plays require."""
    sources = [(_of("prizes", one["prize_id"], "type"), one["name"]) for one in state.prizes if one["type"] == "turns"]
    sources += [(_of(f"{g['kind']}s", g["id"], g["field"]), f"The {g['kind']} {g['name']}") for g in state.givers]
    rules = [(game, game["definition"]["rules"]) for game in state.games]
    # A play beyond the day's free ones takes a turn, if the player has one.
    if rules and not any(rule.get("requires_turn") or rule.get("max_plays_per_day") for _, rule in rules):
        for field, source in sources:
            yield _warning(field, f"{source} gives turns, but no active game takes any")
    for game in (game for game, rule in rules if rule.get("requires_turn")):
        field = _of("games", game["game_id"], "rules.requires_turn")
        if sources:
            yield _ok(field, f"{game['name']} takes turns, and quests, packs or prizes give them")
        else:
            yield _warning(field, f"Every play of {game['name']} takes a turn, but no quest, pack or prize gives any")


# -- costs -----------------------------------------------------------------------------------


def _budget(state: LaunchState) -> Items:
    amount, currency, used = (state.campaign[name] for name in ("budget", "budget_currency", "used"))
    if not amount:
        yield _ok("budget", "No budget is set")
        return
    cost = 0.0
    for prize in state.prizes:
        if prize["type"] in COUNTS or not prize["value"]:
            continue
        remaining = _remaining(prize)
        if prize["currency"] != currency:
            other = f"is in {prize['currency']}" if prize["currency"] else "has no currency"
            field = _of("prizes", prize["prize_id"], "currency")
            yield _warning(field, f"The value of {prize['name']} {other}: it does not count against the budget")
        elif remaining is None:
            field = _of("prizes", prize["prize_id"], "stock.total")
            yield _warning(field, f"{prize['name']} is unlimited: its cost may exceed the budget")
        else:
            cost += remaining * prize["value"]
    budget = f"the budget of {_number(amount)} {currency}"
    if used >= amount:
        yield _problem("budget", f"{_number(used)} {currency} of {budget} are used")
    elif used + cost > amount:
        spent = f" on top of {_number(used)} {currency} used" if used else ""
        yield _warning("budget", f"The remaining prizes cost {_number(cost)} {currency}{spent}, more than {budget}")
    else:
        yield _ok("budget", f"The remaining prizes cost {_number(cost)} {currency}, within {budget}")


def _remaining(prize: Any) -> int | None:
    """How many units of a prize can still be won; None: unlimited."""
    counts = [prize["remaining"]] if prize["total"] else []
    counts += [prize["codes"]] if prize["codes"] is not None else []
    return min(counts, default=None)


# -- presentation and access ----------------------------------------------------------------


def _pictures(state: LaunchState) -> Items:
    for game in state.games:
        ui, name, field = game["definition"]["ui"] or {}, game["name"], _of("games", game["game_id"], "ui")
        if not ui:
            yield _warning(field, f"{name} has no theme or pictures: it is shown with the defaults")
        elif not ui.get("picture"):
            yield _warning(f"{field}.picture", f"{name} has no picture: lists show only its name")
        else:
            yield _ok(field, f"{name} has a picture")
        yield from _idle_pictures(game)
    shown = {prize_id for game in state.games for prize_id in _things(game["definition"]["ui"])}
    for prize in state.prizes:
        if prize["type"] != "points" and not prize["image_url"] and prize["prize_id"] not in shown:
            yield _warning(_of("prizes", prize["prize_id"], "image_url"), f"{prize['name']} has no picture")


def _idle_pictures(game: Any) -> Items:
    """Pictures of prizes that the game cannot award, usually of a replaced prize. Segments: see `_wheels`."""
    definition = game["definition"]
    awarded = {prize_id for _, prize_id in prizes_named(definition)}
    for prize_id in _things({**(definition["ui"] or {}), "wheel": None}):
        if prize_id not in awarded:
            unused = f"{game['name']} has a picture of the prize {prize_id}, which it cannot award"
            yield _warning(_of("games", game["game_id"], "ui"), unused)


def _ui_problems(state: LaunchState) -> Items:
    """Invalid parts of the ui and settings, for which pages show their default."""
    for field, problem in ui_rules.problems_of_settings(state.campaign["settings"]):
        yield _warning(field, f"The campaign is shown without {field}: it {problem}")
    for game in state.games:
        for field, problem in ui_rules.problems("ui", game["definition"]["ui"]):
            ignored = f"{game['name']} is shown without {field}: it {problem}"
            yield _warning(_of("games", game["game_id"], field), ignored)


def _things(ui: Any) -> Iterator[str]:
    """The prizes for which a ui has a picture, by the same rule as the widget (widget/look.js)."""
    ui = ui or {}
    wheel = ui.get("wheel")
    for part in (ui.get("prizes"), wheel.get("segments") if isinstance(wheel, dict) else None, ui.get("items")):
        things = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        for thing in things:
            prize_id = thing.get("prize_id") if isinstance(thing, dict) else None
            if prize_id and isinstance(prize_id, str) and (thing.get("image") or thing.get("emoji")):
                yield prize_id


def _integrations(state: LaunchState) -> Items:
    """Checks that each integration sends, and does not only log."""
    for row in state.integrations:
        kind = row["type"]
        if kind == "email":
            sends = has_own(state.settings, state.campaign["sender"])
            sends = sends or bool(state.settings.smtp_url and state.settings.smtp_from)
            unsent = "Messages to players are only logged: set SMTP_URL and SMTP_FROM, for Core and worker integrations"
            yield _ok("SMTP_URL", "Messages to players are sent") if sends else _warning("SMTP_URL", unsent)
        elif has_services(kind) and not row["service"]:
            unsent = f"The integration {kind} only logs events: set config.service to {' or '.join(SERVICES[kind])}"
            yield _warning("integrations", unsent)


def _logins(state: LaunchState) -> Items:
    """Checks that players can log in if a game requires it. Only in development do edges start without a sender."""
    settings = state.settings
    closed = [game["name"] for game in state.games if _needs_login(game["definition"])]
    if not closed:
        return
    if settings.login_sender == "log" and settings.development:
        unsent = f"{closed[0]} requires a login, but login codes are only printed on standard output"
        yield _warning("LOGIN_SENDER", f"{unsent}: set LOGIN_SENDER")
    elif settings.login_sender == "smtp":
        yield _ok("LOGIN_SENDER", "Login codes are sent by e-mail, but not to phones")
    elif settings.login_sender == "none":
        yield _ok("LOGIN_SENDER", "Logins by code are off: players sign in at your own issuer")
    elif settings.login_sender != "log":
        yield _ok("LOGIN_SENDER", f"Login codes are sent by {settings.login_sender}")


def _needs_login(definition: Mapping[str, Any]) -> bool:
    return definition["access"] == "player" and not definition["rules"]["admits_guests"]


def _addresses(state: LaunchState) -> Items:
    if state.campaign["origins"] or state.campaign["origins_of_tenant"]:
        yield _ok("origins", "Pages of other origins may show it")
    else:
        yield _warning("origins", "No origins are set: only the service's own pages may show it")
    if state.settings.consumer_base_url:
        yield _ok("CONSUMER_BASE_URL", f"Players find it at {state.settings.consumer_base_url}")
    else:
        unknown_url = "The URL for players is unknown, so no links to the campaign can be made"
        yield _warning("CONSUMER_BASE_URL", f"{unknown_url}: set CONSUMER_BASE_URL, for Core too")


GET_LAUNCH_CHECK: Final = Operation(
    "GetLaunchCheck", "GET /campaigns/{id}/launch-check", run=get_launch_check, admin=STAFF, lengthy=True
)
