"""What the body of an event carries about its player, if the integration asks for it and the player consents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sql
from runtime.events import Event
from runtime.outgoing.integrations import includes
from runtime.stores.database import Database

_SQL: Final = sql.load("integrations")
_CONTACTS: Final = ("email", "phone")


async def included(database: Database, type: str, config: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """The fields of config.include: {"contact": {"email", "phone"}, "entry": {...}}; {} without consent config.consent.

    Read from the primary at each attempt, so that a withdrawal takes effect at the next one, and never stored. Raises
    StoreUnavailable and PostgresError.
    """
    names = config.get("include") if includes(type) else None
    player_id = _player_of(event)
    if not names or not player_id or not event.campaign_id:
        return {}
    about = (event.tenant_id, event.campaign_id, player_id, config.get("consent", ""))
    row = await database.route(event.tenant_id).fetchrow(_SQL["included"], *about)
    if row is None:
        return {}
    contact = {kind: row[kind] for kind in _CONTACTS if row[kind] is not None}
    found = {"contact": contact, "entry": row["fields"]}
    return {name: found[name] for name in names}


def _player_of(event: Event) -> str:
    """The one player that an event is about; "" if there is none."""
    data = event.data
    player_id = data.get("player_id") if isinstance(data, dict) else getattr(data, "player_id", None)
    return player_id if isinstance(player_id, str) else ""
