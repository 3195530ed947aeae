"""Every transaction that moves something of a furnished tenant, with the tables that it locks rows of."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.operations.budget_alerts import thresholds
from runtime.operations.campaigns import archiving
from runtime.operations.key_rotation import Rotation
from runtime.operations.players import challenges, logins, merging, profiles
from runtime.outgoing.providers import Delivered, Failed
from runtime.outgoing.vault import vault_of
from runtime.settings import Key
from runtime.streams import expiry
from runtime.streams.outbox import Outbox
from tests.support.furnished import PLAYERS, Scene
from tests.support.leaderboards import Played, write_plays
from tests.support.login import bearer
from tests.support.operations import make_approval

ARCHIVES = sql.load("archives")

Work = Callable[[Scene], Awaitable[Any]]
TRANSACTIONS: dict[str, tuple[set[str], Work]] = {}
"""By name: the tables whose locks it must be seen to take, and what prepares it and gives it, to be awaited."""


def transaction(*tables: str) -> Callable[[Work], Work]:
    def note(work: Work) -> Work:
        TRANSACTIONS[work.__name__] = (set(tables), work)
        return work

    return note


async def _commit(scene: Scene, changes: Changes) -> Any:  # Not before it is awaited.
    return await scene.stack.engine.committer.commit(scene.tenant_id, changes)


@transaction("game_players", "turn_balances", "balances", "stock", "prize_days", "prize_players")
async def commit_of_plays(scene: Scene) -> Any:
    return scene.commit()


@transaction("tenants", "game_players", "stock")
async def commit_of_a_game_s_first_plays(scene: Scene) -> Any:
    changes = scene.changes()
    query = "SELECT catalog_version FROM tenants WHERE tenant_id = $1"
    changes.catalog_version = await scene.stack.database.fetchval(query, scene.tenant_id)
    changes.begin_history(scene.game_id)
    return _commit(scene, changes)


@transaction("rewards")
async def claim(scene: Scene) -> Any:
    await scene.set("won", "cancelled")
    return scene.stack.consumer("POST", f"/rewards/{scene.rewards[0]}/claim", {}, player=PLAYERS[0])


@transaction("stock", "rewards", "tasks")
async def fulfill(scene: Scene) -> Any:
    await scene.set("failed", "dead")
    return scene.admin("POST", f"rewards/{scene.rewards[0]}/fulfill", {})


@transaction("balances", "stock", "codes", "rewards", "tasks")
async def revoke(scene: Scene) -> Any:
    await scene.stack.database.execute(
        "UPDATE ledger_entries SET reward_id = $2 WHERE tenant_id = $1 AND player_id = $3 AND reason = 'play_reward'",
        *(scene.tenant_id, scene.rewards[0], PLAYERS[0]),
    )
    return scene.admin("POST", f"rewards/{scene.rewards[0]}/revoke", {})


@transaction("turn_balances", "stock", "codes", "rewards", "tasks")
async def revoke_turns(scene: Scene) -> Any:
    reward_id = scene.rewards[0]
    await scene.stack.database.execute(
        "UPDATE rewards SET type = 'turns', value = 1, status = 'fulfilled' WHERE tenant_id = $1 AND reward_id = $2",
        *(scene.tenant_id, reward_id),
    )
    return scene.admin("POST", f"rewards/{reward_id}/revoke", {})


@transaction("leaderboards", "stock", "prize_days", "prize_players")
async def finalize(scene: Scene) -> Any:
    plays = [Played(player_id, scene.game_id) for player_id in PLAYERS]
    await write_plays(scene.stack.engine, scene.tenant_id, plays)
    return scene.admin("POST", f"leaderboards/{scene.board_id}/finalize", {})


@transaction("tenants", "campaigns", "campaign_marks", "campaign_days", "campaign_player_days")
async def move_campaign_to_another_zone(scene: Scene) -> Any:
    change = "INSERT INTO campaign_player_days SELECT $1, p, $2, current_date FROM unnest($3::text[]) AS p"
    await scene.stack.database.execute(change, scene.tenant_id, scene.campaign_id, list(PLAYERS))
    await scene.stack.database.execute(
        "INSERT INTO campaign_days VALUES ($1, $2, current_date, 1, 1, 1)", scene.tenant_id, scene.campaign_id
    )
    return scene.admin("PUT", f"campaigns/{scene.campaign_id}", {"timezone": "Asia/Tokyo"})


@transaction("balances", "approvals")
async def approve_adjustment(scene: Scene) -> Any:
    # The second, of two: it finds the balance that the first has made.
    first, second = [await make_approval(scene.stack, PLAYERS[0], scene.campaign_id, "") for _ in range(2)]
    await scene.admin("POST", f"approvals/{first}/approve", {})
    return scene.admin("POST", f"approvals/{second}/approve", {})


async def ask_by_token(scene: Scene) -> tuple[str, Any]:
    """(a token's id, what it asks for and a second person is to decide)"""
    made = await scene.admin("POST", "tokens", {"name": "till", "roles": ["reward_manager"]})
    body = {"player_id": PLAYERS[0], "scope_key": scene.tenant_id, "currency": "points", "amount": 1000}

    async def ask() -> Any:
        engine = scene.stack.engine
        engine.settings, before = replace(engine.settings, dual_adjustment_above=100), engine.settings
        try:
            shown = bearer(made["secret"])
            answer = await scene.stack.admin("POST", "/admin/wallet/adjustments", body, roles=(), headers=shown)
            assert answer.reason == "APPROVAL_NEEDED", answer.envelope
        finally:
            engine.settings = before

    return made["id"], ask()


@transaction("api_tokens", "approvals")
async def delete_token_that_waits(scene: Scene) -> Any:
    token_id, request = await ask_by_token(scene)
    await request
    return scene.admin("DELETE", f"tokens/{token_id}")


@transaction("players", "contacts", "logins", "plays", "quest_completions", "quest_events", "rewards", "tasks")
async def erase_player(scene: Scene) -> Any:
    player, database = PLAYERS[0], scene.stack.database
    contact = {"type": "CONTACT_TYPE_EMAIL", "value": f"{player}@example.com"}
    assert (await scene.stack.core("POST", "/players/me/contacts", {"player_id": player, "contact": contact})).data
    await scene.log_in(player)
    await write_plays(scene.stack.engine, scene.tenant_id, [Played(player, scene.game_id)])
    for statement in (
        "UPDATE plays SET client_seed = 'mine' WHERE tenant_id = $1",
        "UPDATE quest_completions SET idempotency_key = 'mine' WHERE tenant_id = $1",
        "UPDATE rewards SET claim_key = 'mine' WHERE tenant_id = $1",
        "UPDATE tasks SET last_error = 'Ann is not at home' WHERE tenant_id = $1",
        f"INSERT INTO quest_events VALUES ($1, 'quest', 'e', '{player}')",
    ):
        await database.execute(statement, scene.tenant_id)
    return scene.admin("POST", f"players/{player}/erase", {"reason": "asked for"})


@transaction("stock", "codes")
async def expire_rewards(scene: Scene) -> Any:
    await scene.set("won", "cancelled")
    await scene.stack.database.execute("DELETE FROM tasks WHERE tenant_id = $1", scene.tenant_id)
    await scene.stack.database.execute("UPDATE rewards SET expires_at = now() WHERE tenant_id = $1", scene.tenant_id)
    return expiry.expire(scene.stack.engine)


@transaction("players", "plays", "turn_balances", "balances", "stock", "prize_players", "codes", "rewards", "tasks")
async def merge(scene: Scene) -> Any:
    guest, player = PLAYERS
    await write_plays(scene.stack.engine, scene.tenant_id, [Played(guest, scene.game_id)])
    await scene.set("claimed", "pending")
    await scene.stack.database.execute("UPDATE prizes SET max_per_user = 1 WHERE tenant_id = $1", scene.tenant_id)
    change = "UPDATE players SET auth_method = 'guest' WHERE tenant_id = $1 AND player_id = $2"
    await scene.stack.database.execute(change, scene.tenant_id, guest)
    return merging.merge(scene.stack.engine, scene.tenant_id, guest, player)


@transaction("players", "game_players", "stock")
async def commit_for_a_guest(scene: Scene) -> Any:
    changes = scene.changes()
    for player_id in PLAYERS:
        changes.require_guest(player_id)
    return _commit(scene, changes)


@transaction("stock", "codes", "rewards", "tasks")
async def record_deliveries(scene: Scene) -> Any:
    leased = await scene.leased()

    async def record() -> None:
        outbox = Outbox(scene.stack.engine)
        for nth, task in enumerate(reversed(leased)):
            outbox.ended(task, Failed("gone", final=True) if nth % 2 else Delivered())
        await outbox.flush()

    return record()


@transaction("stock", "codes")
async def give_up_awaited(scene: Scene) -> Any:
    await scene.set("fulfilling", "awaiting")
    await scene.stack.database.execute("UPDATE tasks SET lease_until = now() WHERE tenant_id = $1", scene.tenant_id)
    return expiry.give_up_awaited(scene.stack.engine)


@transaction("limit_marks", "budget_marks", "low_prizes")
async def look_at_limits(scene: Scene) -> Any:
    budget, low = {"budget": {"amount": 1, "currency": "EUR"}}, {"low_stock_at": 100}
    await scene.admin("PUT", f"campaigns/{scene.campaign_id}", budget)
    for prize_id in scene.prizes:
        await scene.admin("PUT", f"prizes/{prize_id}", low)
    await thresholds.check(scene.stack.engine, scene.tenant_id, every_seconds=0)
    # It has a mark to move, and a prize that has risen above its own.
    await scene.stack.database.execute("UPDATE limit_marks SET next_at = now() WHERE tenant_id = $1", scene.tenant_id)
    await scene.admin("PUT", f"prizes/{scene.prizes[0]}", {"low_stock_at": 1})
    return thresholds.check(scene.stack.engine, scene.tenant_id, every_seconds=0)


@transaction("stock", "codes", "rewards", "tasks", "callbacks")
async def callback(scene: Scene) -> Any:
    await scene.set("fulfilling", "awaiting")
    task_id = await scene.task_id()
    known = "INSERT INTO callbacks SELECT tenant_id, prize_id || ' msg', task_id FROM tasks WHERE task_id = $1"
    await scene.stack.database.execute(known, task_id)
    body = {"status": "delivered", "callback_id": "msg"}
    return scene.stack.core("POST", f"/fulfillment/tasks/{task_id}/callback", body)


async def known_contact(scene: Scene) -> None:
    """A contact that was guessed at before, by somebody and by strangers, and has a challenge and a rate."""
    # Those of staff that made the scene would take its place among the few rows of a table that are watched.
    await scene.stack.database.execute("DELETE FROM login_rates WHERE tenant_id = $1", scene.tenant_id)
    await scene.stack.database.execute(
        """WITH challenge AS (
               INSERT INTO login_challenges (tenant_id, challenge_id, contact, contact_hash, requester, code_hash,
                                             strong, expires_at)
               VALUES ($1, 'chal', 'c', 'hash', 'who', 'right', false, now() + interval '1 hour')
           ),
           rate AS (INSERT INTO login_rates VALUES ($1, 'resend:hash:who', now() - interval '1 hour'))
           INSERT INTO login_guesses (tenant_id, contact_hash, requester)
           VALUES ($1, 'hash', ''), ($1, 'hash', 'who')""",
        scene.tenant_id,
    )


@transaction("play_archives", "plays", "log_leaves")
async def delete_archived_plays(scene: Scene) -> Any:
    database, about = scene.stack.database, (scene.tenant_id, scene.campaign_id)
    await write_plays(scene.stack.engine, scene.tenant_id, [Played(player, scene.game_id) for player in PLAYERS])
    await database.execute(
        "INSERT INTO log_leaves (tenant_id, leaf_index, kind, row_id, hash)"
        " SELECT $1, row_number() OVER (ORDER BY play_id DESC), 'play', play_id, '' FROM plays WHERE tenant_id = $1",
        scene.tenant_id,
    )
    await database.execute(ARCHIVES["begin"], *about, "f", 3, "d", 0, 9)

    async def step(connection: asyncpg.Connection) -> None:
        await connection.execute(ARCHIVES["lock"], *about)
        await connection.execute(ARCHIVES["delete"], *about, [scene.game_id], 0, 1_024, 1)

    return database.transaction(step)


@transaction("tenants", "play_archives")
async def decide_archive(scene: Scene) -> Any:
    about = (scene.tenant_id, scene.campaign_id)
    await scene.stack.database.execute("INSERT INTO play_archives VALUES ($1, $2, 1, 'f', 1, '', 0, 0, 1, 0)", *about)
    return archiving._step(scene.stack.engine, *about, [])


@transaction("login_guesses", "login_rates")
async def send_a_code(scene: Scene) -> Any:
    await known_contact(scene)
    names = {"challenge_id": "next", "contact": "c", "contact_hash": "hash", "requester": "who"}
    hashes = {"code_hash": "right", "strong_code_hash": "strong"}
    request = m.IssueChallengeRequest(scope=m.Scope(tenant_id=scene.tenant_id), **names, **hashes)
    return challenges.issue_challenge(scene.stack.engine, request)


@transaction("login_challenges", "login_guesses")
async def answer_with_the_code(scene: Scene) -> Any:
    await known_contact(scene)
    scope = m.Scope(tenant_id=scene.tenant_id)
    request = m.AnswerChallengeRequest(scope=scope, challenge_id="chal", code_hashes=["right"])
    return challenges.answer_challenge(scene.stack.engine, request)


@transaction("login_challenges", "login_guesses")
async def begin_a_login(scene: Scene) -> Any:
    await known_contact(scene)
    request = m.BeginLoginRequest(
        scope=m.Scope(tenant_id=scene.tenant_id), player_id=PLAYERS[0], login_id="login_a", challenge_id="chal"
    )
    return logins.begin_login(scene.stack.engine, request)


@transaction("players", "login_challenges", "login_guesses")
async def link_a_contact(scene: Scene) -> Any:
    await known_contact(scene)
    contact = m.Contact(type=m.ContactType.EMAIL, value="ada@example.com")
    request = m.LinkContactRequest(
        scope=m.Scope(tenant_id=scene.tenant_id), player_id=PLAYERS[0], contact=contact, challenge_id="chal"
    )
    return profiles.link_contact(scene.stack.engine, request)


@transaction("logins", "revocations")
async def log_out_everywhere(scene: Scene) -> Any:
    await scene.stack.database.execute(
        """WITH logged_in AS (
               INSERT INTO logins (tenant_id, login_id, player_id, expires_at, ends_at)
               SELECT $1, l, $2, now() + interval '1 hour', now() + interval '1 hour'
               FROM unnest(ARRAY['login_b', 'login_a']) AS l
           )
           INSERT INTO revocations (tenant_id, kind, subject, expires_at)
           SELECT $1, k, s, now() + interval '1 hour'
           FROM (VALUES ('login', 'login_b'), ('login', 'login_a'), ('player', $2)) AS r (k, s)""",
        *(scene.tenant_id, PLAYERS[0]),
    )
    scope = m.Scope(tenant_id=scene.tenant_id)
    return logins.end_logins(scene.stack.engine, m.EndLoginsRequest(scope=scope, player_id=PLAYERS[0], everywhere=True))


@transaction("codes")
async def rotate_codes(scene: Scene) -> Any:
    keys = (Key("new", b"n" * 32), *scene.stack.process.settings.code_keys)
    return Rotation(scene.stack.database, vault_of(keys), lambda _: None).codes(scene.tenant_id)
