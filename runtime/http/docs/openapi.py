"""OpenAPI 3.1 documents of the three surfaces, built from the operation table and the types that serve them.

Paths come from the rows of `runtime.operations`, bodies and responses from the messages
(`runtime.http.docs.schemas`), errors from `runtime.http.docs.refusals`, and routes outside the table from
`runtime.http.docs.extra_routes`. `document` builds one surface's; `runtime.http.docs.pages` serves it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from runtime.actors.idempotency import KEY_CHARACTERS_MAX
from runtime.http import admin, consumer, uploads
from runtime.http.callback import HEADER_CHARACTERS_MAX
from runtime.http.codes import READERS
from runtime.http.docs import examples, extra_routes, refusals
from runtime.http.docs.document import (
    Document,
    Path,
    Surface,
    header_parameter,
    path_parameter,
    query_parameter,
    summary_of,
    tenant_parameters,
)
from runtime.http.docs.schemas import Schema
from runtime.http.edge import INTERNAL
from runtime.http.views import ALIASES, shape_of
from runtime.operations import API, OPERATIONS, Operation
from runtime.operations.fulfillment import COMPLETE_TASK
from runtime.operations.row import Access, RoutePolicy, SessionUse
from runtime.wire.schema import fields_of
from runtime.wire.shape import AS_IT_IS

_RATES: Final = {
    "RateLimit": {"description": "The remaining quota of each policy (IETF RateLimit)", "schema": {"type": "string"}},
    "RateLimit-Policy": {"description": "The rate limit policies", "schema": {"type": "string"}},
}
_REPLAYED: Final = {
    "Idempotency-Replayed": {"description": "`true`: this is the stored first response", "schema": {"type": "string"}}
}
_ETAG: Final = {"ETag": {"description": "The game's revision, for If-Match", "schema": {"type": "string"}}}


def document(surface: Surface, *, role_matrix: str = "any", header_fallback: bool = False) -> dict[str, Any]:
    """Builds a surface's whole document as plain JSON values.

    role_matrix: the setting. header_fallback: the setting; the docs page then has a field for the player id.
    """
    made = Document(surface, header_fallback=header_fallback)
    served = _served(surface)
    rows = _Rows(made, role_matrix)
    for path, operation in served.items():
        lost = ["METHOD_NOT_ALLOWED"] if _loses_its_verb_without_id(path, served) else []
        made.add(path, operation.verb, rows.row(operation, lost))
    if surface == "consumer":
        extra_routes.add_login(made)
        extra_routes.add_draw_file(made)
    if surface == "admin":
        extra_routes.add_me(made)
        extra_routes.add_exports(made)
        extra_routes.add_live(made)
        extra_routes.add_log_out(made)
        extra_routes.add_sign_in(made)
    if surface != "core":
        extra_routes.add_log(made)
    extra_routes.add_health(made)
    return made.build(_links(served, wrapped=surface == "core"))


def _served(surface: Surface) -> dict[Path, Operation]:
    """The operations that the surface serves, by path and verb."""
    if surface == "core":
        return {Path(API + row.path, row.verb): row for row in OPERATIONS}
    if surface == "consumer":
        return {Path(API + row.path, row.verb): row for row, _ in consumer.served()}
    served = {Path(admin.PREFIX + row.path, row.verb): row for row, _ in admin.served()}
    signed = [row for row in OPERATIONS if _is_signed(row)]
    return {**served, **{Path(API + row.path, row.verb): row for row in signed}}


class _Rows:
    """Describes operations of the table for one surface."""

    def __init__(self, document: Document, role_matrix: str) -> None:
        self._document = document
        self._role_matrix = role_matrix
        self._surface = document.surface
        self._core = document.surface == "core"

    def row(self, operation: Operation, of_path: Iterable[str]) -> dict[str, Any]:
        """Describes one operation. of_path: extra refusal reasons that come from its path."""
        text = operation.about or inspect.getdoc(operation.run) or ""
        row: dict[str, Any] = {
            "operationId": operation.name,
            "tags": [self._document.tag(operation.service.removesuffix("Service"))],
            "summary": summary_of(operation.name),
            "description": text + self._who(operation),
            "parameters": self._parameters(operation),
        }
        if operation.has_body:
            row["requestBody"] = self._request_body(operation)
        row["security"] = self._security(operation)
        row["responses"] = self._responses(operation, of_path)
        return row

    def _who(self, operation: Operation) -> str:
        if self._surface != "admin" or operation.admin is None or operation.admin.signed:
            return ""
        return f"\n\nRoles: {', '.join(sorted(operation.admin.roles(self._role_matrix)))}."

    def _security(self, operation: Operation) -> list[dict[str, list[str]]]:
        if self._core:
            return [{}, {"bearer": []}]
        if self._surface == "admin" and _is_signed(operation):
            return [{"signature": []}]
        by_player = operation.consumer if self._surface == "consumer" else None
        either = by_player is not None and by_player.access is Access.EITHER
        return [*([{}] if either else []), *self._document.tokens()]

    # -- requests ----------------------------------------------------------------------------

    def _closed(self, operation: Operation) -> frozenset[str]:
        """Fields of the message that a client may not send in a body or query."""
        if self._core:
            return frozenset({"id", "idempotency_key"}) & fields_of(operation.request).keys()
        return consumer.CLOSED if self._surface == "consumer" else INTERNAL

    def _parameters(self, operation: Operation) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [path_parameter(name) for name in re.findall(r"{(\w+)}", operation.path)]
        if not operation.has_body:
            found += self._query(operation)
        if operation.streamed:
            # A body of lines cannot have this field, so it is a query parameter, too.
            found.append(
                self._document.schemas.parameter(operation.request, fields_of(operation.request)["expires_at"])
            )
        if operation.upload:
            found.append(
                query_parameter(
                    "name",
                    {"type": "string", "maxLength": uploads.NAME_CHARACTERS_MAX},
                    description="The file's name, if the body is the file or a form without it.",
                )
            )
        if operation.keyed:
            found.append(
                header_parameter(
                    "Idempotency-Key",
                    "A retry with the same key and body gets the stored response",
                    1,
                    KEY_CHARACTERS_MAX,
                )
            )
        if self._surface == "consumer":
            found += tenant_parameters()
        if self._surface == "admin" and operation.verb == "PUT" and admin.revised(operation.request):
            found.append(header_parameter("If-Match", "The ETag of the read revision", 1, admin.ETAG_CHARACTERS_MAX))
        if self._surface == "admin" and _is_signed(operation):
            tenant: Schema = {"type": "string", "minLength": 1}
            found.append(
                query_parameter("tenant_id", tenant, required=True, description="The tenant, from the callback URL.")
            )
            if operation is COMPLETE_TASK:
                token = {"type": "string", "minLength": 1, "maxLength": HEADER_CHARACTERS_MAX}
                description = "Binds the signature to the task. Part of the callback URL that the workflow received."
                found.append(query_parameter("token", token, required=True, description=description))
            found += [
                header_parameter(name, "Standard Webhooks", 1, HEADER_CHARACTERS_MAX)
                for name in ("webhook-id", "webhook-timestamp")
            ]
        return found

    def _query(self, operation: Operation) -> list[dict[str, Any]]:
        closed = self._closed(operation) | {"scope"}
        found: list[dict[str, Any]] = []
        if self._core:
            tenant: Schema = {"type": "string", "minLength": 1}
            found.append(
                query_parameter("scope.tenant_id", tenant, required=operation.scoped, description="The tenant.")
            )
            merchant = "The merchant on whose behalf the request is made; empty: the tenant itself."
            found.append(query_parameter("scope.merchant_id", {"type": "string"}, description=merchant))
        for name, field in fields_of(operation.request).items():
            if name not in closed:
                found.append(self._document.schemas.parameter(operation.request, field))
        return found

    def _request_body(self, operation: Operation) -> dict[str, Any]:
        schema = self._body_schema(operation)
        example = examples.core_body(operation) if self._core else operation.example
        content: dict[str, Any] = {"application/json": {"schema": schema, "example": example}}
        if operation.streamed:
            for kind in READERS:
                content.setdefault(kind, {"schema": {"type": "string"}, "example": "CIDER-0007\nCIDER-0008\n"})
        if operation.upload:
            binary: Schema = {"type": "string", "format": "binary"}
            for kind in uploads.FILES:
                content[kind] = {"schema": binary, "example": "the bytes of the file"}
            named: Schema = {"type": "string", "maxLength": uploads.NAME_CHARACTERS_MAX}
            parts: Schema = {"type": "object", "properties": {operation.upload: binary, "name": named}}
            content[uploads.FORM] = {
                "schema": {**parts, "required": [operation.upload], "additionalProperties": False},
                "example": {operation.upload: "the bytes of the file", "name": "logo.png"},
            }
        needed = self._document.schemas.components[schema["$ref"].rpartition("/")[2]].get("required", ())
        return {"required": bool(needed), "content": content}

    def _body_schema(self, operation: Operation) -> Schema:
        name, closed, lines = f"{operation.name}Body", self._closed(operation), dict[str, Schema]()
        if operation.streamed:
            # The fields other than the lines are internal to the edges and Core.
            closed |= fields_of(operation.request).keys() - {"scope", "expires_at"} - (operation.example or {}).keys()
            # Lines have no length limit here: the response reports each invalid line.
            any_text = {"type": "array", "items": {"type": "string"}, "minItems": 1}
            lines = dict.fromkeys(operation.example or {}, any_text)
        if not operation.resource:
            return self._document.schemas.body(operation.request, name, closed=closed, inner=lines)
        holds = fields_of(operation.request)[operation.resource].type
        own = f"{operation.name}Fields" if self._core else name
        resource = self._document.schemas.body(holds, own, partial="update_mask" in fields_of(operation.request))
        if self._core:
            return self._document.schemas.body(
                operation.request, name, closed=closed, inner={operation.resource: resource}
            )
        schema = self._document.schemas.components[name]
        for alias, field in ALIASES.get(holds, {}).items():
            schema["properties"] = {alias: schema["properties"][field], **schema["properties"]}
        return resource

    # -- responses ---------------------------------------------------------------------------

    def _responses(self, operation: Operation, of_path: Iterable[str]) -> dict[str, Any]:
        shape = AS_IT_IS if self._core else shape_of(operation)
        headers: dict[str, Any] = {}
        if self._is_rated(operation):
            headers |= _RATES
        if operation.keyed:
            headers |= _REPLAYED
        if self._surface == "admin" and admin.revised(operation.reply):
            headers |= _ETAG
        example = examples.answer(operation.reply, shape, "quoted" if self._core else "number")
        if "guest_token" in shape.added:
            example |= {"guest_token": "eyJhbGciOiJIUzI1NiIs..."}
        ok = self._document.response(self._document.schemas.answer(operation.reply, shape), example, headers)
        reasons = [*refusals.reasons_of(operation), *self._of_surface(operation), *of_path]
        return {"200": ok, **self._document.refusals(reasons)}

    def _is_rated(self, operation: Operation) -> bool:
        if self._surface != "consumer" or operation.consumer is None:
            return False
        return operation.consumer.policy is RoutePolicy.RATED

    def _of_surface(self, operation: Operation) -> Iterable[str]:
        """The refusal reasons that the surface adds to Core's."""
        if self._core:
            return ("FORBIDDEN", "TOKEN_MISSING", "TOKEN_INVALID")
        if _is_signed(operation):
            return ("SIGNATURE_INVALID", "CORE_UNAVAILABLE", "RATE_LIMITED")
        found = [*refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED"]
        if operation.keyed and not operation.streamed:
            found.append("IDEMPOTENCY_IN_PROGRESS")
        return found


def _is_signed(operation: Operation) -> bool:
    return operation.admin is not None and operation.admin.signed


def _loses_its_verb_without_id(path: Path, served: Iterable[Path]) -> bool:
    """Whether the path without its id matches another path that lacks the verb.

    Clients drop an id of `.` as a dot segment (RFC 3986, 5.2.4): POST /prizes/./codes arrives as
    POST /prizes/codes, which matches a prize's path.
    """
    before, id_, after = path.text.partition("/{id}/")
    if not id_:
        return False
    found = [other for other in served if re.fullmatch(other.text.replace("{id}", "[^/]+"), f"{before}/{after}")]
    return bool(found) and all(other.verb != path.verb for other in found)


def _links(served: Mapping[Path, Operation], *, wrapped: bool) -> dict[str, dict[str, Any]]:
    """The OpenAPI links of each operation's response.

    From a create: to every operation on the resource's path, and to every create that refers to its id. From a
    start: to the play. wrapped: the response nests the resource in its field, as on Core.
    """
    found: dict[str, dict[str, Any]] = {}
    makers = {path: operation for (path, _), operation in served.items() if operation.creates}
    for path, maker in makers.items():
        made = f"$response.body#/data/{f'{maker.resource}/' if wrapped else ''}id"
        links = found.setdefault(maker.name, {})
        for (other, _), operation in served.items():
            if other.startswith(f"{path}/{{id}}"):
                links[operation.name] = {"operationId": operation.name, "parameters": {"id": made}}
        for other_maker in makers.values():
            naming = f"{maker.resource}_id"
            named = fields_of(fields_of(other_maker.request)[other_maker.resource].type).get(naming)
            if named is not None and not named.read_only:
                body: dict[str, Any] = {naming: made}
                request = {other_maker.resource: body} if wrapped else body
                links[other_maker.name] = {"operationId": other_maker.name, "requestBody": request}
    opens, plays = _with_session(served, SessionUse.OPENS), _with_session(served, SessionUse.PLAYS)
    if opens and plays:
        session = {"session_id": "$response.body#/data/session_id"}
        # The path is the same game's.
        play = {"operationId": plays.name, "parameters": {"id": "$request.path.id"}, "requestBody": session}
        found[opens.name] = {plays.name: play}
    return found


def _with_session(served: Mapping[Path, Operation], use: SessionUse) -> Operation | None:
    return next((operation for operation in served.values() if operation.session is use), None)
