import asyncio
import ipaddress
import random
from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pytest

from runtime.operations.reporting import views
from tests.support.resources import make_campaign, wheel
from tests.support.seed import SEED
from tests.support.stack import OTHER_TENANT, Stack, refused

IPHONE: Final = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"
TABLET: Final = "Mozilla/5.0 (Linux; Android 14; SM-X710) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36"
LINUX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0"
BOT: Final = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
DEVICES: Final = {IPHONE: "phone", TABLET: "tablet", LINUX: "desktop"}


async def view(stack: Stack, campaign_id: str, address: str = "203.0.113.1", agent: str = LINUX, **more: Any) -> Any:
    headers = {"User-Agent": agent, "X-Forwarded-For": address, "X-Country": more.pop("country", "")}
    return await stack.consumer("POST", f"/campaigns/{campaign_id}/views", more, headers=headers | more.pop("sent", {}))


async def figures(stack: Stack, campaign_id: str, **query: Any) -> Any:
    return (await stack.admin("GET", f"/admin/campaigns/{campaign_id}/figures", **query)).data


def by(rows: list[dict[str, Any]], *names: str) -> Counter[Any]:
    return Counter({tuple(row[name] for name in names): row["views"] for row in rows})


@pytest.mark.settings(country_header="X-Country", trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),))
async def test_figures_count_a_replayed_log_of_views(stack: Stack) -> None:
    news = {"id": "news", "text": {"en": "Send me news."}}
    campaign_id = (await make_campaign(stack, entry={"consents": [news]}))["id"]
    game_id = (await stack.admin("POST", "/admin/games", wheel(campaign_id))).data["id"]
    pick = random.Random(SEED).choice
    sources: list[dict[str, str]] = [
        *({}, {"utm_source": "mail", "utm_medium": "email", "utm_campaign": "spring", "referrer": "mail.example"}),
        {"referrer": "news.example"},
    ]
    log = [(f"203.0.113.{pick(range(40))}", pick([*DEVICES]), pick(sources), pick(["", game_id])) for _ in range(600)]
    country = {address: pick(["DE", "FR"]) for address, *_ in log}
    answers = await asyncio.gather(
        *[
            view(stack, campaign_id, address, agent, source=source, game_id=page, country=country[address])
            for address, agent, source, page in log
        ]
    )
    assert {answer.code for answer in answers} == {"OK"}
    for sent in ({"Sec-GPC": "1"}, {"DNT": "1"}, {"User-Agent": BOT}, {"User-Agent": ""}):
        assert (await view(stack, campaign_id, "198.51.100.1", sent=sent)).code == "OK"
    for player, source, given in (("ann", sources[1], True), ("bob", sources[2], False)):
        body = {"consents": {"news": given}, "source": source}
        assert (await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", body, player=player)).data
    found = await figures(stack, campaign_id)
    assert (found["funnel"]["views"], found["funnel"]["visitors"]) == (600, len({one[:2] for one in log}))
    assert by(found["by_source"], "source", "medium", "utm_campaign") == Counter(
        (one.get("utm_source") or one.get("referrer", ""), one.get("utm_medium", ""), one.get("utm_campaign", ""))
        for _, _, one, _ in log
    )
    entries = {one["source"]: (one["entries"], one["opted_in"]) for one in found["by_source"]}
    assert entries == {"": (0, 0), "mail": (1, 1), "news.example": (1, 0)}
    assert (found["entries"], found["opted_in"]) == (2, 1)
    assert by(found["by_device"], "name") == Counter((DEVICES[agent],) for _, agent, _, _ in log)
    assert by(found["by_country"], "name") == Counter((country[address],) for address, *_ in log)
    for rows in ("by_source", "by_device", "by_country", "by_hour", "by_day"):
        assert sum(row["visitors"] for row in found[rows]) == found["funnel"]["visitors"], rows
    funnel = (await figures(stack, campaign_id, game_id=game_id))["funnel"]
    of_game = [one for one in log if one[3]]
    assert (funnel["views"], funnel["visitors"]) == (len(of_game), len({one[:2] for one in of_game}))


async def test_view_of_another_tenants_or_campaigns_page_is_not_counted(stack: Stack) -> None:
    ours, drafted = [(await make_campaign(stack, status=status))["id"] for status in ("active", "draft")]
    game_id = (await stack.admin("POST", "/admin/games", wheel((await make_campaign(stack))["id"]))).data["id"]
    for answer, reason in (
        (await view(stack, drafted), "UNKNOWN_CAMPAIGN"),
        (await view(replace(stack, tenant_id=OTHER_TENANT), ours), "UNKNOWN_CAMPAIGN"),
        (await view(stack, ours, game_id=game_id), "UNKNOWN_GAME"),
    ):
        assert refused(answer) == (404, "NOT_FOUND", reason)
    assert (await figures(stack, ours))["funnel"]["views"] == 0


@pytest.mark.parametrize("dies", ["before the write", "after the write"])
async def test_fold_after_one_that_died_adds_every_view_once(stack: Stack, dies: str) -> None:
    campaign_id = (await make_campaign(stack))["id"]
    await view(stack, campaign_id)
    taken = await views.take(stack.engine, stack.tenant_id)
    assert taken is not None and len(taken.rows) == 1
    if dies == "after the write":
        await views.add(stack.engine, stack.tenant_id, taken)
    await view(stack, campaign_id)
    counts, total = [], "SELECT sum(views) FROM campaign_views WHERE campaign_id = $1"
    for _ in range(3):
        await views.fold(stack.engine, stack.tenant_id)
        counts.append(await stack.database.fetchval(total, campaign_id))
    assert counts == [1, 2, 2]
    await views.add(stack.engine, stack.tenant_id, taken)  # A process that slept through all of it.
    assert (await figures(stack, campaign_id))["funnel"]["views"] == 2


async def test_sources_that_a_stranger_invents_are_bounded(stack: Stack) -> None:
    campaign_id = (await make_campaign(stack))["id"]
    invented = [{"utm_source": f"s{n}", "utm_campaign": "ü" * 200} for n in range(300)]
    for nth in range(0, 300, 100):
        await asyncio.gather(*[view(stack, campaign_id, source=one) for one in invented[nth : nth + 100]])
    await view(stack, campaign_id)
    found = by((await figures(stack, campaign_id))["by_source"], "source")
    assert (found.total(), len(found), found["",]) == (301, views.SOURCES_MAX + 1, 1)
    stored = "SELECT count(DISTINCT source), sum(views) FILTER (WHERE source = 'other') FROM campaign_views"
    row = await stack.database.fetchrow(f"{stored} WHERE campaign_id = $1", campaign_id)
    assert tuple(row) == (views.SOURCES_MAX + 2, 300 - views.SOURCES_MAX)


async def test_visitors_beyond_the_sample_are_estimated(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_LIMITS", (views.SOURCES_MAX, 100))
    campaign_id = (await make_campaign(stack))["id"]
    for nth in range(0, 1500, 100):
        await asyncio.gather(*[view(stack, campaign_id, agent=f"{LINUX} {n}") for n in range(nth, nth + 100)])
    found = await figures(stack, campaign_id)
    assert (found["funnel"]["views"], found["funnel"]["visitors"]) == (1500, pytest.approx(1500, rel=0.25))
    key = (await stack.engine.ephemeral.run("KEYS", f"*views:seen:*{campaign_id}"))[0]
    assert await stack.engine.ephemeral.run("SCARD", key) < 600
    assert 0 < await stack.engine.ephemeral.run("TTL", key) < 90_000
