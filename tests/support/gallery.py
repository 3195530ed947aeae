"""Campaigns' files, applied and written as the command does it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from runtime.commands import campaign_files, documents
from runtime.commands.connection import Edge
from runtime.http import gallery
from tests.support.stack import Stack


@asynccontextmanager
async def edge_of(stack: Stack) -> AsyncIterator[Edge]:
    headers = {"Authorization": f"Bearer {stack.token('ann', ('admin',))}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        yield Edge(http, stack.process.admin_url)


async def applied(stack: Stack, name: str) -> str:
    file = documents.parse(name, gallery.text_of(name)).value
    made: str = (await stack.admin("POST", "/admin/campaigns/import", {"file": file})).data["campaign_id"]
    return made


async def exported(stack: Stack, campaign_id: str) -> dict[str, Any]:
    async with edge_of(stack) as edge:
        [campaign] = await campaign_files.find_campaigns(edge, campaign_id)
        return campaign_files.exported(await campaign_files.load(edge, campaign))[0]
