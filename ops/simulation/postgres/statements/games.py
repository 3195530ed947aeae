"""sql/games.sql: games and their revisions."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.statements.codes import free_codes
from ops.simulation.postgres.values import dumps, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement

CONTENT = "description image_url terms currency"
"""What players read of a prize."""


def definition_of(st: Statement, game: Any) -> Any | None:
    """The revision that a game is at; every reader joins the two."""
    return st.get("game_revisions", game.tenant_id, game.game_id, game.revision)


def _shown(st: Statement, game: Any) -> list[dict[str, Any]]:
    revision = definition_of(st, game)
    if revision is None:
        return []
    return [
        {"id": game.game_id}
        | of(game, "campaign_id status revision", definition=loads(revision.definition))
        | {"created_at": unix(game.created_at), "updated_at": unix(game.updated_at)}
    ]


@statement("games.insert")
async def insert(
    st: Statement,
    tenant_id: str,
    game_id: str,
    campaign_id: str,
    name: str,
    type_name: str,
    status: str,
    definition: Any,
) -> Result:
    own = {"tenant_id": tenant_id, "game_id": game_id}
    await st.insert("game_revisions", **own, revision=1, definition=dumps(definition))
    await st.insert("games", **own, campaign_id=campaign_id, name=name, type=type_name, status=status)
    return 1


@statement("games.get")
def get(st: Statement, tenant_id: str, game_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("games", tenant_id, game_id)
    return _shown(st, row) if row and st.theirs(tenant_id, merchant_id, writing)(row.campaign_id) else []


@statement("games.list")
def list_(
    st: Statement,
    tenant_id: str,
    status: str,
    campaign_id: str,
    type_name: str,
    pattern: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    about = {"campaign_id": campaign_id, "type": type_name}
    found = listed(st, "games", tenant_id, merchant_id, standing=status, pattern=pattern, **about)
    rows = [row for row in found if definition_of(st, row) is not None]
    return [one for row in newest(rows, "game_id", after, limit) for one in _shown(st, row)]


@statement("games.revise")
async def revise(
    st: Statement,
    tenant_id: str,
    game_id: str,
    revision: int,
    name: str,
    type_name: str,
    status: str,
    definition: Any,
) -> Result:
    row = st.get("games", tenant_id, game_id)
    rows = await st.update(
        [row] if row is not None and row.revision == revision else [],
        lambda g: {
            "name": name,
            "type": type_name,
            "status": status,
            "revision": g.revision + 1,
            "updated_at": st.now,
        },
        lambda g: g.revision == revision,
    )
    for game in rows:
        await st.insert("game_revisions", **of(game, "tenant_id game_id revision", definition=dumps(definition)))
    return [of(game, "revision") for game in rows]


@statement("games.boards_that_count")
def boards_that_count(st: Statement, tenant_id: str, game_id: str) -> Result:
    rows = st.find("leaderboards", tenant_id=tenant_id, game_id=game_id, status="active")
    return [{"board_id": board_id} for board_id in sorted(row.board_id for row in rows)]


def moved(st: Statement, tenant_id: str, game_id: str) -> bool:
    """Whether a game was ever played, or granted a rung."""
    own = {"tenant_id": tenant_id, "game_id": game_id}
    return st.exists("game_players", **own) or st.exists("milestone_grants", **own)


@statement("games.has_history")
def has_history(st: Statement, tenant_id: str, game_id: str) -> Result:
    counted = st.exists("leaderboards", tenant_id=tenant_id, game_id=game_id)
    return [{"?column?": moved(st, tenant_id, game_id) or counted}]


@statement("games.has_moved")
def has_moved(st: Statement, tenant_id: str, game_id: str) -> Result:
    return [{"?column?": moved(st, tenant_id, game_id)}]


@statement("games.remove")
async def remove(st: Statement, tenant_id: str, game_id: str) -> Result:
    row = st.get("games", tenant_id, game_id)
    gone = await st.delete([row] if row else [])
    await st.delete(st.find("game_revisions", tenant_id=tenant_id, game_id=game_id))
    return len(gone)


@statement("games.archive")
async def archive(st: Statement, tenant_id: str, game_id: str) -> Result:
    row = st.get("games", tenant_id, game_id)
    return len(await st.update([row] if row else [], {"status": "archived", "updated_at": st.now}))


def is_shown(st: Statement, row: Any | None) -> bool:
    """Whether the public may see this game."""
    campaign = st.get("campaigns", row.tenant_id, row.campaign_id) if row else None
    return bool(row and campaign and campaign.status != "draft" and row.status in ("active", "paused"))


@statement("games.on_show")
def on_show(st: Statement, tenant_id: str, game_id: str) -> Result:
    row = st.get("games", tenant_id, game_id)
    if row is None or not is_shown(st, row):
        return []
    own = {"tenant_id": tenant_id, "campaign_id": row.campaign_id}
    campaign = st.get("campaigns", tenant_id, row.campaign_id)
    boards = [board for board in st.find("leaderboards", **own) if board.status != "archived"]
    more = of(campaign, "merchant_id") | {
        "has_quests": st.exists("quests", **own, status="active"),
        "has_leaderboards": any(board.game_id in ("", game_id) for board in boards),
    }
    return [one | more for one in _shown(st, row)]


@statement("games.active_of_campaign")
def active_of_campaign(st: Statement, tenant_id: str, campaign_id: str, limit: int) -> Result:
    rows = st.find("games", tenant_id=tenant_id, campaign_id=campaign_id, status="active")
    found = [row for row in rows if definition_of(st, row) is not None]
    return [one for row in newest(found, "game_id", None, limit) for one in _shown(st, row)]


@statement("games.prizes_on_show")
def prizes_on_show(st: Statement, tenant_id: str, prize_ids: list[str]) -> Result:
    shown = []
    for prize_id in dict.fromkeys(prize_ids):
        prize, stock = st.get("prizes", tenant_id, prize_id), st.get("stock", tenant_id, prize_id)
        if prize is None or stock is None or prize.status != "active":
            continue
        points = prize.type == "points"
        stocked = points or stock.total == 0 or stock.remaining > 0
        coded = prize.channel != "voucher_code" or points
        coded = coded or bool(free_codes(st, tenant_id, prize_id))
        asked = loads(prize.claim_fields)
        names = f"prize_id name type value {CONTENT}"
        shown.append(of(prize, names, claim_fields=asked, available=stocked and coded))
    return st.unordered(shown)


@statement("games.insert_revision")
async def insert_revision(st: Statement, tenant_id: str, game_id: str, revision: int, definition: Any) -> Result:
    own = {"tenant_id": tenant_id, "game_id": game_id}
    await st.insert("game_revisions", **own, revision=revision, definition=dumps(definition))
    return 1
