from typing import Any

from tests.support.browsing import Visit
from tests.support.world import World


async def shown_and_stored(fair: World, visit: Visit, game_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the API tells the page's guest of its one play, and what the database keeps of it."""
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    api, tenant_id = fair.stack.consumer, fair.stack.tenant_id
    (play,) = (await api("GET", f"/games/{game_id}/history/me", headers=headers)).data["items"]
    rewards = (await api("GET", "/rewards/me", headers=headers)).data["items"]
    wallet = (await api("GET", "/wallet", headers=headers)).data["items"]
    tells = {
        "play": (play["id"], play["seed"], play["client_seed"], play["metadata"]),
        "prizes": [(one["reward_id"], one["prize_id"], one["quantity"]) for one in play["rewards"] if one["prize_id"]],
        "mine": [(one["id"], one["prize_id"], one["quantity"]) for one in rewards],
        "wallet": [(one["currency"], one["balance"]) for one in wallet],
    }
    row = await fair.database.fetchrow(
        "SELECT encode(seed, 'hex') AS seed, client_seed, outcome, player_id, payload FROM plays"
        " WHERE tenant_id = $1 AND play_id = $2",
        *(tenant_id, play["id"]),
    )
    query = "SELECT reward_id, prize_id, quantity FROM rewards WHERE tenant_id = $1 AND play_id = $2"
    stored = await fair.database.fetch(query, tenant_id, play["id"])
    entries = await fair.database.fetch(
        "SELECT currency, sum(amount)::int FROM ledger_entries WHERE tenant_id = $1 AND player_id = $2 GROUP BY 1",
        *(tenant_id, row["player_id"]),
    )
    prizes = [tuple(one) for one in stored]
    assert prizes or row["payload"].get("caught_items", []) == [], "a loss caught nothing"
    return tells, {
        "play": (play["id"], row["seed"], row["client_seed"], row["outcome"]["decided"]["metadata"]),
        "prizes": prizes,
        "mine": prizes,
        "wallet": [tuple(one) for one in entries],
    }
