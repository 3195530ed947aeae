import base64
import hashlib
import re
from typing import Any, Final

import pytest

from tests.support.pages.looks import EVIL
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import Answer, Stack

LOGO: Final = f"/assets/tenant_any/asset_{'0' * 64}"
TEXTS: Final[dict[str, Any]] = {
    "title": {"en": "Spring fair", "de": "Frühlingsmarkt"},
    "intro": {"en": "Spin and **win**.", "de": "Drehen und **gewinnen**."},
    "win": "Well done.",
    "terms": {"en": "1. Be *fair*.\n2. See [us](https://brand.example).", "de": "https://brand.example/agb"},
    "privacy": {"fr": "Nous gardons peu."},
}


async def page(stack: Stack, path: str, language: str = "en") -> tuple[int, str]:
    url, headers = stack.process.consumer_url + path, {"Accept-Language": language}
    async with stack.http.get(url, params={"tenant_id": stack.tenant_id}, headers=headers) as answer:
        return answer.status, await answer.text()


async def branded(stack: Stack, texts: dict[str, Any], **settings: Any) -> tuple[str, dict[str, Any]]:
    campaign = await make_campaign(stack, settings={"page": {"texts": texts}, **settings})
    return campaign["id"], (await make_game(stack, campaign["id"], await make_prize(stack), access="public"))


async def test_pages_show_the_texts_in_the_reader_s_language(stack: Stack) -> None:
    campaign_id, game = await branded(stack, TEXTS)
    _, english = await page(stack, f"/p/{game['id']}")
    _, german = await page(stack, f"/c/{campaign_id}", "de-AT")
    assert "<title>Spring fair</title>" in english and "<h1>Spring fair</h1>" in english
    assert '<meta name="description" content="Drehen und gewinnen.">' in german
    found = re.findall(r'<a href="([^"?]+)[^"]*" rel="noopener">(\w+)</a>', english)
    assert found == [(f"/c/{campaign_id}/terms", "Terms"), (f"/c/{campaign_id}/privacy", "Privacy")]
    assert 'href="https://brand.example/agb"' in german, "a text that is a URL is linked"
    status, terms = await page(stack, f"/c/{campaign_id}/terms")
    assert status == 200
    assert "<li>Be <em>fair</em>.</li>" in terms and '<a href="https://brand.example" rel="noopener">us</a>' in terms
    assert "Nous gardons peu." in (await page(stack, f"/c/{campaign_id}/privacy", "tr"))[1], "any language, if no other"
    assert (await page(stack, f"/c/{campaign_id}/imprint"))[0] == 404


async def test_render_view_has_the_texts_of_the_campaign_and_game_without_legal_ones(stack: Stack) -> None:
    own = {"title": {"en": "Wheel"}, "lose": {"en": "Try again."}}
    camp_id, game = await branded(stack, TEXTS, theme={"primary": "#0b5c8a", "logo": LOGO}, background={"emoji": "🌷"})

    async def shown() -> Any:
        return (await stack.consumer("GET", f"/games/{game['id']}/render")).data["ui"]

    plain = await shown()
    found = plain["page"]
    assert found == {"texts": {name: TEXTS[name] for name in ("title", "intro", "win")}, "legal": ["terms", "privacy"]}
    assert (plain["theme"]["primary"], plain["background"]) == ("#0b5c8a", {"emoji": "🌷"})
    ui = {"page": {"texts": own}, "theme": {"primary": "#c2410c"}}
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"ui": ui})
    styled = await shown()
    assert styled["page"]["texts"] == {**plain["page"]["texts"], **own}
    assert styled["theme"] == {"primary": "#c2410c", "logo": LOGO}, "a theme of its own takes only the logo"
    assert "background" not in styled
    await stack.admin("PUT", f"/admin/campaigns/{camp_id}", {"settings": {}})
    assert await shown() == ui, "a campaign without a look changes nothing"


async def test_html_in_every_text_stays_text(stack: Stack) -> None:
    names = ("title", "intro", "how", "win", "lose", "thanks", "terms", "privacy", "imprint")
    evil = {"logo": EVIL, "logo_alt": EVIL, "font_file": EVIL, "font": EVIL}
    campaign_id, game = await branded(stack, {name: {"en": EVIL} for name in names}, theme=evil, preview=EVIL)
    second = await make_game(stack, campaign_id, await make_prize(stack), access="public")
    paths = [f"/p/{game['id']}", f"/p/{second['id']}", f"/c/{campaign_id}"]
    for path in (*paths, *(f"/c/{campaign_id}/{name}" for name in names[-3:])):
        status, text = await page(stack, path)
        assert status == 200
        outside = re.sub(r"render='[^']*'", "", text)
        assert not re.search(r"<(img|script)(?! type=\"module\" src=\"/widget)[^>]*(evil|onerror)", outside), path
        assert "</title>&lt;" not in text and text.count("</title>") == 1


async def test_unusable_part_of_the_page_is_warned_of(stack: Stack) -> None:
    wrong = {"texts": {"title": {"english!": "x"}, "intro": 7, "slogan": {"en": "x"}}}
    wrong |= {"after": {"url": "javascript:alert(1)", "redirect_seconds": 601, "share": "yes"}}
    body = {"name": "Page", "settings": {"page": wrong, "theme": {"logo": "http://brand.example/a.png"}}}
    made: Answer = await stack.admin("POST", "/admin/campaigns", body)
    assert {one["field"] for one in made.data["warnings"]} == {
        *("settings.page.texts", "settings.page.texts.title", "settings.page.texts.intro", "settings.theme.logo"),
        *("settings.page.after.url", "settings.page.after.redirect_seconds", "settings.page.after.share"),
    }
    assert made.data["settings"] == body["settings"], "stored as it was sent"


@pytest.mark.settings(consumer_base_url="https://play.brand.example")
async def test_link_preview_of_an_uploaded_picture_is_absolute(stack: Stack) -> None:
    _, game = await branded(stack, {}, preview=LOGO)
    _, text = await page(stack, f"/p/{game['id']}")
    assert f'<meta property="og:image" content="https://play.brand.example{LOGO}">' in text


async def test_own_css_is_allowed_by_the_policy_and_cannot_leave_its_element(stack: Stack) -> None:
    css = "tombola-game::part(button) {\r\ntext-transform: uppercase; }"
    for given, shown in ((css, True), (f"{css}</style><script>1</script>", False), (css * 400, False)):
        campaign_id, _ = await branded(stack, {"terms": "Be fair."}, css=given)
        for path in (f"/c/{campaign_id}", f"/c/{campaign_id}/terms"):
            url = stack.process.consumer_url + path
            async with stack.http.get(url, params={"tenant_id": stack.tenant_id}) as answer:
                text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            styles = text.partition("<style>")[2].partition("</style>")[0]
            digest = base64.b64encode(hashlib.sha256(styles.replace("\r\n", "\n").encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
            assert (css in styles, css in text) == (shown, shown), path
