"""What is left of who was erased: nothing that they said, and all that they played, won and paid."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.model.caps import owner_of
from tests.model.crowd import Attempt
from tests.model.tenant import Tenant
from tests.support.invariants import Reads

SAYS = ("Play", "Redeem", "CompleteQuest", "ClaimReward", "UpdatePlayer")
"""What a player says something with that is kept: a name, a seed, a key."""
WORDS = re.compile(r"(?:name|luck|key)_\d+(?:_rival)?")


async def left_behind(tenant: Tenant, database: Reads) -> list[str]:
    """Words of players that were answered before their erasure began, and are in some row after it; and who is known
    by a contact still."""
    gone, found = _gone(tenant), [*_known(tenant)]
    tables = await database.fetch(
        "SELECT table_name::text AS name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_name = 'tenant_id' ORDER BY 1"
    )
    for table in (row["name"] for row in tables):
        rows = await database.fetch(f'SELECT * FROM "{table}" WHERE tenant_id = $1', tenant.tenant_id)
        for row in rows:
            found += [f"{word} of {gone[word]} is in {table}" for word in gone.keys() & WORDS.findall(str(row))]
    return found


def _known(tenant: Tenant) -> Iterator[str]:
    """Whoever logs in by a contact of the erased is another: nobody links any here."""
    for erasure in tenant.history.of("ErasePlayer"):
        for attempt in tenant.history.of("ResolvePlayer"):
            if attempt.began > erasure.ended and attempt.reply.player.id == erasure.fields["id"]:
                yield f"erased, and known: {attempt}"


def _gone(tenant: Tenant) -> dict[str, str]:
    """Each word, and whose it was; but for those that somebody has said since."""
    gone: dict[str, str] = {}
    for erasure in tenant.history.of("ErasePlayer"):
        whose = {*_became(tenant, erasure)}
        if not _is_another(tenant, erasure):
            whose.add(erasure.fields["id"])
        said = tenant.history.asked(*SAYS)
        since = {word for attempt in said if not 0 < attempt.ended < erasure.began for word in _words(attempt)}
        before = [attempt for attempt in said if attempt.ok and _player(attempt) in whose]
        gone |= {word: _player(attempt) for attempt in before for word in _words(attempt) if word not in since}
    return gone


def _became(tenant: Tenant, erasure: Attempt) -> Iterator[str]:
    """The guests that were the player for certain when its erasure began."""
    for attempt in tenant.history.of("MergePlayer"):
        if attempt.reply.merged and attempt.fields["id"] == erasure.fields["id"] and attempt.ended < erasure.began:
            yield attempt.fields["guest_id"]
    for attempt in tenant.history.of("ResolvePlayer"):
        if (
            attempt.reply.guest_merged
            and attempt.reply.player.id == erasure.fields["id"]
            and attempt.ended < erasure.began
        ):
            yield attempt.fields["guest_player_id"]


def _is_another(tenant: Tenant, erasure: Attempt) -> bool:
    """Whether the erased may have been a guest that was a player already, whose the words were then."""
    return any(
        erasure.fields["id"] == attempt.fields.get("guest_id", attempt.fields.get("guest_player_id"))
        and attempt.began < erasure.ended
        for attempt in tenant.history.asked("MergePlayer", "ResolvePlayer")
    )


def _player(attempt: Attempt) -> str:
    return attempt.fields["player_id"] or owner_of(attempt.fields["session_id"])


def _words(attempt: Attempt) -> set[str]:
    return {*WORDS.findall(str(attempt.fields))}


def may_be_erased(tenant: Tenant, attempt: Attempt) -> bool:
    """Whether whoever asked was erased since."""
    return any(
        erasure.fields["id"] == _player(attempt) and not 0 < erasure.ended < attempt.began
        for erasure in tenant.history.asked("ErasePlayer")
    )
