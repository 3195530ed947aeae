from dataclasses import replace
from email.message import EmailMessage
from typing import Any, Final, cast

import pytest

from runtime.actors import address_limit, dispatcher, mailing
from runtime.outgoing import schedule, senders
from runtime.rules.mail import name_shown
from runtime.settings import Key, Settings
from runtime.stores.keyring import Keyring
from runtime.streams import backfill
from tests.support.deliveries import deliveries, working
from tests.support.mailbox import Mailbox
from tests.support.operations import make_merchant
from tests.support.resources import make_draw
from tests.support.stack import Stack, fields_of
from tests.support.waiting import until
from tests.support.world import World

EMAIL: Final = {"key": "email", "label": {"en": "E-mail"}, "kind": "ENTRY_FIELD_KIND_EMAIL"}
ENTRY: Final = {"mode": "ENTRY_MODE_OPEN", "fields": [EMAIL, {"key": "first_name", "label": {"en": "Name"}}]}
KINDS: Final = ("WON", "CODE_DELIVERED", "REMINDER", "DRAW_RESULT")


@pytest.fixture
def extra_settings(mailbox: Mailbox) -> dict[str, Any]:
    url = f"smtp://127.0.0.1:{mailbox.port}"
    shop = {"smtp_from": "Shop <shop@example.com>", "consumer_base_url": "https://play.example/"}
    return {"smtp_url": url, "stream_shards": 1, **shop}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 3600.0)  # Only the stream, unless a test says otherwise.
    monkeypatch.setattr(backfill, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(backfill, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(schedule, "SCHEDULE_SECONDS", (3600.0,))  # A retry comes only where a test asks for it.


def template(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": f"MESSAGE_KIND_{kind}", **fields}


async def send(world: World, *templates: dict[str, Any], **fields: Any) -> str:
    """Sets the campaign's messages. Returns the integration that delivers them."""
    body = {"entry": ENTRY, "messages": {"templates": list(templates), **fields}}
    answer = await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", body)
    assert answer.code == "OK", answer.envelope
    return f"messages_{world.campaign_id}"


async def enter(world: World, player: str, locale: str = "", **fields: Any) -> None:
    body = {"fields": {"email": f"{player}@example.com", **fields}, "locale": locale}
    path = f"/campaigns/{world.campaign_id}/entry"
    assert (await world.stack.consumer("POST", path, body, player=player)).code == "OK"


def text_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


async def test_each_kind_is_mailed_once_from_the_rows_alone(
    own_world: World, stack: Stack, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the player's language, with the built-in texts, and with a code's message in place of its win's."""
    integration_id = await send(own_world, *(template(kind) for kind in KINDS))
    later = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    mug = await own_world.prize(name="Mug", fulfillment={**later, "channel": "none"}, expires_after_days=2)
    voucher = await own_world.prize(name="Tea", codes=["TEA-1"])
    asked = await own_world.prize(name="Cake", codes=["CAKE-1"], fulfillment={**later, "channel": "voucher_code"})
    for player, locale in (("ann", "de-AT"), ("bob", "ja"), ("eve", "")):
        await enter(own_world, player, locale)
    monkeypatch.setattr(stack.engine.publisher, "events", list)  # The stream loses everything.
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    for player, prize in (("ann", mug), ("bob", voucher), ("eve", asked)):
        await own_world.round(await own_world.wheel(prize), player)
    [cake] = (await stack.consumer("GET", "/rewards/me", player="eve")).data["items"]
    assert (await stack.consumer("POST", f"/rewards/{cake['id']}/claim", {}, player="eve")).code == "OK"
    await make_draw(stack, own_world.campaign_id, mug, "close", "draw")
    change = "UPDATE rewards SET expires_at = now() + interval '1 day' WHERE expires_at IS NOT NULL"
    await stack.database.execute(change)
    async with working(stack.engine, "integrations"):
        await deliveries(stack, integration_id, 8)
    # The same rows again, and a new one, by a worker that has forgotten everything.
    await stack.database.execute(
        "UPDATE event_marks SET backfilled_until = backfilled_until - interval '1 hour', leased_until = now()"
    )
    await own_world.round(await own_world.wheel(mug), "ann")
    async with working(stack.engine, "integrations"):
        log = await deliveries(stack, integration_id, 9)
    got = sorted((mail["To"], mail["Subject"]) for mail in mailbox.parsed)
    results = [("ann", "Car: das Ergebnis"), ("bob", "Car：抽選結果"), ("eve", "Car: the result")]
    wins = [("ann", "Du hast gewonnen: Mug")] * 2 + [("ann", "Nicht vergessen: Mug")]
    codes = [("bob", "Teaのコード"), ("eve", "You won: Cake"), ("eve", "Your code for Cake")]
    assert got == sorted((f"{player}@example.com", subject) for player, subject in results + wins + codes)
    assert {row["status"] for row in log} == {"INTEGRATION_DELIVERY_STATUS_DELIVERED"}
    assert {row["answer"] for row in log} == {f"kept for <{player}***@example.com>" for player in "abe"}
    (tea,) = (mail for mail in mailbox.parsed if "Tea" in mail["Subject"])
    assert all(mail.isascii() for mail in mailbox.mails)
    assert "TEA-1" in text_of(tea, "plain") and "<strong>TEA-1</strong>" in text_of(tea, "html")


async def test_values_of_a_message_add_no_markup_nor_header(own_world: World, stack: Stack, mailbox: Mailbox) -> None:
    body = "Hé {player_name}, **{prize}** from {campaign}\n\n[Look]({claim_url}) [Map](https://d.example/?q={prize})"
    own = {"subject": {"fr": "é" * 99 + " {player_name}: {prize}"}, "body": {"fr": body}}
    await send(own_world, template("WON", **own), language="fr")
    path, brand = f"/admin/campaigns/{own_world.campaign_id}", {"hosts": ["fair.brand.example"]}
    sample = (await stack.admin("POST", f"{path}/messages/preview", {"template": template("WON", **own)})).data["text"]
    assert f"https://play.example/c/{own_world.campaign_id}?" in sample
    await stack.admin("PUT", f"/admin/tenants/{stack.tenant_id}", brand, roles=("platform",))
    assert (await stack.admin("PUT", path, brand)).code == "OK"
    await enter(own_world, "ann", "pl", first_name="<i>Ann</i> *x*")
    game_id = await own_world.wheel(await own_world.prize(name="A & **B** [c](https://d.example)"))
    async with working(stack.engine, "integrations"):
        await own_world.round(game_id)
        await deliveries(stack, f"messages_{own_world.campaign_id}", 1)
    (mail,) = mailbox.parsed
    assert mail["From"] == "Shop <shop@example.com>"
    lines = [line for line in mailbox.mails[0].splitlines() if not line.startswith("List-Unsubscribe: ")]
    assert max(map(len, lines)) <= 78
    assert mail["Subject"] == "é" * 99 + " <i>Ann</i> *x*: A & **B** [c](https://d.example)"
    url = f"https://fair.brand.example/p/{game_id}?tenant_id={stack.tenant_id}"
    assert f"Look: {url}" in text_of(mail, "plain")
    shown = text_of(mail, "html")
    assert "&lt;i&gt;Ann&lt;/i&gt; *x*, <strong>A &amp; **B** [c](https://d.example)</strong>" in shown
    found = "https://d.example/?q=A%20%26%20%2A%2AB%2A%2A%20%5Bc%5D%28https%3A%2F%2Fd.example%29"
    assert f'<a href="{url}" rel="noopener">Look</a> <a href="{found}" rel="noopener">Map</a>' in shown
    assert [name_shown(name) for name in ("Ann B.", "evil.com", "bit\u3002ly/x")] == ["Ann B.", "", ""]


async def test_template_names_the_placeholder_that_it_does_not_have(own_world: World, stack: Stack) -> None:
    path = f"/admin/campaigns/{own_world.campaign_id}"
    for fields, field in (
        *(({"body": {"en": "Use {code}"}}, "body.en"), ({"subject": {"de": "{Prize}"}}, "subject.de")),
        *(({"subject": {"de": "a\nb"}}, "subject.de"), ({"hours": 3}, "hours"), ({"kind": ""}, "kind")),
    ):
        wrong = await stack.admin("PUT", path, {"messages": {"templates": [{**template("WON"), **fields}]}})
        assert fields_of(wrong) == [f"messages.templates[0].{field}"]


async def test_integration_of_messages_changes_with_them_alone(own_world: World, stack: Stack) -> None:
    path = f"/admin/integrations/{await send(own_world, template('WON'))}"
    body = {"type": "INTEGRATION_TYPE_EMAIL", "events": ["prize_won"]}
    assert fields_of(await stack.admin("POST", "/admin/integrations", body)) == ["type"]
    for verb, below in (("PUT", ""), ("POST", "/test"), ("POST", "/rotate"), ("DELETE", "")):
        assert (await stack.admin(verb, path + below, {})).reason == "IN_USE"
    for changed, status, events in (
        *(([template("WON", paused=True)], "PAUSED", []), ([template("REMINDER")], "ACTIVE", ["message.reminder"])),
        ([], "PAUSED", []),
    ):
        await send(own_world, *changed)
        [one] = (await stack.admin("GET", "/admin/integrations")).data["items"]
        assert (one["status"], one["events"]) == (f"INTEGRATION_STATUS_{status}", events)


async def test_message_that_is_not_sent_says_why(own_world: World, stack: Stack, mailbox: Mailbox) -> None:
    integration_id = await send(own_world, template("WON"))
    game_id = await own_world.wheel(await own_world.prize())
    for player in ("bob", "eve"):
        await enter(own_world, player)
    mailbox.replies, mailbox.refused = ["451 later"], {"eve@example.com"}

    async def log() -> list[tuple[str, str]]:
        rows = (await stack.admin("GET", f"/admin/integrations/{integration_id}/deliveries")).data["items"]
        return [(row["status"].removeprefix("INTEGRATION_DELIVERY_STATUS_"), row["error"]) for row in rows[::-1]]

    async with working(stack.engine, "integrations"):
        for nth, player in enumerate(("ann", "bob", "eve")):
            await own_world.round(game_id, player)
            await deliveries(stack, integration_id, nth + 1)
        server = f"127.0.0.1:{mailbox.port}"
        no_address = ("SKIPPED", "the player has no e-mail address")
        refused = ("SKIPPED", f"{server}: the address was refused (550)")
        assert await log() == [no_address, ("RETRY", f"{server}: the mail was refused (451)"), refused]
        # Its facts are those of the attempt.
        assert (await stack.admin("POST", "/admin/players/bob/erase", {"reason": "asked for"})).code == "OK"
        await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now() WHERE status = 'retry'")
        retries = "SELECT count(*) FROM integration_deliveries WHERE status = 'retry'"
        await until(lambda: stack.database.fetchval(retries), lambda it: it == 0)
        assert await log() == [no_address, ("SKIPPED", "the player was erased"), refused]
        assert mailbox.mails == []
        await enter(own_world, "bob")
        await own_world.round(game_id, "bob")
        await deliveries(stack, integration_id, 4)
        assert len(mailbox.mails) == 1, "bob has come back"
    [shown] = (await stack.admin("GET", "/admin/players/ann/messages")).data["items"]
    facts = ("MESSAGE_KIND_WON", "Mug", "INTEGRATION_DELIVERY_STATUS_SKIPPED", no_address[1])
    assert (shown["kind"], shown["subject"], shown["status"], shown["error"]) == facts
    assert (await stack.admin("GET", f"/admin/rewards/{shown['reward_id']}")).data["messages"] == [shown]


async def test_refused_mails_stop_no_others(own_world: World, stack: Stack, mailbox: Mailbox) -> None:
    integration_id = await send(own_world, template("WON"))
    game_id = await own_world.wheel(await own_world.prize())
    mailbox.replies = ["421 busy"] * dispatcher.FAILURES_TO_OPEN + ["554 no"]
    await enter(own_world, "ann")
    await enter(own_world, "bob", email="bob@münchen.de")
    async with working(stack.engine, "integrations"):
        for nth in range(len(mailbox.replies)):
            await own_world.round(game_id)
            log = await deliveries(stack, integration_id, nth + 1)
        assert log[0]["status"] == "INTEGRATION_DELIVERY_STATUS_SKIPPED"
        await own_world.round(game_id, "bob")
        await deliveries(stack, integration_id, len(log) + 1)
    assert [mail["To"] for mail in mailbox.parsed] == ["bob@xn--mnchen-3ya.de"]


async def test_address_gets_a_limited_number_of_messages(
    own_world: World, stack: Stack, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All spellings of one mailbox count together, except its verified owner's. A retried mail counts once."""
    monkeypatch.setattr(address_limit, "ADDRESS_MOST", 2)
    integration_id = await send(own_world, template("WON"))
    game_id = await own_world.wheel(await own_world.prize())
    mailbox.replies = ["451 later"]
    async with working(stack.engine, "integrations"):
        for nth, address in enumerate(("me@gmail.com", "m.e@gmail.com", "me+1@gmail.com", "me+2@gmail.com")):
            await enter(own_world, f"p{nth}", email=address)
            await own_world.round(game_id, f"p{nth}")
            await deliveries(stack, integration_id, nth + 1)
        verified = "INSERT INTO contacts (tenant_id, contact_id, player_id, type, value) VALUES ($1, 'c', 'p3', $2, $3)"
        await stack.database.execute(verified, stack.tenant_id, "email", "me@gmail.com")
        await own_world.round(game_id, "p3")
        [owners, *others, _] = await deliveries(stack, integration_id, 5)
    assert owners["status"] == "INTEGRATION_DELIVERY_STATUS_DELIVERED"
    assert [row["error"] for row in others] == ["too many messages to this address", "", ""]


async def test_slow_mail_server_is_given_up_in_time(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders, "MAIL_SECONDS", 0.5)
    mailbox.pause_seconds = 0.4
    sender = senders.SmtpSender(f"smtp://127.0.0.1:{mailbox.port}", "shop@example.com")
    with pytest.raises(senders.SendFailed):
        await sender.send_mail(sender.mail("ann@example.com", "", ""))


async def test_sample_is_shown_and_sent_to_the_given_address(own_world: World, stack: Stack, mailbox: Mailbox) -> None:
    path = f"/admin/campaigns/{own_world.campaign_id}/messages/preview"
    body = {"template": template("CODE_DELIVERED", subject={"nl": "{prize} {code}"}), "language": "nl"}
    shown = (await stack.admin("POST", path, body)).data
    assert (shown["subject"], shown["sender"], shown["sent_to"]) == ("Mug SAMPLE-1234", "Shop <shop@example.com>", "")
    assert "Bekijk je prijs" in shown["html"] and mailbox.mails == []
    sent = (await stack.admin("POST", path, {**body, "to": "Me@Example.com"})).data["sent_to"]
    assert (sent, [mail["To"] for mail in mailbox.parsed]) == ("m***@example.com", ["me@example.com"])
    unknown = template("WON", body={"en": "{code}"})
    for wrong, field in (({"to": "me"}, "to"), ({"template": unknown}, "template.body.en")):
        assert fields_of(await stack.admin("POST", path, {**body, **wrong})) == [field]
    [entry] = (await stack.admin("GET", "/admin/audit", action="campaign.send_sample")).data["items"]
    assert (entry["after"]["to"], len(entry["after"]["text_sha256"])) == ("m***@example.com", 64)
    shop = replace(stack, merchant_id=await make_merchant(stack))
    of_shop = {"merchant_id": shop.merchant_id}
    assert (await stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", of_shop)).code == "OK"
    assert (await shop.admin("POST", path, body)).code == "OK"
    assert fields_of(await shop.admin("POST", path, {**body, "to": "x@example.com"})) == ["to"], "any text to anybody"


def test_link_is_made_with_the_code_key_that_every_process_has() -> None:
    new, old = Key("new", b"n" * 32), Key("old", b"o" * 32)
    keyring = Keyring([], [new, old])
    keyring.code = (old, new)  # Another process does not know the new one yet.
    link = mailing.Mailing(Settings(code_keys=(new, old)), cast(Any, None), keyring)._unsubscribe_url("t", "ann", "won")
    assert mailing.unsubscribe_tokens((old,), "t", "ann", "won") == [link.rpartition("=")[2]]


async def test_link_in_a_message_ends_that_kind_alone(own_world: World, stack: Stack, mailbox: Mailbox) -> None:
    integration_id = await send(own_world, template("WON"), template("CODE_DELIVERED"))
    await enter(own_world, "ann", "de")
    game_ids = [await own_world.wheel(await own_world.prize(codes=codes)) for codes in ([], ["C-1"])]
    async with working(stack.engine, "integrations"):
        await own_world.round(game_ids[0])
        await deliveries(stack, integration_id, 1)
        (mail,) = mailbox.parsed
        assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        # As it is sent: an encoded header would be no link for mail programs.
        (line,) = (line for line in mailbox.mails[0].splitlines() if line.startswith("List-Unsubscribe: "))
        link = line.partition("<")[2].rstrip(">")
        assert f"Abmelden: {link}" in text_of(mail, "plain")
        assert f'href="{link.replace("&", "&amp;")}"' in text_of(mail, "html")
        url = link.replace("https://play.example", stack.process.consumer_url)
        for verb, address, status, shown in (
            *(("GET", url, 200, "<form"), ("POST", url[:-1] + ("0" if url[-1] != "0" else "1"), 400, "not valid")),
            ("POST", url.replace("kind=won", "kind=reminder"), 400, "not valid"),
            ("POST", url, 200, "unsubscribed"),
        ):
            async with stack.http.request(verb, address) as answer:
                assert (answer.status, shown in await answer.text()) == (status, True), (verb, address)
                assert "form-action 'self';" in answer.headers["Content-Security-Policy"]
        for nth, game_id in enumerate(game_ids):
            await own_world.round(game_id)
            log = await deliveries(stack, integration_id, nth + 2)
        me = await stack.consumer("GET", "/players/me", player="ann")
        assert me.data["unsubscribed"] == ["MESSAGE_KIND_WON"]
        assert not (await stack.consumer("PUT", "/players/me", {"unsubscribed": []}, player="ann")).data["unsubscribed"]
        for nth, (fields, count) in enumerate((({}, 4), ({"kind": "won", "resume": True}, 3))):
            stopped = await stack.admin("POST", "/admin/messages/stops", {"address": "Ann+x@example.com", **fields})
            assert (stopped.data["address"], len(stopped.data["kinds"])) == ("a***@example.com", count)
            await own_world.round(game_ids[0])
            log = await deliveries(stack, integration_id, nth + 4)
    staff = "staff unsubscribed the address"
    assert [row["error"] for row in log[::-1]] == ["", "the player unsubscribed", "", staff, ""]
    assert len(mailbox.mails) == 3
