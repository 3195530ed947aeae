import asyncio
import secrets
from dataclasses import replace
from typing import Any

import pytest

from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations import key_rotation as command
from runtime.operations.campaigns.campaign_admin import create_campaign
from runtime.operations.integrations.integration_admin import create_integration
from runtime.operations.key_rotation import rotate_all
from runtime.operations.packs.codes import import_pack_codes
from runtime.operations.packs.pack_admin import create_pack
from runtime.operations.packs.redemption import redeem_code
from runtime.operations.prizes.codes import import_codes
from runtime.operations.prizes.prize_admin import update_prize
from runtime.operations.quests.events import rotate_quest_secret
from runtime.outgoing.vault import integration_context, prize_context, quest_context, vault_of
from runtime.settings import Key, Settings
from runtime.stores.keyring import KeyMissing
from tests.support.deliveries import SECRET, make_receiver_prize
from tests.support.locks import blocked
from tests.support.rewards import Shelf, core, refusal
from tests.support.stack import KEYS, settings_of
from tests.support.statements import insert
from tests.support.waiting import until

NEW = Key("2", secrets.token_bytes(32))
TENANT = "tenant_test"


@pytest.fixture
def old(database_url: str, valkey_url: str) -> Settings:
    return settings_of(database_url, valkey_url)


@pytest.fixture
def new(old: Settings) -> Settings:
    return replace(old, code_keys=(NEW, *KEYS))


async def fill(engine: Engine, codes: int = 3) -> tuple[str, str]:
    """A pool of codes, and a prize, an integration and a quest with secrets; (the pool's prize, the other)."""
    shelf = await Shelf(engine, TENANT).open()
    pool = await shelf.prize("on_win", "voucher_code")
    await shelf.codes(pool, *[f"CODE-{number}" for number in range(codes)])
    prize_id = await make_receiver_prize(engine, TENANT, "http://127.0.0.1:1/", previous_secret="old-one")
    sealed = vault_of(engine.settings.code_keys).seal_config(
        {"url": "x", "secret": SECRET, "headers": {"A": "carried"}}, integration_context(TENANT, "i")
    )
    integration = {"integration_id": "i", "type": "webhook", "events": ["prize_won"], "config": sealed}
    await insert(engine.database, "integrations", tenant_id=TENANT, **integration)
    sealed = vault_of(engine.settings.code_keys).seal_config({"secret": SECRET}, quest_context(TENANT, "q"))
    quest = {"quest_id": "q", "campaign_id": "c", "name": "Q", "type": "daily", "turns": 1, "signing": sealed}
    await insert(engine.database, "quests", tenant_id=TENANT, condition={"kind": "event", "count": 1}, **quest)
    return pool, prize_id


async def keys_in_use(engine: Engine) -> set[str]:
    rows = await engine.database.fetch(
        "SELECT key_id FROM codes UNION SELECT split_part(config ->> name, ':', 2)"
        " FROM (SELECT config FROM integrations UNION ALL SELECT channel_config FROM prizes"
        " UNION ALL SELECT signing FROM quests) AS c,"
        " unnest(ARRAY['secret', 'previous_secret']) AS name WHERE config ? name"
        " UNION SELECT split_part(config -> 'headers' ->> 'A', ':', 2) FROM integrations"
    )
    return {row["key_id"] for row in rows}


async def test_rotation_leaves_everything_open_to_the_new_key_alone(old: Settings, new: Settings) -> None:
    async with core(old) as before:
        engine = before.engine
        pool, prize_id = await fill(engine)
        done = await rotate_all(new)
        assert (done.codes, done.secrets, done.unopened) == (3, 3, 0)
        assert await keys_in_use(engine) == {"2"}
        vault = vault_of((NEW,))
        row = await engine.database.fetchrow("SELECT channel_config FROM prizes WHERE prize_id = $1", prize_id)
        assert vault.secrets_of(row["channel_config"], prize_context(TENANT, prize_id)) == [SECRET, "old-one"]
        signing = await engine.database.fetchval("SELECT signing FROM quests")
        assert vault.secrets_of(signing, quest_context(TENANT, "q")) == [SECRET]
        config = await engine.database.fetchval("SELECT config FROM integrations")
        assert vault.open_secret(config["headers"]["A"], integration_context(TENANT, "i")) == "carried"
        again = await rotate_all(new)
        assert (again.codes, again.secrets) == (0, 0), "what is there already is passed by"
    async with core(replace(old, code_keys=(NEW,))) as after:
        reply = await importing(after.engine, pool, "CODE-1", "CODE-9")
        assert (reply.added, reply.duplicates) == (1, 1), "a duplicate is found without the old key"


async def test_codes_of_packs_stay_valid_after_a_rotation(old: Settings, new: Settings) -> None:
    scope = m.Scope(tenant_id=TENANT)

    async def redeem(engine: Engine, code: str) -> m.RedemptionReply:
        request = m.RedeemCodeRequest(scope=scope, player_id="ann", campaign_id=campaign_id, code=code)
        return await redeem_code(engine, request)

    async with core(old) as before:
        await Shelf(before.engine, TENANT).open()
        campaign = m.Campaign(name="Caps", status=m.CampaignStatus.ACTIVE)
        made = await create_campaign(before.engine, m.CreateCampaignRequest(scope=scope, campaign=campaign))
        campaign_id = made.campaign.id
        pack = m.Pack(campaign_id=campaign_id, name="Caps", gives=m.PackGift(turns=1))
        created = await create_pack(before.engine, m.CreatePackRequest(scope=scope, pack=pack))
        added = m.ImportCodesRequest(scope=scope, id=created.pack.id, codes=["CAPS-0001", "CAPS-0002"])
        assert (await import_pack_codes(before.engine, added)).added == 2
        assert (await redeem(before.engine, "CAPS-0001")).balance == 1
        async with core(replace(old, code_keys=(NEW,))) as without:
            assert (await refusal(redeem(without.engine, "CAPS-0002"))).reason == "CODE_UNAVAILABLE"
        await rotate_all(new)
    async with core(replace(old, code_keys=(NEW,))) as after:
        assert (await redeem(after.engine, "CAPS-0002")).balance == 2


async def test_rotation_that_broke_off_resumes(old: Settings, new: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BATCH", 2)

    def break_off(done: Any) -> None:
        raise KeyboardInterrupt

    async with core(old) as process:
        await fill(process.engine, codes=5)
        with pytest.raises(KeyboardInterrupt):
            await rotate_all(new, "", break_off)
        assert await keys_in_use(process.engine) == {"1", "2"}
        done = await rotate_all(new)
        assert (done.codes, done.secrets) == (3, 3), "the first two are done"
        assert await keys_in_use(process.engine) == {"2"}


async def test_rotation_counts_and_keeps_what_no_key_opens(old: Settings, new: Settings) -> None:
    async with core(old) as process:
        await fill(process.engine)
        done = await rotate_all(replace(new, code_keys=(NEW,)))
        assert (done.codes, done.secrets, done.unopened) == (0, 0, 6)
        assert await keys_in_use(process.engine) == {"1"}


def importing(engine: Engine, pool: str, *codes: str) -> Any:
    return import_codes(engine, m.ImportCodesRequest(scope=m.Scope(tenant_id=TENANT), id=pool, codes=[*codes]))


async def test_import_finds_a_code_that_another_process_adds_under_an_older_key(old: Settings, new: Settings) -> None:
    async with core(old) as before, core(new) as after:
        database = before.engine.database
        pool, _ = await fill(before.engine)
        async with database.connection() as holder, holder.transaction():
            await holder.execute("SELECT FROM code_pools FOR UPDATE")  # An import locks it last, and waits.
            first = await blocked(database, importing(before.engine, pool, "CODE-9"))
            second = asyncio.ensure_future(importing(after.engine, pool, "CODE-9"))
            await until(lambda: database.fetchval("SELECT count(*) > 1 FROM pg_locks WHERE NOT granted"))
        assert [(await one).added for one in (first, second)] == [1, 0]


async def test_rotation_reports_a_code_that_is_in_its_pool_twice(old: Settings, new: Settings) -> None:
    newest = Key("3", secrets.token_bytes(32))
    async with core(old) as process, core(replace(old, code_keys=(NEW,))) as other:
        pool, _ = await fill(process.engine)
        assert (await importing(other.engine, pool, "CODE-1")).added == 1
        for settings, codes in ((new, 3), (replace(new, code_keys=(newest, *new.code_keys)), 4)):
            done = await rotate_all(settings)
            assert (done.codes, len(done.duplicates)) == (codes, 1)
            assert await keys_in_use(process.engine) == {settings.code_keys[0].id}


async def test_rotation_refuses_later_writes_with_the_old_key(old: Settings, new: Settings) -> None:
    """A process that stood still is not among those that are waited for."""
    async with core(old) as process:
        engine = process.engine
        pool, prize_id = await fill(engine)
        await rotate_all(new)
        scope = m.Scope(tenant_id=TENANT)
        secret = {"url": "https://a.example", "secret": "whsec_" + "b" * 32}
        integration = m.Integration(type=m.IntegrationType.WEBHOOK, events=["prize_won"], config=secret)
        carried = {"url": "https://a.example", "headers": {"A": "carried"}}
        carrying = m.Integration(type=m.IntegrationType.WEBHOOK, events=["prize_won"], config=carried)
        config = m.PrizeFulfillment(channel="webhook", config={**secret, "url": "http://127.0.0.1:1/"})
        for sealing in (
            importing(engine, pool, "CODE-9"),
            create_integration(engine, m.CreateIntegrationRequest(scope=scope, integration=integration)),
            create_integration(engine, m.CreateIntegrationRequest(scope=scope, integration=carrying)),
            rotate_quest_secret(engine, m.RotateQuestSecretRequest(scope=scope, id="q")),
            update_prize(engine, m.UpdatePrizeRequest(scope=scope, id=prize_id, prize=m.Prize(fulfillment=config))),
        ):
            fault = await refusal(sealing)
            assert (fault.status, fault.reason) == (Status.UNAVAILABLE, "STORE_UNAVAILABLE")
        assert await keys_in_use(engine) == {"2"}
        with pytest.raises(KeyMissing, match="contains only retired keys"):
            await engine.keyring.join(engine.database)
        named = m.UpdatePrizeRequest(scope=scope, id=prize_id, prize=m.Prize(name="Cup"))
        assert (await update_prize(engine, named)).prize
    async with core(new) as process:
        assert (await importing(process.engine, pool, "CODE-9")).added == 1


async def test_rotation_beside_imports_leaves_nothing_under_the_old_key(old: Settings, new: Settings) -> None:
    async with core(old) as process:
        engine = process.engine
        pool, _ = await fill(engine, codes=200)
        over, added = asyncio.Event(), 0

        async def keeps_importing(who: int) -> None:
            nonlocal added
            number = 0
            while not over.is_set():
                number += 1
                try:
                    reply = await importing(engine, pool, f"MORE-{who}-{number}")
                except Fault as fault:
                    assert fault.status is Status.UNAVAILABLE, fault
                    return
                added += reply.added

        rivals = [asyncio.ensure_future(keeps_importing(who)) for who in range(4)]
        await until(lambda: engine.database.fetchval("SELECT count(*) > 220 FROM codes"))
        done = await rotate_all(new)
        assert await keys_in_use(engine) == {"2"}
        over.set()
        await asyncio.gather(*rivals)
        assert await keys_in_use(engine) == {"2"}
        assert done.codes == 200 + added == await engine.database.fetchval("SELECT count(*) FROM codes")


async def test_rotation_back_lets_a_retired_key_seal_again(old: Settings, new: Settings) -> None:
    async with core(old) as process:
        pool, _ = await fill(process.engine)
        await rotate_all(new)
        await rotate_all(replace(new, code_keys=(*KEYS, NEW)))
        assert await keys_in_use(process.engine) == {"1"}
        assert (await importing(process.engine, pool, "CODE-9")).added == 1
    async with core(replace(new, code_keys=(NEW, *KEYS))) as process:
        await refusal(importing(process.engine, pool, "CODE-10"))
        await process.engine.keyring.join(process.engine.database)  # as a process does that starts
        assert (await importing(process.engine, pool, "CODE-10")).added == 1
        await process.engine.keyring.leave(process.engine.database)
