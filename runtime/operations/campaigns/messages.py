"""A campaign's e-mails to players: defaults, checks, their stored form, and the integration that sends them.

A message is a delivery of an integration of type email, which a campaign gets with its first message
(runtime/actors/mailing.py). Without one, a campaign causes no row and no query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.operations.checks import Checks
from runtime.operations.entries.form import LANGUAGE, check_texts
from runtime.rules import mail
from runtime.wire.enums import enum, token
from runtime.wire.schema import Field, Kind

_SQL: Final = sql.load("messages")

HOURS_MAX: Final = 24 * 90
_SUBJECT: Final = Field("", Kind.TEXT, None, False, most=mail.SUBJECT_MAX)
_BODY: Final = Field("", Kind.TEXT, None, False, most=mail.BODY_MAX, lines=True)

EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "won": ("prize_won",),
    "code_delivered": ("prize_won", "message.code_delivered"),
    "reminder": ("message.reminder",),
    "draw_result": ("message.draw_result",),
}
"""The events that a kind of message follows. A code that comes with a win is delivered by the win's event; the events
named after messages are made by the backfill alone (runtime/streams/backfill.py)."""


def fill_defaults(messages: m.CampaignMessages) -> None:
    for one in messages.templates:
        if one.kind is m.MessageKind.REMINDER:
            one.hours = one.hours or mail.REMINDER_HOURS


def check(checks: Checks, messages: m.CampaignMessages) -> None:
    """Adds the problems of messages with defaults filled in."""
    if messages.language and not LANGUAGE.fullmatch(messages.language):
        checks.problem("messages.language", "must be a language, such as en or pt-BR")
    seen: set[m.MessageKind] = set()
    for index, one in enumerate(messages.templates):
        path = f"messages.templates[{index}]"
        if one.kind in seen:
            checks.problem(f"{path}.kind", "must be unique")
        seen.add(one.kind)
        check_template(checks, path, one)


def check_template(checks: Checks, path: str, one: m.MessageTemplate) -> None:
    """The same of one template."""
    if not one.kind:
        checks.problem(f"{path}.kind", "is required")
    if one.kind is m.MessageKind.REMINDER:
        checks.between(f"{path}.hours", one.hours, 1, HOURS_MAX)
    elif one.hours:
        checks.problem(f"{path}.hours", "must be 0 unless kind is MESSAGE_KIND_REMINDER")
    for name, texts, rule in (("subject", one.subject, _SUBJECT), ("body", one.body, _BODY)):
        if texts:
            check_texts(checks, f"{path}.{name}", texts, rule)
            _check_placeholders(checks, f"{path}.{name}", token(one.kind), texts)


def _check_placeholders(checks: Checks, path: str, kind: str, texts: Mapping[str, Any]) -> None:
    for language, text in texts.items():
        unknown = mail.unknown_placeholders(kind, text) if kind and isinstance(text, str) else []
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in mail.PLACEHOLDERS[kind])
            checks.problem(f"{path}.{language[:35]}", f"{{{unknown[0][:35]}}} is not a placeholder; use {known}")


def stored(messages: m.CampaignMessages | None) -> dict[str, Any] | None:
    """The stored form; None: no messages."""
    if not messages:
        return None
    return {
        "language": messages.language,
        "templates": [stored_template(one) for one in messages.templates],
    }


def stored_template(one: m.MessageTemplate) -> dict[str, Any]:
    return {
        "kind": token(one.kind),
        "subject": one.subject or {},
        "body": one.body or {},
        "hours": one.hours,
        "paused": one.paused,
    }


def from_stored(messages: Mapping[str, Any] | None) -> m.CampaignMessages | None:
    if messages is None:
        return None
    return m.CampaignMessages(
        language=messages["language"],
        templates=[
            m.MessageTemplate(
                kind=enum(m.MessageKind, one["kind"]),
                subject=one["subject"] or None,
                body=one["body"] or None,
                hours=one["hours"],
                paused=one["paused"],
            )
            for one in messages["templates"]
        ],
    )


async def listen(connection: asyncpg.Connection, tenant_id: str, campaign_id: str, messages: Any) -> None:
    """Makes the campaign's integration of type email receive the events of its messages. messages: stored."""
    kinds = [one["kind"] for one in (messages or {}).get("templates", ()) if not one["paused"]]
    events = list(dict.fromkeys(event for kind in kinds for event in EVENTS[kind]))
    await connection.execute(_SQL["listen"], tenant_id, campaign_id, events)
