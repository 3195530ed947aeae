"""Players' profiles and contacts.

Core trusts its callers to verify contacts; the consumer edge's login does (runtime/http/login/routes.py). A contact
belongs to one player, by a unique index over (tenant, type, value).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import msgspec

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, merged, unknown
from runtime.operations import audit, catalog, suspension
from runtime.operations.checks import NAME_LENGTH_MAX, refuse_read_only
from runtime.operations.players import challenges, merging, revocations
from runtime.operations.players.lookup import FIND, MEET, OWNER, contact_from_row, player_from_row
from runtime.operations.row import ADMINS, Access, Command, Consumer, Operation
from runtime.wire import contacts
from runtime.wire.enums import token
from runtime.wire.schema import fields_of, refused
from runtime.wire.scope import player_id_of, tenant_of

_SQL: Final = sql.load("players")
UPDATE: Final = _SQL["update"]
SIGN_UP: Final = _SQL["sign_up"]
LINK: Final = _SQL["link"]
CONTACT: Final = _SQL["contact"]

ATTRIBUTES_BYTES_MAX: Final = 16 * 1024

READ_ONLY: Final = frozenset(name for name, field in fields_of(m.Player).items() if field.read_only)
"""Output-only fields: an update may repeat their current values (AIP-203)."""

_AVATAR_URL: Final = fields_of(m.Player)["avatar_url"]

AUTH_METHODS: Final = {m.ContactType.PHONE: "phone_otp", m.ContactType.EMAIL: "email_otp"}

# BCP 47 in outline: a language, then subtags ("en", "pt-BR", "zh-Hant-TW").
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,6}")


async def resolve_player(engine: Engine, request: m.ResolvePlayerRequest) -> m.ResolvePlayerReply:
    """Returns the player of a contact, and creates it if there is none (`created`).

    With `guest_player_id` it merges that guest into the player, in one transaction, once. Only a guest without
    contacts is merged. NOT_FOUND UNKNOWN_TENANT.
    """
    tenant_id = tenant_of(request)
    type, value = _contact(request.contact)
    player_id, created = await _resolve(engine, tenant_id, type, value)
    if not created:
        await suspension.refuse(engine, request, player_id)
    merged_guests: list[Any] = []
    if request.guest_player_id:
        if ids.is_guest(request.guest_player_id):
            # A guest that has not played yet has no row. It is merged too, since a play may be under way.
            await engine.database.fetchval(MEET, tenant_id, request.guest_player_id)
        await merging.merge(engine, tenant_id, request.guest_player_id, player_id)
        merged_guests = await engine.database.fetch(_SQL["merged"], tenant_id, [request.guest_player_id])
    row = await engine.database.fetchrow(FIND, tenant_id, player_id)
    assert row is not None, "a contact's player exists"
    guest_merged = any(guest["merged_into"] == player_id for guest in merged_guests)
    return m.ResolvePlayerReply(player=player_from_row(row), created=created, guest_merged=guest_merged)


async def get_player(engine: Engine, request: m.GetPlayerRequest) -> m.PlayerReply:
    """Returns the profile. Creates an unknown player, since identities may come from another issuer.

    Refused to suspended players, which also stops them from renewing a login.
    """
    await suspension.refuse(engine, request, player_id_of(request))
    return await _profile(engine, tenant_of(request), player_id_of(request))


async def update_player(engine: Engine, request: m.UpdatePlayerRequest) -> m.PlayerReply:
    """Sets the provided fields of the profile and leaves the others unchanged."""
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    player = request.player or m.Player()
    values = _changes(player, request.update_mask)
    if any(getattr(player, name) for name in READ_ONLY):
        refuse_read_only(player, (await _profile(engine, tenant_id, player_id)).player)
    if await engine.database.fetchval(UPDATE, tenant_id, player_id, *values) is None:
        raise unknown("tenant", tenant_id)
    return await _profile(engine, tenant_id, player_id)


async def set_player_status(engine: Engine, request: m.SetPlayerStatusRequest) -> m.PlayerReply:
    """Suspends or restores a player, with a reason for the audit log. NOT_FOUND UNKNOWN_PLAYER.

    For a merged guest it acts on the player that the guest became, who could otherwise play on.
    """
    tenant_id, status = tenant_of(request), token(request.status)
    if not status:
        raise invalid("status", "is required")

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        before = await connection.fetchrow(FIND, tenant_id, request.id)
        if before is None:
            raise unknown("player", request.id)
        if await connection.fetchval(_SQL["set_status"], tenant_id, request.id, status) is None:
            [guest] = await connection.fetch(_SQL["merged"], tenant_id, [request.id])
            before = await connection.fetchrow(FIND, tenant_id, guest["merged_into"])
            assert before is not None, "a guest was merged into an existing player"
            await connection.execute(_SQL["set_status"], tenant_id, before["player_id"], status)
        player_id, after = before["player_id"], {"status": status, "reason": request.reason}
        await audit.record(
            connection, tenant_id, "player.set_status", player_id, before={"status": before["status"]}, after=after
        )
        row = await connection.fetchrow(FIND, tenant_id, player_id)
        assert row is not None
        return row

    return m.PlayerReply(player=player_from_row(await catalog.change(engine, tenant_id, work)))


async def link_contact(engine: Engine, request: m.LinkContactRequest) -> m.ContactReply:
    """Adds a contact to the player and consumes the challenge that verified it, in one transaction. Returns a contact
    unchanged if the player has it already. A guest becomes a registered player by its first contact, and its tokens
    end (session fixation: see merging.py).

    NOT_FOUND UNKNOWN_CHALLENGE if its code was used; ALREADY_EXISTS CONTACT_TAKEN for another player's contact;
    PERMISSION_DENIED PLAYER_MERGED for a merged guest: an old guest token must not give access to the player's account.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    type, value = _contact(request.contact)
    await _profile(engine, tenant_id, player_id)
    key = (type.name.lower(), value)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        linked = await connection.fetchrow(LINK, tenant_id, player_id, ids.make("contact"), *key, AUTH_METHODS[type])
        row = linked or await connection.fetchrow(CONTACT, tenant_id, *key)
        if row is None:
            raise merged()
        if row["player_id"] != player_id:
            raise Fault(Status.ALREADY_EXISTS, "CONTACT_TAKEN", "the contact belongs to another player")
        if request.challenge_id and not await challenges.consume(connection, tenant_id, request.challenge_id):
            raise challenges.unknown_challenge()
        if linked is not None and linked["was_guest"]:
            await revocations.revoke_player(connection, engine, tenant_id, player_id)
        return row

    row = await engine.database.transaction(work)
    return m.ContactReply(contact=contact_from_row({"id": row["contact_id"], **row}))


# -- resolving -------------------------------------------------------------------------------


class _Resolved(NamedTuple):
    player_id: str
    created: bool


async def _resolve(engine: Engine, tenant_id: str, type: m.ContactType, value: str) -> _Resolved:
    token = type.name.lower()
    owner = await engine.database.fetchval(OWNER, tenant_id, token, value)
    if owner is not None:
        return _Resolved(owner, created=False)
    created_id = await engine.database.fetchval(
        SIGN_UP, tenant_id, ids.make("player"), AUTH_METHODS[type], ids.make("contact"), token, value
    )
    if created_id is not None:
        return _Resolved(created_id, created=True)
    # ON CONFLICT waited for the concurrent insert to commit, so its row is visible now.
    owner = await engine.database.fetchval(OWNER, tenant_id, token, value)
    if owner is None:
        raise unknown("tenant", tenant_id)
    return _Resolved(owner, created=False)


# -- profiles --------------------------------------------------------------------------------


async def _profile(engine: Engine, tenant_id: str, player_id: str) -> m.PlayerReply:
    row = await engine.database.fetchrow(FIND, tenant_id, player_id)
    if row is None:
        await engine.database.fetchval(MEET, tenant_id, player_id)
        row = await engine.database.fetchrow(FIND, tenant_id, player_id)
    if row is None:
        raise unknown("tenant", tenant_id)
    return m.PlayerReply(player=player_from_row(row))


class _Changes(NamedTuple):
    """The arguments of the UPDATE statement. None: unchanged."""

    display_name: str | None = None
    avatar_url: str | None = None
    locale: str | None = None
    attributes: dict[str, Any] | None = None
    unsubscribed: list[str] | None = None


def _changes(player: m.Player, mask: list[str]) -> _Changes:
    """The fields in `mask`; without a mask those that are not empty. Read-only fields are ignored.

    INVALID_ARGUMENT for an unknown field or an invalid value.
    """
    settable: dict[str, Any] = {
        "display_name": player.display_name.strip(),
        "avatar_url": player.avatar_url,
        "locale": player.locale,
        "attributes": player.attributes or {},
        "unsubscribed": sorted({token(kind) for kind in player.unsubscribed}),
    }
    names = set(mask) - READ_ONLY if mask else {name for name, value in settable.items() if value}
    found = [
        ("update_mask", f"{name[:NAME_LENGTH_MAX]!r} is not a field of a player")
        for name in sorted(names - settable.keys())
    ]
    provided = {name: settable[name] for name in names & settable.keys()}
    found += [
        (name, problem) for name, check in _PROBLEMS.items() if name in provided and (problem := check(provided[name]))
    ]
    if found:
        raise refused(found)
    return _Changes(**provided)


def _url_problem(value: str) -> str | None:
    if not value:
        return None
    valid = False
    if len(value) <= _AVATAR_URL.most:  # Parsing normalizes the host, in quadratic time.
        with suppress(ValueError):
            parts = urlsplit(value)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    return None if valid else "must be an http or https address"


def _locale_problem(value: str) -> str | None:
    return None if not value or _LOCALE.fullmatch(value) else "must be a language tag such as en or pt-BR"


def _attributes_problem(value: dict[str, Any]) -> str | None:
    valid = len(msgspec.json.encode(value)) <= ATTRIBUTES_BYTES_MAX
    return None if valid else f"must be at most {ATTRIBUTES_BYTES_MAX} bytes of JSON"


def _kinds_problem(value: list[str]) -> str | None:
    return "must be kinds of messages" if "" in value else None


_PROBLEMS: Final[dict[str, Any]] = {
    "avatar_url": _url_problem,
    "locale": _locale_problem,
    "attributes": _attributes_problem,
    "unsubscribed": _kinds_problem,
}


# -- messages --------------------------------------------------------------------------------


def _contact(contact: m.Contact | None) -> tuple[m.ContactType, str]:
    if contact is None:
        raise invalid("contact", "is required")
    return contact.type, contacts.normalized(contact.type, contact.value)


# -- rows ------------------------------------------------------------------------------------

RESOLVE_PLAYER: Final = Operation(
    "ResolvePlayer",
    "POST /players/resolve",
    run=resolve_player,
    lengthy=True,
    refusals=("UNKNOWN_TENANT", "UNKNOWN_PLAYER", "PLAYER_MERGED"),
    example={"contact": {"type": "CONTACT_TYPE_EMAIL", "value": "ada@example.com"}},
)
GET_PLAYER: Final = Operation(
    "GetPlayer",
    "GET /players/me",
    run=get_player,
    consumer=Consumer(Access.PLAYER),
    refusals=("SUSPENDED", "UNKNOWN_TENANT", "UNKNOWN_PLAYER", "PLAYER_MERGED"),
)
LINK_CONTACT: Final = Operation(
    "LinkContact",
    "POST /players/me/contacts",
    run=link_contact,
    refusals=("CONTACT_TAKEN", "UNKNOWN_CHALLENGE", "UNKNOWN_TENANT", "UNKNOWN_PLAYER", "PLAYER_MERGED"),
    example={"contact": {"type": "CONTACT_TYPE_PHONE", "value": "+4915112345678", "verified": True}},
)

ROWS: Final = (
    RESOLVE_PLAYER,
    GET_PLAYER,
    Operation(
        "UpdatePlayer",
        "PUT /players/me",
        run=update_player,
        resource="player",
        consumer=Consumer(Access.PLAYER),
        refusals=("UNKNOWN_TENANT", "UNKNOWN_PLAYER", "PLAYER_MERGED"),
        example={
            "display_name": "Ada",
            "avatar_url": "https://example.com/ada.png",
            "locale": "de-DE",
            "attributes": {"newsletter": True},
            "unsubscribed": ["MESSAGE_KIND_REMINDER"],
        },
    ),
    LINK_CONTACT,
    Operation(
        "SetPlayerStatus",
        "PUT /players/{id}",
        run=set_player_status,
        admin=ADMINS,
        tenant_wide=True,
        refusals=("UNKNOWN_TENANT",),
        example={"status": "PLAYER_STATUS_ACTIVE", "reason": "the appeal was upheld"},
        command=(
            Command(
                "players suspend PLAYER --reason",
                "Suspend a player: no plays, wins or logins until it is restored.",
                sends={"status": "PLAYER_STATUS_SUSPENDED"},
                outcome="{player} is suspended",
            ),
            Command(
                "players restore PLAYER --reason",
                "Restore a suspended player.",
                sends={"status": "PLAYER_STATUS_ACTIVE"},
                outcome="{player} is active",
            ),
        ),
    ),
)
