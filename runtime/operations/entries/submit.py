"""A player's entry to a campaign: created once, and updated by later submissions.

The transaction locks the player, so that its submissions take turns, and reads the form under a lock, so that it does
not change meanwhile. Each decision about a consent leaves a receipt with the SHA-256 of its text. `consent_texts` says
which text the player saw: one that has changed since is refused. A receipt is never changed. A withdrawal removes the
consent's token in the same transaction; a play that was decided before is refused by the commit's guard, since the
entry's revision has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.eligibility import login_required
from runtime.actors.idempotency import keyed, mismatch, replayed, request_hash
from runtime.errors import Fault, Status, invalid, suspended, unknown, violations
from runtime.operations import suspension
from runtime.operations.entries import captcha, closing, contacts
from runtime.outgoing.vault import vault_of
from runtime.rules import entry as rules
from runtime.rules.proof_of_work import Solved
from runtime.wire.schema import fields_of
from runtime.wire.scope import player_id_of, tenant_of

SQL: Final = sql.load("entries")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")
_MEET: Final = sql.load("players")["create"]

CONTACTS_MAX: Final = 5
"""Earlier contacts that an entry keeps for itself: with more, one player could lock out many mailboxes."""

SECRET_KEY_MIN: Final = 22
"""Characters of an idempotency key that only its client knows: 128 random bits in base64."""

TOKEN_SECONDS: Final = 600
"""How long after the entry a retry gets the guest's token. Later, a leaked key gives no access to the guest."""

ATTEMPTS: Final = 3
"""Attempts of a submission whose guest was merged into a player meanwhile."""


class _Merged(Exception):
    def __init__(self, player_id: str) -> None:
        super().__init__(player_id)
        self.player_id = player_id


async def submit_entry(engine: Engine, request: m.SubmitEntryRequest) -> m.SubmitEntryReply:
    """Creates the player's entry to the campaign, or updates it, and says what it lacks.

    An incomplete entry is stored: `missing` lists the required fields and consents that it lacks. Without a player, a
    guest is created if the campaign has a public game or no game; `guest_token` identifies the guest later. A retry
    with the same Idempotency-Key and content gets the same guest. A consent that is false is withdrawn at once; a
    request that only withdraws consents works with every status and form of the campaign, also for a suspended player.
    PERMISSION_DENIED NOT_ELIGIBLE with `why`, or LOGIN_REQUIRED for a guest if it has games and none admits guests;
    nothing is stored. FAILED_PRECONDITION CAMPAIGN_CLOSED if the campaign has not begun (`opens_at`), is paused or has
    ended; complete entries can still change, and those can be made that a claim or redeem requires. FAILED_PRECONDITION
    CAPTCHA_REQUIRED with `captcha`, the one to solve for a new entry, or CONSENT_CHANGED with `consents`, whose texts
    have changed since the player saw them; UNAVAILABLE CAPTCHA_UNAVAILABLE.
    """
    await suspension.refuse(engine, request, "" if _withdrawn(request) else request.player_id)
    tenant_id, newcomer = tenant_of(request), not request.player_id
    player_id = _new_guest(engine, request) if newcomer else player_id_of(request)
    solved: _Solved | None = None
    for _ in range(ATTEMPTS):
        about = _About(engine, tenant_id, request.id, player_id, newcomer, solved=solved)

        async def work(connection: asyncpg.Connection, about: _About = about) -> m.SubmitEntryReply:
            return await _submit(connection, about, request)

        try:
            return await engine.database.transaction(work)
        except _Merged as merged:
            # Without a token, the request must not act as the player that the guest became.
            player_id = ids.make("guest") if newcomer else merged.player_id
        except _Unsolved as needed:
            solved = _Solved(needed.captcha, await captcha.verify(engine, needed.captcha, request))
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the player is being merged; try again", retry_after_seconds=1)


def _new_guest(engine: Engine, request: m.SubmitEntryRequest) -> str:
    """The id of the guest that this request creates: with a long key, the same one for each retry. Otherwise a retry
    after a lost reply would make a second entry, whose contact the first one has taken.

    A short key is no secret: two strangers may choose the same. A retry solves another captcha, so that does not count.
    The id sorts at the beginning of the day (UTC), and a retry on the next day makes another guest.
    """
    if len(request.idempotency_key) < SECRET_KEY_MIN:
        return ids.make("guest")
    text = f"{request.idempotency_key}\0{request_hash(replace(request, captcha='', country='')).hex()}"
    day = ids.day_of(engine.clock.now())
    scope = f"entry guest/{tenant_of(request)}/{request.id}/{day}"
    return ids.guest_of(vault_of(engine.keyring.code).fingerprints(text, scope)[0], day)


async def enter(
    connection: asyncpg.Connection, engine: Engine, tenant_id: str, actor: str, request: m.SubmitEntryRequest
) -> m.SubmitEntryReply:
    """`submit_entry` for a player by staff, within a transaction. Conflicts with a merge: FAILED_PRECONDITION."""
    try:
        about = _About(engine, tenant_id, request.id, request.player_id, actor=actor)
        return await _submit(connection, about, request)
    except _Merged as merged:
        message = f"the guest was merged into player {merged.player_id}; enter that player"
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message) from None


class _Unsolved(Exception):
    """A new entry needs this captcha, which is verified outside the transaction."""

    def __init__(self, captcha: str) -> None:
        super().__init__(captcha)
        self.captcha = captcha


class _Solved(NamedTuple):
    captcha: str
    solution: Solved


class _About(NamedTuple):
    engine: Engine
    tenant_id: str
    campaign_id: str
    player_id: str
    newcomer: bool = False
    actor: str = ""
    """The staff member who enters the player; empty: the player."""
    solved: _Solved | None = None
    """The captcha that the player has solved."""

    @property
    def key(self) -> tuple[str, str, str]:
        """$1 to $3 of most statements."""
        return self.tenant_id, self.player_id, self.campaign_id


async def _submit(connection: asyncpg.Connection, about: _About, request: m.SubmitEntryRequest) -> m.SubmitEntryReply:
    await connection.execute(_MEET, about.tenant_id, about.player_id)
    player = await connection.fetchrow(SQL["lock_player"], about.tenant_id, about.player_id)
    if player is None:
        raise unknown("tenant", about.tenant_id)
    once = keyed(replace(request, country=""), player_id=about.player_id)  # A retry may come from another country.
    kept = None if once.key is None else await connection.fetchrow(SQL["replay"], *about.key, once.key)
    if player["merged_into"] is not None and kept is None:
        raise _Merged(player["merged_into"])
    guest_id = about.player_id if about.newcomer and player["merged_into"] is None else ""
    if kept is not None:
        if kept["request_hash"] != once.request_hash and not about.newcomer:  # A new guest's id is that of its request.
            raise mismatch()
        replayed.set(True)
        return m.SubmitEntryReply(**kept["reply"], guest_player_id=guest_id if kept["age"] < TOKEN_SECONDS else "")
    campaign = await connection.fetchrow(SQL["lock_campaign"], about.tenant_id, about.campaign_id, about.player_id)
    before = await connection.fetchrow(SQL["lock"], *about.key) if campaign is not None else None
    withdrawn = _withdrawn(request) if before is not None else []
    if player["status"] == "suspended" and not withdrawn:
        raise suspended("player")
    if campaign is None or (campaign["status"] == "draft" and not withdrawn):
        raise unknown("campaign", about.campaign_id)
    if about.newcomer and not campaign["admits_newcomers"]:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this campaign requires a player; set player_id")
    if before is not None and withdrawn:
        after = await withdraw_consents_of(connection, about.key, before, withdrawn, about.actor)
        entry_id, missing = before["entry_id"], rules.missing_of(campaign["entry_needs"] or (), after.given)
    else:
        if campaign["merchant_suspended"] and not about.actor:
            raise suspended("merchant")
        if player["is_guest"] and not campaign["admits_guests"] and not about.actor:
            raise login_required("campaign")
        entry_id, missing = await _enter(connection, about, campaign, before, request)
    if once.key is not None:
        reply = {"entry_id": entry_id, "missing": missing}
        await connection.execute(SQL["store_key"], *about.key, once.key, once.request_hash, reply)
    return m.SubmitEntryReply(entry_id=entry_id, missing=missing, guest_player_id=guest_id)


def _withdrawn(request: m.SubmitEntryRequest) -> list[str]:
    """The consents to withdraw, if the request does nothing else. A player may do this even if barred or suspended, and
    while the campaign is a draft again or has no form any more.
    """
    consents = request.consents or {}
    return [] if request.fields or any(value is not False for value in consents.values()) else [*consents]


async def _enter(
    connection: asyncpg.Connection,
    about: _About,
    campaign: asyncpg.Record,
    before: asyncpg.Record | None,
    request: m.SubmitEntryRequest,
) -> tuple[str, list[str]]:
    """Creates or updates the entry. Returns its id and what it lacks."""
    form = campaign["entry"]
    if form is None:
        raise invalid("fields", "the campaign has no entry form")
    if before is None:
        closing.refuse_closed(campaign)
    decided = decide(form, before, request, campaign["today"])
    source = source_of(request.source)
    if before is None and (needed := form.get("captcha")) and not about.actor:
        await _use_captcha(connection, about, needed, request)
    entry_id = before["entry_id"] if before is not None else ids.make("entry")
    missing = rules.missing_of(campaign["entry_needs"], decided.given)
    decided.late = closing.is_late(campaign, before, complete=not missing)
    await _write(connection, about, form, before, decided, entry_id, source, complete=not missing)
    return entry_id, missing


async def _use_captcha(connection: asyncpg.Connection, about: _About, name: str, request: m.SubmitEntryRequest) -> None:
    """Uses the solved captcha for this entry alone."""
    if about.solved is None or about.solved.captcha != name:
        raise _Unsolved(name)
    if await connection.fetchval(SQL["use_captcha"], about.tenant_id, *about.solved.solution) is None:
        raise captcha.required(about.engine, name, request)


def source_of(source: m.EntrySource | None) -> dict[str, str]:
    """The parts of a source that are not empty, as stored. INVALID_ARGUMENT if the referrer is not a host."""
    if source is None:
        return {}
    if source.referrer and not _HOST.fullmatch(source.referrer):
        raise invalid("source.referrer", "must be a host, such as news.example")
    parts = {name: getattr(source, name).strip() for name in fields_of(m.EntrySource)}
    return {name: text for name, text in parts.items() if text}


# -- deciding --------------------------------------------------------------------------------


class Receipt(NamedTuple):
    """A decision about a consent, and the text that it is about (None: stored already)."""

    consent_id: str
    given: bool
    text_sha256: str
    locale: str
    text: str | None


@dataclass(slots=True)
class Decided:
    """The entry as a submission leaves it."""

    fields: dict[str, Any]
    given: set[str]
    age: int
    age_on: date | None
    country: str
    locale: str
    late: bool = False
    """Whether it has no ticket in draws."""
    receipts: list[Receipt] = field(default_factory=list)


def decide(form: rules.Form, before: Any, request: m.SubmitEntryRequest, today: date) -> Decided:
    """Applies a submission to an entry (None: a new one). INVALID_ARGUMENT, NOT_ELIGIBLE by age or country, or
    CONSENT_CHANGED.
    """
    read = rules.read_values(form, request.fields or {}, today)
    problems = read.problems + _consent_problems(form, request.consents or {})
    if problems:
        raise violations(problems)
    values = {**(before["fields"] if before is not None else {}), **read.values}
    after = Decided(
        fields={key: value for key, value in values.items() if value is not None and value != {}},
        given={one for one in (before["given"] if before is not None else ()) if one.startswith("consent:")},
        age=before["age"] if before is not None else 0,
        age_on=before["age_on"] if before is not None else None,
        country=request.country or (before["country"] if before is not None else ""),
        locale=request.locale or (before["locale"] if before is not None else ""),
    )
    if read.birth_date is not None:
        if (age := rules.age_at(read.birth_date, today)) < form["min_age"]:
            raise rules.not_eligible("AGE", min_age=form["min_age"])
        # Only the required age is recorded: the exact one would reveal the year of birth.
        after.age, after.age_on = min(age, form["min_age"]), today
    countries = rules.countries_of(form, after.fields, after.country)
    if (barred := rules.barred_country(form["countries"], countries)) is not None:
        raise rules.not_eligible("COUNTRY", country=barred)
    _decide_consents(form, after, request)
    after.given |= set(rules.tokens_of_fields(form, after.fields)) | {f"country:{one}" for one in countries}
    if after.age:
        after.given.add(f"age:{after.age}")
    return after


def _consent_problems(form: rules.Form, provided: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = {consent["id"] for consent in form["consents"]}
    problems = []
    for consent_id, value in provided.items():
        if not isinstance(value, bool):
            problems.append((f"consents.{consent_id[:64]}", "must be true or false"))
        elif consent_id not in known and value:  # A consent that the form no longer asks can still be withdrawn.
            problems.append((f"consents.{consent_id[:64]}", "is not a consent of this form"))
    return problems


def _decide_consents(form: rules.Form, after: Decided, request: m.SubmitEntryRequest) -> None:
    texts = {consent["id"]: consent["text"] for consent in form["consents"]}
    seen, changed = request.consent_texts or {}, []
    for consent_id, value in (request.consents or {}).items():
        if not value:
            _withdraw(after, consent_id)
            continue
        shown = rules.in_language(texts[consent_id], request.locale or after.locale)
        hashed = rules.text_hash(shown.text)
        text = seen.get(consent_id, hashed)
        if shown.text != text and str(text).lower() != hashed:
            changed.append(consent_id)
        token = f"consent:{consent_id}:{hashed}"
        if token not in after.given:
            after.given -= set(_tokens_of(after, consent_id))
            after.given.add(token)
            after.receipts.append(Receipt(consent_id, True, hashed, shown.locale, shown.text))
    if changed:
        message = f"these texts have changed since the player saw them: {', '.join(changed)}"
        raise Fault(Status.FAILED_PRECONDITION, "CONSENT_CHANGED", message, consents=changed)


def _withdraw(after: Decided, consent_id: str) -> None:
    """Withdraws a consent; nothing changes if it was not given."""
    for token in _tokens_of(after, consent_id):
        after.given.discard(token)
        after.receipts.append(Receipt(consent_id, False, token.rpartition(":")[2], after.locale, None))


def _tokens_of(after: Decided, consent_id: str) -> list[str]:
    return sorted(token for token in after.given if token.startswith(f"consent:{consent_id}:"))


# -- writing ---------------------------------------------------------------------------------


async def _write(
    connection: asyncpg.Connection,
    about: _About,
    form: rules.Form,
    before: Any,
    decided: Decided,
    entry_id: str,
    source: Mapping[str, str],
    *,
    complete: bool,
) -> None:
    """Writes the entry with its receipts and contacts, and a new one's source. NOT_ELIGIBLE by MAX_ENTRIES, CONTACT,
    MAX_CONTACTS or THROWAWAY.

    An entry counts toward `max_entries` from its first complete submission on.
    """
    counted = before is not None and before["counted"]
    if complete and not counted:
        if most := form["max_entries"]:
            campaign = about.tenant_id, about.campaign_id
            await connection.execute(SQL["begin_count"], *campaign)
            if await connection.fetchval(SQL["count"], *campaign, most) is None:
                raise rules.not_eligible("MAX_ENTRIES", max_entries=most)
        counted = True
    if before is None:
        revision = await connection.fetchval(SQL["insert"], *about.key, entry_id, *_columns(decided), counted, source)
    else:
        revision = await connection.fetchval(SQL["update"], *about.key, *_columns(decided), counted)
    await _write_receipts(connection, about.tenant_id, entry_id, revision, decided, about.actor)
    if form["one_per_contact"]:
        await _take_contacts(connection, about, form, decided, entry_id, first=before is None)


async def withdraw_consents_of(
    connection: asyncpg.Connection, key: tuple[str, str, str], before: Any, consent_ids: Sequence[str], actor: str
) -> Decided:
    """Withdraws consents of a locked entry and leaves the rest unchanged. key: tenant, player, campaign."""
    names = ("fields", "age", "age_on", "country", "locale", "late")
    after = Decided(given=set(before["given"]), **{name: before[name] for name in names})
    for consent_id in dict.fromkeys(consent_ids):
        _withdraw(after, consent_id)
    if after.receipts:
        revision = await connection.fetchval(SQL["update"], *key, *_columns(after), before["counted"])
        await _write_receipts(connection, key[0], before["entry_id"], revision, after, actor)
    return after


def _columns(decided: Decided) -> tuple[Any, ...]:
    """The parameters of `insert` and `update` that a submission decides."""
    given, proven = sorted(decided.given), (decided.age, decided.age_on)
    return decided.fields, given, *proven, decided.country, decided.locale, decided.late


async def _write_receipts(
    connection: asyncpg.Connection, tenant_id: str, entry_id: str, revision: int, decided: Decided, actor: str
) -> None:
    """Records the decisions about consents, and the texts that they are about. actor: the staff member, if any."""
    for one in decided.receipts:
        if one.text is not None:
            await connection.execute(SQL["store_text"], tenant_id, one.text_sha256, one.text)
        row = (entry_id, one.consent_id, revision, one.given, one.text_sha256, one.locale, actor)
        await connection.execute(SQL["receipt"], tenant_id, *row)


async def _take_contacts(
    connection: asyncpg.Connection, about: _About, form: rules.Form, decided: Decided, entry_id: str, *, first: bool
) -> None:
    """Takes the entry's contacts, and those that the player logs in with, for this entry alone.

    Earlier ones stay taken; after CONTACTS_MAX of them, the contacts cannot change any more.
    """
    own = contacts.contacts_in(form, decided.fields)
    for kind, value in own:
        if kind == "email" and contacts.is_throwaway(value):
            key = next(key for key, given in decided.fields.items() if given == value)
            raise invalid(f"fields.{key}", "must not be a throwaway address")
    rows = await connection.fetch(SQL["contacts_of_player"], about.tenant_id, about.player_id)
    logins = [(row["type"], row["value"]) for row in rows]
    # First entries only: entrants from before the check would be locked out.
    if first and any(kind == "email" and contacts.is_throwaway(value) for kind, value in logins):
        raise rules.not_eligible("THROWAWAY")
    own += logins
    stored, known = contacts.hashes_of(about.engine, about.tenant_id, own)
    await connection.execute(SQL["lock_contacts"], about.tenant_id, about.campaign_id, known)
    new = await connection.fetch(SQL["take_contacts"], about.tenant_id, about.campaign_id, stored, entry_id)
    taken = (about.tenant_id, about.campaign_id, known, entry_id)
    if await connection.fetchval(SQL["contact_of_others"], *taken):
        raise rules.not_eligible("CONTACT")
    if new and await connection.fetchval(SQL["earlier_contacts"], *taken) > CONTACTS_MAX:
        raise rules.not_eligible("MAX_CONTACTS", max_contacts=CONTACTS_MAX)
