"""Whoever may edit a receiver may not read its secret, nor have what it signs sent to a receiver of their own."""

from typing import Any

import pytest

from runtime.outgoing.channels import leaked_secrets
from tests.support.resources import make_prize
from tests.support.stack import Stack, fields_of
from tests.support.stored import config_of_integration, config_of_prize

HOME = "https://hooks.example/tombola"
SECRET = "a-secret-of-the-shop"
NO_ADDRESS = "https://hooks.example@thief.example/tombola"
ELSEWHERE = (
    *("https://thief.example/tombola", "http://hooks.example/tombola", "https://hooks.example:8443/tombola"),
    *("https://hooks.example.thief.example/tombola", NO_ADDRESS, "https://thief.example/@hooks.example/tombola"),
    *("https://hooks.example/thief", "https://hooks.example/tombola?to=thief"),
)
SAME = ("HTTPS://Hooks.Example:443/tombola", HOME)

UNSIGNED = {"secret": ""}  # Without it, a secret is generated.


class Integration:
    field = "config."

    async def make(self, stack: Stack, config: dict[str, Any]) -> str:
        body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["prize_won"], "config": config}
        return f"/admin/integrations/{(await stack.admin('POST', '/admin/integrations', body)).data['id']}"

    def update(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"config": config}

    async def stored(self, stack: Stack, path: str) -> dict[str, Any]:
        return await config_of_integration(stack, path.rpartition("/")[2])


class Channel(Integration):
    field = "fulfillment.config."

    async def make(self, stack: Stack, config: dict[str, Any]) -> str:
        return f"/admin/prizes/{await make_prize(stack, fulfillment={'channel': 'webhook', 'config': config})}"

    def update(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"fulfillment": {"channel": "workflow", "config": config}}

    async def stored(self, stack: Stack, path: str) -> dict[str, Any]:
        return await config_of_prize(stack, path.rpartition("/")[2])


def fields(kind: Integration, url: str, named: str) -> list[str]:
    return [f"{kind.field}url"] * (url == NO_ADDRESS) + [f"{kind.field}{named}"]


KINDS = pytest.mark.parametrize("kind", [Integration(), Channel()], ids=["integration", "channel"])


@KINDS
async def test_secret_does_not_follow_the_url_to_another_receiver(stack: Stack, kind: Integration) -> None:
    path = await kind.make(stack, {"url": HOME, "secret": SECRET})
    before = await kind.stored(stack, path)
    for url in ELSEWHERE:
        for config in ({"url": url}, {"url": url, "secret_set": True}):
            answer = await stack.admin("PUT", path, kind.update(config))
            assert fields_of(answer) == fields(kind, url, "secret"), url
    assert await kind.stored(stack, path) == before
    for url in SAME:
        assert (await stack.admin("PUT", path, kind.update({"url": url}))).data
        stored = await kind.stored(stack, path)
        assert (stored["url"], stored["secret"]) == (url, before["secret"])


@KINDS
async def test_header_values_do_not_follow_the_url_to_another_receiver(stack: Stack, kind: Integration) -> None:
    headers = {"Authorization": "Bearer shop", "X-Shop": "1"}
    path = await kind.make(stack, {"url": HOME, "headers": headers, **UNSIGNED})
    before = await kind.stored(stack, path)
    shown = {"Authorization": "***", "X-Shop": "2"}
    for url in ELSEWHERE:
        for sent, named in (({}, "headers"), ({"headers": shown}, "headers.Authorization")):
            answer = await stack.admin("PUT", path, kind.update({"url": url, **sent, **UNSIGNED}))
            assert fields_of(answer) == fields(kind, url, named), url
    assert await kind.stored(stack, path) == before
    for url in SAME:
        assert (await stack.admin("PUT", path, kind.update({"url": url, **UNSIGNED}))).data
        assert (await kind.stored(stack, path))["headers"] == headers
    for nth, own in enumerate(({"Authorization": "Bearer another"}, {})):
        assert (await stack.admin("PUT", path, kind.update({"url": ELSEWHERE[nth], "headers": own, **UNSIGNED}))).data
        assert (await kind.stored(stack, path))["headers"] == own


@KINDS
async def test_headers_are_masked_by_name_and_changed_one_by_one(stack: Stack, kind: Integration) -> None:
    path = await kind.make(stack, {"url": HOME, "headers": {"A": "1", "B": "2"}, **UNSIGNED})
    for sent, stored in (
        ({"headers": {"A": "***", "B": "3", "C": "4"}}, {"A": "1", "B": "3", "C": "4"}),
        *(({"headers": {"C": "***"}}, {"C": "4"}), ({}, {"C": "4"}), ({"headers": {}}, {})),
    ):
        answer = await stack.admin("PUT", path, kind.update({"url": HOME, **sent, **UNSIGNED}))
        shown = answer.data["config"] if kind.field == "config." else answer.data["fulfillment"]["config"]
        assert shown == {"url": HOME, "headers": dict.fromkeys(stored, "***")}
        assert (await kind.stored(stack, path))["headers"] == stored
    for nothing in ({"A": "***"}, {"a": "***"}):
        answer = await stack.admin("PUT", path, kind.update({"url": HOME, "headers": nothing}))
        assert fields_of(answer) == [f"{kind.field}headers.{next(iter(nothing))}"], "nothing is kept of it"


@KINDS
async def test_sealed_value_submitted_as_input_is_not_opened(stack: Stack, kind: Integration) -> None:
    """Otherwise an editor with a backup could send a sealed value to a receiver and have it opened."""
    path = await kind.make(stack, {"url": HOME, "secret": SECRET, "headers": {"Authorization": "Bearer shop"}})
    there = await stack.database.fetchval("SELECT channel_config FROM prizes UNION ALL SELECT config FROM integrations")
    stolen = {"X-A": there["secret"], "X-B": there["headers"]["Authorization"]}
    moved = {"url": ELSEWHERE[0], "secret": "another-secret-of-the-thief", "headers": stolen}
    assert (await stack.admin("PUT", path, kind.update(moved))).data
    assert (await kind.stored(stack, path))["headers"] == stolen


@KINDS
async def test_headers_of_maximum_length_survive_later_changes(stack: Stack, kind: Integration) -> None:
    """A sealed header is longer than the limit on input."""
    headers = {f"X-{nth}": "h" * 3_000 for nth in range(20)}
    path = await kind.make(stack, {"url": HOME, "headers": headers})
    shown = {"url": HOME, "headers": dict.fromkeys(headers, "***")}
    assert (await stack.admin("PUT", path, kind.update(shown))).data
    assert (await kind.stored(stack, path))["headers"] == headers


@KINDS
async def test_previous_secret_does_not_follow_the_url_to_another_receiver(stack: Stack, kind: Integration) -> None:
    path = await kind.make(stack, {"url": HOME, "secret": SECRET, "previous_secret": f"old-{SECRET}"})
    moved = {"url": ELSEWHERE[0], "secret": "a-secret-of-another"}
    assert fields_of(await stack.admin("PUT", path, kind.update(moved))) == [f"{kind.field}previous_secret"]
    assert (await stack.admin("PUT", path, kind.update({**moved, "previous_secret": ""}))).data
    assert not (await kind.stored(stack, path)).get("previous_secret")


def test_plugin_config_counts_entirely_as_the_receiver() -> None:
    stored = {"endpoint": "https://sheets.example", "secret": "sealed:1:x", "headers": {"X-Shop": "1"}}
    assert list(leaked_secrets(stored, {"endpoint": "https://sheets.example"})) == []
    for config, saved in (
        *(({"endpoint": "https://thief.example"}, ["secret", "headers"]), ({}, ["secret", "headers"])),
        ({**stored, "url": HOME, "secret": None}, ["secret"]),
    ):
        fields = {name: value for name, value in config.items() if value is not None}
        assert [name for name, _ in leaked_secrets(stored, fields)] == saved
