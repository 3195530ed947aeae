from dataclasses import replace
from typing import Any, Final

import pytest

from runtime.errors import Fault, Status
from runtime.http.login.challenges import Challenges
from runtime.operations.key_rotation import Rotation
from runtime.outgoing import sending
from runtime.outgoing.vault import Vault, sender_context
from runtime.settings import Key
from tests.support.guests import log_in
from tests.support.login import let_resend, start, verify
from tests.support.mailbox import Mailbox
from tests.support.stack import Stack, fields_of
from tests.support.world import World

pytestmark = pytest.mark.settings(smtp_url="smtp://127.0.0.1:9", smtp_from="Shop <shop@example.com>")

ADDRESS: Final = "ada@example.com"
PASSWORD: Final = "hunter2-of-the-tenant"


async def put(stack: Stack, sender: dict[str, Any]) -> Any:
    return await stack.admin("PUT", f"/admin/tenants/{stack.tenant_id}", {"sender": sender}, roles=("platform",))


async def _lost(*_: object) -> None:
    raise Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", "Core did not respond in time")


async def test_tenants_sender_and_server_send_its_mails(
    own_world: World, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = own_world.stack
    own = {"name": "Fair, Ünder", "address": "win@fair.example", "reply_to": "help@fair.example"}
    set_up = await put(stack, {**own, "smtp_url": f"smtp://127.0.0.1:{mailbox.port}"})
    assert set_up.data["sender"] == {**own, "smtp_url": "", "smtp_url_set": True}
    challenge = await start(stack, ADDRESS, "email")
    preview = {"template": {"kind": "MESSAGE_KIND_WON"}, "to": ADDRESS}
    sample = await stack.admin("POST", f"/admin/campaigns/{own_world.campaign_id}/messages/preview", preview)
    assert sample.data["sender"] == '"Fair, Ünder" <win@fair.example>'
    code, message = mailbox.parsed
    for mail in (code, message):
        assert (str(mail["From"]), mail["Reply-To"]) == ('"Fair, Ünder" <win@fair.example>', "help@fair.example")
    (digits,) = [word for word in str(code.get_content()).split() if word.isdigit() and len(word) == 6]
    assert (await verify(stack, challenge.data["challenge_id"], digits)).code == "OK"
    await let_resend(stack)
    assert (await put(stack, {**own, "name": "Fair"})).data["sender"]["smtp_url_set"] is True
    assert (await start(stack, ADDRESS, "email")).code == "OK"
    assert str(mailbox.parsed[-1]["From"]) == "Fair <win@fair.example>"
    await let_resend(stack)
    with monkeypatch.context() as full:
        full.setattr(sending, "PLACES", 0)
        assert (await start(stack, ADDRESS, "email")).reason == "SENDER_UNAVAILABLE"
    with monkeypatch.context() as lost:
        lost.setattr(Challenges, "send", _lost)
        assert (await start(stack, ADDRESS, "email")).reason == "CORE_UNAVAILABLE"
    assert (await start(stack, ADDRESS, "email")).reason == "RESEND_TOO_SOON", "the code may have been sent"
    await put(stack, {})
    assert (await put(stack, own)).data["sender"]["smtp_url_set"] is False
    await let_resend(stack)
    assert (await start(stack, ADDRESS, "email")).reason == "SENDER_UNAVAILABLE", "the installation's server is away"
    assert (await put(stack, {})).data["sender"] is None


async def test_own_sender_sends_reward_codes_without_another(
    own_world: World, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, player = own_world.stack, await log_in(own_world.stack, contact=ADDRESS)
    await put(stack, {"address": "win@fair.example", "smtp_url": f"smtp://127.0.0.1:{mailbox.port}"})
    game_id = await own_world.wheel(await own_world.prize(codes=["MINE-1"]))
    reward = (await own_world.round(game_id, player)).data["rewards"][0]["reward_id"]
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, login_sender="log", development=False))
    assert (await stack.admin("POST", f"/admin/rewards/{reward}/send-code", {"reason": "lost"})).code == "OK"
    assert "MINE-1" in mailbox.parsed[-1].get_content()


async def test_mail_servers_url_is_sealed_and_rotated(stack: Stack) -> None:
    url = f"smtps://fair:{PASSWORD}@mail.example"
    assert PASSWORD not in str((await put(stack, {"address": "a@b.example", "smtp_url": url})).envelope)
    for path in ("/admin/tenants", "/admin/audit"):
        assert PASSWORD not in str((await stack.admin("GET", path, roles=("admin", "platform"))).envelope)
    read = "SELECT sender ->> 'secret' FROM tenants WHERE tenant_id = $1"
    assert PASSWORD not in await stack.database.fetchval(read, stack.tenant_id)
    vault = Vault([Key("next", b"n" * 32), *stack.engine.settings.code_keys])
    rotation = Rotation(stack.database, vault, lambda _: None)
    await rotation.configs(stack.tenant_id, "senders", "reseal_sender", sender_context)
    sealed = await stack.database.fetchval(read, stack.tenant_id)
    assert sealed.startswith("sealed:next:") and vault.open_secret(sealed, sender_context(stack.tenant_id)) == url


async def test_wrong_sender_is_refused_at_its_field(stack: Stack) -> None:
    fair = {"address": "a@b.example"}
    changes = [({"address": ""}, "address"), ({"address": "x"}, "address"), ({"reply_to": "x"}, "reply_to")]
    changes.append(({"address": "a@fär.example"}, "address"))
    for change, field in [*changes, ({"smtp_url": "https://mail.example"}, "smtp_url")]:
        assert fields_of(await put(stack, {"name": "Fair", **fair, **change})) == [f"sender.{field}"]
    refused = await stack.admin("PUT", f"/admin/tenants/{stack.tenant_id}", {"sender": fair}, roles=("admin",))
    assert refused.http == 403, "only the operator vouches for a tenant's address"
