"""A builder of OpenAPI documents: paths, the components that they refer to, and the parts common to all surfaces."""

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
    "core": "Every operation, 1:1 with its RPC. Core does not authenticate callers, except by SERVICE_TOKEN: keep it "
    "on a private network.",
    "consumer": "The API for widgets and players. A request without a token names its tenant in X-Tenant-Id or "
    "?tenant_id=.",
    "admin": "The API for staff, dashboards and machines. Every route acts on the token's tenant.",
}
_EVERYWHERE: Final = """

Every response, errors included, is an envelope `{code, message, trace_id, data}`. `code` is a gRPC status name.
An error's `data.reason` identifies the cause. In addition to the errors listed for each operation, any request may
get `UNKNOWN_ROUTE` (404), `METHOD_NOT_ALLOWED` (405), `EXPECTATION_FAILED` (417) or `MALFORMED_REQUEST` (400).
Times are Unix seconds; 0 means unset. Enums are value names; lower-case short names are accepted too. In a body,
`null` is the same as an omitted field. Texts shown to people must not contain control, bidirectional-override or
invisible characters, nor line breaks unless the field allows several lines. A W3C `traceparent` header sets the
`trace_id`.
"""

_ENVELOPE: Final[Schema] = {
    "code": {"type": "string", "const": "OK"},
    "message": {"type": "string"},
    "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
}
_DESCRIPTIONS: Final[Mapping[str, str]] = comments.NAMES | {
    "code": "A gRPC status name; OK on success.",
    "message": "A sentence for people; empty on success.",
    "trace_id": "The W3C trace id of the request, also written to the log.",
    "data": "The result, or the facts of the error.",
    "reason": "The stable, machine-readable cause of the error.",
    "violations": "The invalid fields.",
    "field": "The path of the field in the request.",
    "expires_at": "When it expires. Unix seconds.",
    "resend_at": "When another code may be sent. Unix seconds.",
    "token": "The token, to be sent as Authorization: Bearer.",
    "refresh_token": "Exchanged once for new tokens, at /players/auth/refresh.",
    "guest_merged": "Whether the guest was merged into the player.",
    "contact_type": "Phone or e-mail.",
    "contact": "The phone number or the e-mail address.",
    "type": "Phone or e-mail.",
    "value": "The phone number or the e-mail address.",
    "everywhere": "Whether to end all logins, not only this one.",
    "tenant_name": "The tenant's name.",
    "operations": "The operations that the roles permit.",
    "consumer_url": "The consumer edge's URL.",
    "default_tenant": "The tenant of requests that name none.",
    "oidc": "Whether staff may sign in at an OIDC issuer.",
    "url": "The URL to send the browser to.",
    "state": "The issuer returns it with the code: compare the two.",
    "nonce": "Stored by the browser and sent with the code.",
    "verifier": "Stored by the browser and sent with the code.",
    "link": "The token of the link.",
    "redirect_uri": "The URL that the issuer redirects the browser to.",
    "status": "alive or ready.",
    "checks": "The stores that respond.",
}
"""Descriptions of fields, by name, in the schemas written by hand."""

_TRACE_ID: Final = examples.text("trace_id")

_SECURITY: Final[Mapping[Surface, dict[str, Any]]] = {
    "consumer": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
    "admin": {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "signature": {
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "A Standard Webhooks signature with the secret in the prize's fulfillment config",
        },
    },
    "core": {"bearer": {"type": "http", "scheme": "bearer", "description": "SERVICE_TOKEN, if the setting is set"}},
}


_FALLBACK: Final[dict[str, Any]] = {
    "player": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Player-Id",
        "description": "Any player id, in development (HEADER_FALLBACK): the player is created on first use",
    }
}


class Document:
    """Builds a surface's document: `add` operations, then call `build`."""

    def __init__(self, surface: Surface, *, header_fallback: bool = False) -> None:
        self.surface: Surface = surface
        self._fallback = header_fallback and surface == "consumer"
        self.schemas = Schemas("quoted" if surface == "core" else "number")
        self._paths: dict[str, dict[str, Any]] = {}
        self._reasons: set[str] = set()
        self._tags: dict[str, None] = {}

    def tokens(self) -> list[dict[str, list[str]]]:
        """The security schemes of an authenticated route. Any one of them is enough."""
        names = ["bearer", *(_FALLBACK if self._fallback else ())]
        return [{name: []} for name in names]

    def build(self, links: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """The whole document as plain JSON values. links: the links of each operation's response."""
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
        """Adds a tag to the document's list and returns its name."""
        self._tags[name] = None
        return name

    def response(self, data: Schema, example: Any, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A response with `data` in the envelope. Each envelope is a component named after its data."""
        name = f"{data['$ref'].rpartition('/')[2]}Envelope"
        self.schemas.components[name] = object_of({**_ENVELOPE, "data": data}, [*_ENVELOPE, "data"])
        shown = {"code": "OK", "message": "", "trace_id": _TRACE_ID, "data": example}
        response = {
            "description": "OK",
            "content": {"application/json": {"schema": ref(name), "example": shown}},
        }
        return {**response, "headers": dict(headers)} if headers else response

    def refusals(self, reasons: Iterable[str]) -> dict[str, Any]:
        """The error responses for these reasons, by HTTP status."""
        return {str(http): self._refusal(http, found) for http, found in refusals.by_http(reasons).items()}

    def _refusal(self, http: int, reasons: list[str]) -> dict[str, Any]:
        self._reasons.update(reasons)
        lines = [
            f"- `{refusals.REFUSALS[reason].status.name}` `{reason}`: {refusals.REFUSALS[reason].cause}"
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
"""The errors that any request may get, as the introduction lists them."""


def _refusing(http: int, reasons: list[str]) -> Schema:
    """The schema of an Error with one of these reasons."""
    named = sorted({*reasons, *([_ANYWHERE[http]] if http in _ANYWHERE else [])})
    reason: Schema = {"enum": named}
    facts = object_of({"reason": reason}, ["reason"])
    return {"allOf": [ref("Error"), object_of({"data": facts}, ["data"])]}


def _refused(reason: str) -> dict[str, Any]:
    """An example of an error's envelope."""
    refusal = refusals.REFUSALS[reason]
    data = {"reason": reason, **refusal.facts}
    return {"code": refusal.status.name, "message": refusal.cause, "trace_id": _TRACE_ID, "data": data}


def object_of(properties: Mapping[str, Schema], required: list[str], *, closed: bool = False) -> Schema:
    """The schema of an object. Adds each field's description by name. closed: allows no other fields, as in a body."""
    described = {
        name: {"description": _DESCRIPTIONS[name], **schema} if name in _DESCRIPTIONS else schema
        for name, schema in properties.items()
    }
    schema = {"type": "object", "properties": described, "required": required}
    return schema | {"additionalProperties": False} if closed else schema


def path_parameter(name: str) -> dict[str, Any]:
    """A path parameter."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def query_parameter(name: str, schema: Schema, *, required: bool = False, description: str = "") -> dict[str, Any]:
    """A query parameter."""
    described = {"description": description} if description else {}
    return {"name": name, "in": "query", "required": required, **described, "schema": schema}


def tenant_parameters() -> list[dict[str, Any]]:
    """The header and the query parameter that name the tenant of a request without a token."""
    description = "The tenant, if the request has no token"
    schema = {"type": "string", "minLength": 1, "maxLength": IDENTIFIER_CHARACTERS_MAX}
    return [
        header_parameter("X-Tenant-Id", description, 1, IDENTIFIER_CHARACTERS_MAX),
        query_parameter("tenant_id", schema, description=description),
    ]


def header_parameter(name: str, description: str, least: int, most: int) -> dict[str, Any]:
    """An optional header of `least` to `most` characters."""
    schema = {"type": "string", "minLength": least, "maxLength": most}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def summary_of(name: str) -> str:
    """CreateGame -> Create game"""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join([words[0], *(word.lower() for word in words[1:])])
