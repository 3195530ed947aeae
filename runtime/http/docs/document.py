"""An OpenAPI document in the making: its paths, the components that they refer to, and the parts that all have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from runtime import __version__
from runtime.errors import Status
from runtime.http.auth.identity import IDENTIFIER_CHARACTERS_MAX
from runtime.http.docs import examples, refusals
from runtime.http.docs.schemas import Schema, Schemas, ref
from runtime.messages import comments

Surface = Literal["core", "consumer", "admin"]

_ABOUT: Final[Mapping[Surface, str]] = {
    "core": "Every operation, 1:1 with its RPC. Core authenticates nobody (SERVICE_TOKEN aside): keep it private.",
    "consumer": "What widgets and players ask. Where no token says the tenant, X-Tenant-Id or ?tenant_id= does.",
    "admin": "What staff, their dashboards and machines ask. Every route is of the token's own tenant.",
}
_EVERYWHERE: Final = """

Every answer, errors included, is an envelope `{code, message, trace_id, data}`. `code` is a gRPC status name;
an error's `data.reason` says which refusal it is. Beside each operation's own, any request may meet
`UNKNOWN_ROUTE` (404), `METHOD_NOT_ALLOWED` (405), `EXPECTATION_FAILED` (417) and `MALFORMED_REQUEST` (400).
Times are unix seconds, 0 = unset. Enums are sent as value names; their lower-case tokens are taken too. In a
body, `null` is the same as leaving the field out. Texts that people are shown hold no characters that are controls,
turn the direction of what stands around them, or are nothing to see; and no line breaks, unless it is said.
`traceparent` (W3C) is honoured and names the `trace_id`.
"""

_ENVELOPE: Final[Schema] = {
    "code": {"type": "string", "const": "OK"},
    "message": {"type": "string"},
    "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
}
_MEANS: Final[Mapping[str, str]] = comments.NAMES | {
    "code": "A gRPC status name; OK where it was done.",
    "message": "A sentence for people; empty where it was done.",
    "trace_id": "The W3C trace id of the request, which the log has too.",
    "data": "What was asked for, or the facts of the refusal.",
    "reason": "Why it was refused, in a word that programs can rely on.",
    "violations": "Each field that is wrong.",
    "field": "The path of the field in the request.",
    "expires_at": "When it ends. Unix seconds.",
    "resend_at": "When another code may be sent. Unix seconds.",
    "token": "The token, to be sent as Authorization: Bearer.",
    "refresh_token": "Gets new tokens once, at /players/auth/refresh.",
    "guest_merged": "Whether what the guest won is the player's now.",
    "contact_type": "Phone or e-mail.",
    "contact": "The phone number or the e-mail address.",
    "type": "Phone or e-mail.",
    "value": "The phone number or the e-mail address.",
    "everywhere": "Whether all logins end, and not only this one.",
    "tenant_name": "The tenant's name.",
    "operations": "The operations that the roles open.",
    "consumer_url": "Where players are.",
    "default_tenant": "The tenant of who names none.",
    "oidc": "Whether staff may sign in at an issuer.",
    "url": "Where to send the browser.",
    "state": "What the issuer sends back with the code: compare it.",
    "nonce": "Kept by the browser, and sent with the code.",
    "verifier": "Kept by the browser, and sent with the code.",
    "link": "The token of the link.",
    "redirect_uri": "Where the issuer sends the browser back to.",
    "status": "alive or ready.",
    "checks": "The stores that answer.",
}
"""What a name means in what is described here by hand."""

_TRACE_ID: Final = examples.text("trace_id")

_SECURITY: Final[Mapping[Surface, dict[str, Any]]] = {
    "consumer": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
    "admin": {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "signature": {
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "Standard Webhooks, by the secret of the prize's fulfillment config",
        },
    },
    "core": {"bearer": {"type": "http", "scheme": "bearer", "description": "The setting SERVICE_TOKEN, where set"}},
}


_FALLBACK: Final[dict[str, Any]] = {
    "player": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Player-Id",
        "description": "Whoever you say: in development (HEADER_FALLBACK) a player is made on first use",
    }
}


class Document:
    """A surface's document. Add rows, then take it `finished`."""

    def __init__(self, surface: Surface, *, header_fallback: bool = False) -> None:
        self.surface: Surface = surface
        self._fallback = header_fallback and surface == "consumer"
        self.schemas = Schemas("quoted" if surface == "core" else "number")
        self._paths: dict[str, dict[str, Any]] = {}
        self._reasons: set[str] = set()
        self._tags: dict[str, None] = {}

    def tokens(self) -> list[dict[str, list[str]]]:
        """What a route that wants to know who asks takes for it: each of these alone."""
        names = ["bearer", *(_FALLBACK if self._fallback else ())]
        return [{name: []} for name in names]

    def finished(self, links: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """All of it, as plain JSON values. links: what can be asked next, by operation."""
        for path, verbs in self._paths.items():
            for verb, row in verbs.items():
                found = links.get(row["operationId"])
                if found:
                    self._paths[path][verb]["responses"]["200"]["links"] = found
        components: dict[str, Any] = {
            "schemas": dict(sorted((self.schemas.components | {"Error": _error()}).items())),
            "examples": {reason: {"value": _refused(reason)} for reason in sorted(self._reasons)},
        }
        components["securitySchemes"] = _SECURITY[self.surface] | (_FALLBACK if self._fallback else {})
        return {
            "openapi": "3.1.0",
            "info": {
                "title": f"Tombola {self.surface}",
                "version": __version__,
                "description": _ABOUT[self.surface] + _EVERYWHERE,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": name} for name in self._tags],
            "paths": self._paths,
            "components": components,
        }

    def add(self, path: Path, verb: str, row: dict[str, Any]) -> None:
        """Adds an operation."""
        self._paths.setdefault(path.text, {})[verb.lower()] = row

    def tag(self, name: str) -> str:
        """The tag of this name, which the document lists from now on."""
        self._tags[name] = None
        return name

    def answered(self, data: Schema, example: Any, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An answer with `data` in the envelope. Envelopes are components too, named after what they hold."""
        name = f"{data['$ref'].rpartition('/')[2]}Envelope"
        self.schemas.components[name] = object_of({**_ENVELOPE, "data": data}, [*_ENVELOPE, "data"])
        shown = {"code": "OK", "message": "", "trace_id": _TRACE_ID, "data": example}
        answered = {
            "description": "OK",
            "content": {"application/json": {"schema": ref(name), "example": shown}},
        }
        return {**answered, "headers": dict(headers)} if headers else answered

    def refusals(self, reasons: Iterable[str]) -> dict[str, Any]:
        """The answers that refuse for these reasons, by HTTP status."""
        return {str(http): self._refusal(http, found) for http, found in refusals.by_http(reasons).items()}

    def _refusal(self, http: int, reasons: list[str]) -> dict[str, Any]:
        self._reasons.update(reasons)
        lines = [
            f"- `{refusals.REFUSALS[reason].status.name}` `{reason}`: {refusals.REFUSALS[reason].means}"
            for reason in reasons
        ]
        made: dict[str, Any] = {
            "description": "\n".join(lines),
            "content": {
                "application/json": {
                    "schema": _refusing(http, reasons),
                    "examples": {reason: {"$ref": f"#/components/examples/{reason}"} for reason in reasons},
                }
            },
        }
        if http in (429, 503):
            made["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer", "minimum": 1}}}
        return made


class Path(NamedTuple):
    """A path and its verb."""

    text: str
    verb: str


# -- pieces ----------------------------------------------------------------------------------


def _error() -> Schema:
    violation = object_of({"field": {"type": "string"}, "description": {"type": "string"}}, ["field", "description"])
    facts: dict[str, Schema] = {
        "reason": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
        "violations": {"type": "array", "items": violation},
    }
    data = object_of(facts, ["reason"])
    names = [status.name for status in Status if status is not Status.OK]
    return object_of({**_ENVELOPE, "code": {"type": "string", "enum": names}, "data": data}, [*_ENVELOPE, "data"])


_ANYWHERE: Final[Mapping[int, str]] = {
    400: "MALFORMED_REQUEST",
    404: "UNKNOWN_ROUTE",
    405: "METHOD_NOT_ALLOWED",
    417: "EXPECTATION_FAILED",
}
"""What any request may meet, as the introduction says."""


def _refusing(http: int, reasons: list[str]) -> Schema:
    """An Error for one of these reasons."""
    named = sorted({*reasons, *([_ANYWHERE[http]] if http in _ANYWHERE else [])})
    reason: Schema = {"enum": named}
    facts = object_of({"reason": reason}, ["reason"])
    return {"allOf": [ref("Error"), object_of({"data": facts}, ["data"])]}


def _refused(reason: str) -> dict[str, Any]:
    """An example of a refusal's envelope."""
    refusal = refusals.REFUSALS[reason]
    data = {"reason": reason, **refusal.facts}
    return {"code": refusal.status.name, "message": refusal.means, "trace_id": _TRACE_ID, "data": data}


def object_of(properties: Mapping[str, Schema], required: list[str], *, closed: bool = False) -> Schema:
    """The schema of an object with these fields, each with what its name means. closed: a body's, with no other."""
    described = {
        name: {"description": _MEANS[name], **schema} if name in _MEANS else schema
        for name, schema in properties.items()
    }
    schema = {"type": "object", "properties": described, "required": required}
    return schema | {"additionalProperties": False} if closed else schema


def path_parameter(name: str) -> dict[str, Any]:
    """A part of the path."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def query_parameter(name: str, schema: Schema, *, required: bool = False, means: str = "") -> dict[str, Any]:
    """A query parameter."""
    said = {"description": means} if means else {}
    return {"name": name, "in": "query", "required": required, **said, "schema": schema}


def tenant_parameters() -> list[dict[str, Any]]:
    """How the consumer edge is told the tenant, where no token says it: by a header, or in the address."""
    means = "Whose data, where no token says it"
    schema = {"type": "string", "minLength": 1, "maxLength": IDENTIFIER_CHARACTERS_MAX}
    return [
        header_parameter("X-Tenant-Id", means, 1, IDENTIFIER_CHARACTERS_MAX),
        query_parameter("tenant_id", schema, means=means),
    ]


def header_parameter(name: str, description: str, least: int, most: int) -> dict[str, Any]:
    """A header of `least` to `most` characters, which may be left out."""
    schema = {"type": "string", "minLength": least, "maxLength": most}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def summary_of(name: str) -> str:
    """CreateGame -> Create game"""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join([words[0], *(word.lower() for word in words[1:])])
