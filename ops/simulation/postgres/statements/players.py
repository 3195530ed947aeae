"""sql/players.sql: players and their contacts."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.statements.play import first_known_as
from ops.simulation.postgres.values import dumps, loads, of, unix
from ops.simulation.postgres.vocabulary import NO_KEY_UPDATE, Result, Statement, statement

_ONCE = ("tenant_id", "type", "value")


def _contact(row: Any) -> dict[str, Any]:
    return of(row, "contact_id player_id type value verified", created_at=unix(row.created_at))


@statement("players.find")
def find(st: Statement, tenant_id: str, player_id: str) -> Result:
    row = st.get("players", tenant_id, player_id)
    if row is None:
        return []
    contacts = st.find("contacts", tenant_id=tenant_id, player_id=player_id)
    contacts.sort(key=lambda contact: contact.contact_id)
    return [
        of(row, "player_id display_name avatar_url locale", attributes=loads(row.attributes))
        | of(row, "auth_method status", created_at=unix(row.created_at), updated_at=unix(row.updated_at))
        | {
            "contacts": [
                {"id": one.contact_id, "created_at": unix(one.created_at)} | of(one, "type value verified")
                for one in contacts
            ]
        }
    ]


@statement("players.meet")
async def meet(st: Statement, tenant_id: str, player_id: str) -> Result:
    if st.get("tenants", tenant_id) is None:
        return []
    values: dict[str, Any] = {"tenant_id": tenant_id, "player_id": player_id, "auth_method": first_known_as(player_id)}
    return [of(row, "player_id") for row in [await st.insert_unless("players", **values)] if row]


@statement("players.update")
async def update(
    st: Statement,
    tenant_id: str,
    player_id: str,
    display_name: str | None,
    avatar_url: str | None,
    locale: str | None,
    attributes: Any,
) -> Result:
    if st.get("tenants", tenant_id) is None:
        return []
    asked = {
        "display_name": display_name,
        "avatar_url": avatar_url,
        "locale": locale,
        "attributes": dumps(attributes),
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    row = await st.upsert(
        "players",
        lambda p, excluded: given | {"updated_at": st.now},
        tenant_id=tenant_id,
        player_id=player_id,
        auth_method=first_known_as(player_id),
        **given,
    )
    return [of(row, "player_id")]


@statement("players.set_status")
async def set_status(st: Statement, tenant_id: str, player_id: str, status: str) -> Result:
    row = st.get("players", tenant_id, player_id)
    rows = await st.update(
        [row] if row is not None and row.merged_into is None else [],
        {"status": status, "updated_at": st.now},
        lambda row: row.merged_into is None,
    )
    return [of(row, "player_id") for row in rows]


@statement("players.owner")
def owner(st: Statement, tenant_id: str, type_name: str, value: str) -> Result:
    rows = st.find("contacts", tenant_id=tenant_id, type=type_name, value=value)
    return [of(row, "player_id") for row in rows]


@statement("players.sign_up")
async def sign_up(
    st: Statement, tenant_id: str, player_id: str, auth_method: str, contact_id: str, type_name: str, value: str
) -> Result:
    if st.get("tenants", tenant_id) is None:
        return []
    contact = await st.insert_unless(
        "contacts",
        on=_ONCE,
        tenant_id=tenant_id,
        contact_id=contact_id,
        player_id=player_id,
        type=type_name,
        value=value,
    )
    if contact is None:
        return []
    return [
        of(await st.insert("players", tenant_id=tenant_id, player_id=player_id, auth_method=auth_method), "player_id")
    ]


@statement("players.link")
async def link(
    st: Statement, tenant_id: str, player_id: str, contact_id: str, type_name: str, value: str, auth_method: str
) -> Result:
    found = st.get("players", tenant_id, player_id)
    rows = [found] if found is not None and found.merged_into is None else []
    held = await st.lock(rows, NO_KEY_UPDATE, lambda row: row.merged_into is None)
    if not held:
        return []
    linked = await st.insert_unless(
        "contacts",
        on=_ONCE,
        tenant_id=tenant_id,
        contact_id=contact_id,
        player_id=player_id,
        type=type_name,
        value=value,
    )
    if linked is None:
        return []
    was_guest = held[0].auth_method == "guest"
    if was_guest:
        await st.update([found], {"auth_method": auth_method, "updated_at": st.now})
    return [_contact(linked) | {"was_guest": was_guest}]


@statement("players.contact")
def contact(st: Statement, tenant_id: str, type_name: str, value: str) -> Result:
    return [_contact(row) for row in st.find("contacts", tenant_id=tenant_id, type=type_name, value=value)]


@statement("players.merged")
def merged(st: Statement, tenant_id: str, player_ids: list[str]) -> Result:
    rows = [st.get("players", tenant_id, player_id) for player_id in dict.fromkeys(player_ids)]
    return st.unordered([of(row, "player_id merged_into") for row in rows if row and row.merged_into is not None])
