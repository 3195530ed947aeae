from typing import Any

from runtime.outgoing.vault import integration_context, opened, prize_context, vault_of
from tests.support.stack import Stack


async def config_of_prize(stack: Stack, prize_id: str) -> dict[str, Any]:
    """The config of its channel, with what its headers carry opened. Fails the test where one of them is not sealed."""
    config = await stack.database.fetchval("SELECT channel_config FROM prizes WHERE prize_id = $1", prize_id)
    return _opened(stack, config, prize_context(stack.tenant_id, prize_id))


async def config_of_integration(stack: Stack, integration_id: str) -> dict[str, Any]:
    config = await stack.database.fetchval("SELECT config FROM integrations WHERE integration_id = $1", integration_id)
    return _opened(stack, config, integration_context(stack.tenant_id, integration_id))


def _opened(stack: Stack, config: dict[str, Any], context: str) -> dict[str, Any]:

    def open_secret(value: str) -> str:
        assert value.startswith("sealed:"), "what is secret lies open"
        return vault_of(stack.process.settings.code_keys).open_secret(value, context)

    return opened(config, open_secret)[1]
