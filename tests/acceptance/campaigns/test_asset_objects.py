"""Pictures as objects of a storage that speaks S3's protocol: moto's server, which verifies signatures."""

import asyncio
import ipaddress
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import boto3
import pytest
import pytest_asyncio

from ops.servers.base import free_port
from runtime.operations.assets import stored_objects
from runtime.outgoing.objects import Objects
from runtime.settings.kinds import bucket_of
from tests.acceptance.campaigns.test_assets import picture, served, upload
from tests.support.resources import make_campaign
from tests.support.stack import Stack, refused
from tests.support.waiting import until

AWAY: Final = (503, "UNAVAILABLE", "ASSETS_UNAVAILABLE")
LOCAL: Final = (ipaddress.ip_network("127.0.0.1"),)
EVERYTHING: Final = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'


class Storage:
    """A bucket, and the key that opens it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = ("none", "none")

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": self.key[0], "aws_secret_access_key": self.key[1]}
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)

    def set_up(self) -> None:
        """Three calls without a valid key: the server admits no more."""
        iam = self.client("iam")
        iam.create_user(UserName="tombola")
        key = iam.create_access_key(UserName="tombola")["AccessKey"]
        iam.put_user_policy(UserName="tombola", PolicyName="all", PolicyDocument=EVERYTHING)
        self.key = (key["AccessKeyId"], key["SecretAccessKey"])
        self.client("s3").create_bucket(Bucket="brand")

    def keys(self, tenant_id: str) -> list[str]:
        listed = self.client("s3").list_objects_v2(Bucket="brand", Prefix=f"tombola/tenant-{tenant_id}/")
        return [one["Key"] for one in listed.get("Contents", ())]

    def objects(self, *, secret: str = "", allow: Any = LOCAL) -> Objects:
        bucket = bucket_of(f"s3://brand/tombola?endpoint={self.url}")
        return Objects(bucket, self.key[0], secret or self.key[1], allow=allow)


@pytest_asyncio.fixture(scope="module")
async def storage() -> AsyncIterator[Storage]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:

        async def listens() -> bool:
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
            except OSError:
                return False
            return True

        await until(listens)
        made = Storage(port)
        await asyncio.to_thread(made.set_up)
        yield made
        server.kill()


async def test_asset_is_an_object_until_it_is_deleted(
    stack: Stack, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await upload(stack, picture(colour=1))).data
    monkeypatch.setattr(stack.engine, "objects", storage.objects())
    made = (await upload(stack, picture(colour=2), name="logo.png")).data
    assert (await upload(stack, picture(colour=2))).data["id"] == made["id"], "the same asset, of another object"
    for asset in (before, made):
        status, headers, body = await served(stack, asset["url"])
        assert (status, headers["Content-Type"], len(body)) == (200, "image/webp", asset["size"])
        assert "immutable" in headers["Cache-Control"]
    kept = "SELECT asset_id FROM assets WHERE tenant_id = $1 AND body IS NOT NULL"
    assert await stack.database.fetchval(kept, stack.tenant_id) == before["id"]
    assert (await stack.admin("DELETE", f"/admin/assets/{made['id']}")).code == "OK"
    assert len(await asyncio.to_thread(storage.keys, stack.tenant_id)) == 2
    await stack.database.execute("UPDATE asset_removals SET due_at = now() WHERE tenant_id = $1", stack.tenant_id)
    await stored_objects.remove_all(stack.engine)
    assert await asyncio.to_thread(storage.keys, stack.tenant_id) == []
    again = (await upload(stack, picture(colour=2))).data
    [key] = await asyncio.to_thread(storage.keys, stack.tenant_id)
    await stored_objects.remove_all(stack.engine)
    assert await asyncio.to_thread(storage.keys, stack.tenant_id) == [key]
    other = {"Bucket": "brand", "Key": key, "Body": b"<script>"}
    await asyncio.to_thread(lambda: storage.client("s3").put_object(**other))
    refusal = await stack.core("GET", f"/assets/{again['id']}/content")
    assert refusal.reason == "UNKNOWN_ASSET", "the object is not what was uploaded"
    await stack.engine.objects.close()


async def test_storage_that_is_away_stops_uploads_alone(
    stack: Stack, storage: Storage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack.engine, "objects", storage.objects())
    made = (await upload(stack, picture(colour=3))).data
    await stack.engine.objects.close()
    campaign = await make_campaign(stack, settings={"theme": {"logo": made["url"]}})
    for objects in (storage.objects(secret="wrong-secret"), storage.objects(allow=()), Storage(free_port()).objects()):
        monkeypatch.setattr(stack.engine, "objects", objects)
        assert refused(await upload(stack, picture(colour=4))) == AWAY
        assert refused(await stack.core("GET", f"/assets/{made['id']}/content")) == AWAY
        status, _, body = await served(stack, f"/c/{campaign['id']}?tenant_id={stack.tenant_id}")
        assert status == 200 and made["url"].encode() in body
        await objects.close()
    logged = "".join(capsys.readouterr())
    assert "objects_unavailable" in logged and "wrong-secret" not in logged and "Signature" not in logged
    monkeypatch.setattr(stack.engine, "objects", None)
    assert refused(await stack.core("GET", f"/assets/{made['id']}/content")) == AWAY
    assert [one["id"] for one in (await stack.admin("GET", "/admin/assets")).data["items"]] == [made["id"]]
