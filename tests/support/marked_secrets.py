"""Secrets that are recognised wherever they appear, and a service to which everything happens that touches them."""

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from aiohttp import web

from tests.support.operations import Ids
from tests.support.receiver import Got, Receiver
from tests.support.resources import make_campaign, make_prize
from tests.support.stack import TENANT, Stack
from tests.support.waiting import until


def whsec(word: str) -> str:
    return "whsec_" + base64.b64encode(f"{word}-{secrets.token_hex(12)}".encode()).decode()


@dataclass(frozen=True)
class Marks:
    """Secrets that are found wherever they appear. stores: the passwords of PostgreSQL and of Valkey."""

    stores: tuple[str, ...]
    odds: str = "0.2718281828"
    weight: str = "31.4159265"
    integration: str = whsec("integration")
    channel: str = whsec("channel")
    previous: str = whsec("previous")
    header: str = f"Bearer header-{secrets.token_hex(8)}"
    codes: tuple[str, ...] = tuple(f"CODE-{secrets.token_hex(8).upper()}" for _ in range(4))
    jwt: str = secrets.token_hex(32)
    jwt_staff: str = secrets.token_hex(32)
    server_key: str = secrets.token_hex(32)
    code_key: str = secrets.token_hex(32)
    sender: str = whsec("sender")
    jwt_old: str = secrets.token_hex(32)
    jwt_staff_old: str = secrets.token_hex(32)
    login: str = secrets.token_hex(32)
    oidc: str = f"oidc-{secrets.token_hex(16)}"
    smtp: str = f"smtp-{secrets.token_hex(16)}"
    service: str = f"service-{secrets.token_hex(32)}"
    captcha: str = f"captcha-{secrets.token_hex(16)}"
    assets: str = f"assets-{secrets.token_hex(16)}"

    @property
    def settings(self) -> dict[str, str]:
        """Secrets that a process gets and must not show, by variable; but for the stores' URLs."""
        return {
            "JWT_SECRET": self.jwt,
            "JWT_OLD_SECRETS": self.jwt_old,
            "JWT_STAFF_SECRET": self.jwt_staff,
            "JWT_STAFF_OLD_SECRETS": self.jwt_staff_old,
            "LOGIN_SECRET": self.login,
            "SERVER_KEYS": f"1:{self.server_key}",
            "CODE_KEYS": f"1:{self.code_key}",
            "OIDC_CLIENT_SECRET": self.oidc,
            "SMTP_URL": f"smtp://tombola:{self.smtp}@127.0.0.1:2525",
            "CAPTCHA_SECRET": self.captcha,
            "ASSETS_SECRET_KEY": self.assets,
            "SENDER_WEBHOOK_SECRET": self.sender,
            "SERVICE_TOKEN": self.service,
        }

    @property
    def keys(self) -> tuple[str, ...]:
        process_keys = (
            *(self.jwt, self.jwt_old, self.jwt_staff, self.jwt_staff_old, self.login, self.server_key, self.code_key),
        )
        process_keys += (self.oidc, self.smtp, self.service, self.captcha, self.assets, *self.stores)
        return (self.integration, self.channel, self.previous, self.sender, *process_keys)

    @property
    def config(self) -> tuple[str, ...]:
        return (self.odds, self.weight, self.header)


@dataclass
class SecretProbe:
    """A process with marked secrets, and everything that it answered and sent."""

    marks: Marks
    stack: Stack
    known: Ids
    database_url: str
    redis_url: str
    receiver: Receiver
    log: Path
    anns: list[Any]
    tokens: list[str]
    login_codes: list[str]


async def echo(got: Got) -> web.StreamResponse:
    """A receiver that fails, and says back all that it was sent."""
    return web.Response(status=500, text=f"{dict(got.headers)} {got.body!r}")


async def make_tenant_row(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test')", TENANT)
    await connection.close()


async def live(probe: SecretProbe) -> None:
    stack, marks, url = probe.stack, probe.marks, probe.receiver.url
    campaign_id = (await make_campaign(stack))["id"]
    config = {"url": url, "secret": marks.channel, "previous_secret": marks.previous}
    config["headers"] = {"Authorization": marks.header}
    hook = {"url": url, "secret": marks.integration, "headers": {"Authorization": marks.header}}
    probe.known["campaign"] = campaign_id
    coupon = await make_prize(stack, campaign_id=campaign_id, fulfillment={"channel": "voucher_code"})
    parcel = await make_prize(stack, campaign_id=campaign_id, fulfillment={"channel": "webhook", "config": config})
    assert (await stack.admin("POST", f"/admin/prizes/{coupon}/codes", {"codes": list(marks.codes)})).data["added"] == 4
    assert (await stack.admin("PUT", f"/admin/prizes/{parcel}", {"name": "Parcel"})).data
    events = ["play_completed", "prize_won", "prize_claimed", "quest_completed"]
    integration = {"type": "webhook", "events": events, "config": hook}
    probe.known["integration"] = (await stack.admin("POST", "/admin/integrations", integration)).data["id"]
    gone = (await stack.admin("POST", "/admin/integrations", integration)).data["id"]
    assert (await stack.admin("DELETE", f"/admin/integrations/{gone}")).http == 200
    games = []
    for prize_id in (coupon, parcel):
        chances = (float(marks.odds), 1 - float(marks.odds))
        odds = [{"prize_id": prize_id, "probability": chance} for chance in chances]
        body = {"name": "Wheel", "type": "spin_wheel", "campaign_id": campaign_id, "status": "active"}
        body |= {"reward_handler": "probability", "handler_config": {"prizes": odds}, "access": "public"}
        games.append((await stack.admin("POST", "/admin/games", body)).data["id"])
    items = [{"item": "coin", "weight": float(marks.weight), "quantity": 1, "slot_index": 0}]
    body = {"name": "Set", "type": "collection", "campaign_id": campaign_id, "status": "active"}
    body |= {"reward_handler": "lucky_item", "handler_config": {"items": items}}
    games.append((await stack.admin("POST", "/admin/games", body)).data["id"])
    await _log_in(probe)
    probe.receiver.replies += [echo] * 20
    player = {"Authorization": f"Bearer {probe.tokens[0]}"}
    for game_id in games:
        started = (await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=player)).data
        probe.known["revision"] = started["revision_hash"]
        body = {"session_id": started["session_id"], "payload": {}}
        key = {**player, "Idempotency-Key": f"key-{game_id}"}
        for _ in range(2):
            played = await stack.consumer("POST", f"/games/{game_id}/play", body, headers=key)
        probe.anns.append(played.data)
        # Refused in each way that says something of what was sent.
        await stack.consumer("POST", f"/games/{game_id}/play", {**body, "surprise": marks.channel}, headers=player)
    probe.anns.append((await stack.consumer("GET", "/rewards/me", headers=player)).data)
    probe.known |= {"game": games[0], "prize": coupon, "play": probe.anns[0]["play_id"]}
    probe.known["reward"] = probe.anns[0]["rewards"][0]["reward_id"]
    probe.known |= {"quest": "quest_x", "leaderboard": "board_x"}
    tasks = (await stack.admin("GET", "/admin/fulfillment/tasks", prize_id=parcel)).data["items"]
    probe.known["task"] = tasks[0]["id"]
    await until(lambda: _task_is(probe, parcel, "TASK_STATUS_RETRY", "TASK_STATUS_DELIVERED"))
    probe.receiver.replies.clear()
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{probe.known['task']}/retry", {})).data
    await until(lambda: _task_is(probe, parcel, "TASK_STATUS_DELIVERED"))
    await until(lambda: any(b"prize_won" in got.body for got in probe.receiver.all))
    bad = {"name": "X", "fulfillment": {"channel": "webhook", "config": {**config, "url": marks.channel, "no": 1}}}
    assert (await stack.admin("POST", "/admin/prizes", bad)).http == 400
    headers = {"Authorization": f"Bearer {marks.channel}"}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).http == 401
    # The issuer that the process was told of is none.
    sign_in = {"code": "x", "verifier": "x", "nonce": "x", "redirect_uri": f"{stack.process.admin_url}/dashboard/"}
    for path, body in (("start", {"redirect_uri": sign_in["redirect_uri"]}), ("finish", sign_in)):
        assert (await stack.admin("POST", f"/admin/auth/oidc/{path}", body, roles=())).http >= 400
    await _use_api_token(probe)
    await _rotate_the_secret_of_a_quest(probe)


async def _rotate_the_secret_of_a_quest(probe: SecretProbe) -> None:
    """Shown when it is made, and when it is made anew; then its events are refused."""
    stack = probe.stack
    condition = {"kind": "event", "count": 2}
    quest = {"name": "Buy", "campaign_id": probe.known["campaign"], "status": "active", "condition": condition}
    made = (await stack.admin("POST", "/admin/quests", quest | {"turns": 1})).data
    again = (await stack.admin("POST", f"/admin/quests/{made['id']}/rotate-secret", {})).data
    probe.tokens += [made["secret"], again["secret"]]
    assert made["secret"] != again["secret"]
    event = {"event_id": made["secret"], "player_id": "ann"}
    assert (await stack.admin("POST", f"/quests/{made['id']}/events", event, roles=(), tenant_id=TENANT)).http == 401


async def _use_api_token(probe: SecretProbe) -> None:
    """Made, shown, refused something, revoked, and shown again."""
    stack = probe.stack
    made = (await stack.admin("POST", "/admin/tokens", {"name": "ci", "roles": ["designer"]})).data
    probe.tokens.append(made["secret"])
    headers = {"Authorization": f"Bearer {made['secret']}"}
    for body in ({"name": "Fair"}, {"name": "Fair", "surprise": 1}):
        await stack.admin("POST", "/admin/campaigns", body, roles=(), headers=headers)
    assert (await stack.admin("POST", "/admin/tenants", {"name": "x"}, roles=(), headers=headers)).http == 403
    assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).http == 200
    assert (await stack.admin("GET", "/admin/games", token=made["secret"])).http == 401
    await until(lambda: stack.admin("GET", "/admin/games", roles=(), headers=headers), lambda it: it.http == 401)


async def _log_in(probe: SecretProbe) -> None:
    stack = probe.stack
    contact = {"contact_type": "CONTACT_TYPE_EMAIL", "contact": "ann@example.com"}
    challenge = (await stack.consumer("POST", "/players/auth/start", contact)).data["challenge_id"]
    code = ""
    while not code:
        got = await probe.receiver.next()
        code = got.json["code"] if got.path.endswith("/login") and got.json.get("code") else ""
    probe.login_codes.append(code)
    wrong = {"challenge_id": challenge, "code": "000000" if code != "000000" else "111111"}
    assert (await stack.consumer("POST", "/players/auth/verify", wrong)).http == 401
    logged_in = (await stack.consumer("POST", "/players/auth/verify", {"challenge_id": challenge, "code": code})).data
    probe.tokens += [logged_in["token"], logged_in["refresh_token"]]
    again = await stack.consumer("POST", "/players/auth/refresh", {"refresh_token": logged_in["refresh_token"]})
    probe.tokens += [again.data["token"], again.data["refresh_token"]]


async def _task_is(probe: SecretProbe, prize_id: str, *statuses: str) -> bool:
    (task,) = (await probe.stack.admin("GET", "/admin/fulfillment/tasks", prize_id=prize_id)).data["items"]
    return task["status"] in statuses
