from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from runtime.commands import campaign_files, documents
from runtime.commands.connection import Edge
from runtime.http import gallery
from tests.support.stack import Stack


async def applied(stack: Stack, name: str, *, days_ago: int = 0) -> str:
    """Imports a template as a campaign that began days ago. It is noon there: no day ends during a test."""
    file, now = documents.parse(name, gallery.text_of(name)).value, datetime.now(UTC)
    start = int((now - timedelta(days=days_ago)).timestamp())
    file["campaign"] |= {"start_date": start, "timezone": f"Etc/GMT{now.hour - 12:+d}"}
    return (await stack.admin("POST", "/admin/campaigns/import", {"file": file})).data["campaign_id"]


async def exported(stack: Stack, campaign_id: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {stack.token('ann', ('admin',))}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        edge = Edge(http, stack.process.admin_url)
        [campaign] = await campaign_files.find_campaigns(edge, campaign_id)
        return campaign_files.exported(await campaign_files.load(edge, campaign))[0]
