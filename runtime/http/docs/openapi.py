"""OpenAPI 3.1 documents of the three surfaces, made from the tables and types that serve them.

Paths come from `runtime.operations` and the edges' rows, bodies and answers from the messages by way of
`runtime.http.docs.schemas`, errors from `runtime.http.docs.refusals`. What an edge serves beside its rows (login, the
callback, health) is described here. `document` makes a surface's; `runtime.http.docs.pages` serves it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from runtime import __version__
from runtime import messages as m
from runtime.core import SCOPELESS
from runtime.errors import Status
from runtime.http import admin, consumer
from runtime.http.admin import allowed
from runtime.http.codes import READERS
from runtime.http.docs import examples, refusals
from runtime.http.docs.schemas import Schema, Schemas, ref
from runtime.http.edge import ALIASES, INTERNAL
from runtime.http.login.routes import FIELDS as LOGIN_FIELDS
from runtime.http.views import AS_IT_IS, shape_of
from runtime.operations import API, BY_NAME, OPERATIONS, Operation
from runtime.wire.schema import fields_of

Surface = Literal["core", "consumer", "admin"]

_ABOUT: Final[Mapping[Surface, str]] = {
    "core": "Every operation, 1:1 with its RPC. Core authenticates nobody: keep it private.",
    "consumer": "What widgets and players ask. Where no token says the tenant, X-Tenant-Id or ?tenant_id= does.",
    "admin": "What staff, their dashboards and machines ask. Every route is of the token's own tenant.",
}
_EVERYWHERE: Final = """

Every answer, errors included, is an envelope `{code, message, trace_id, data}`. `code` is a gRPC status name;
an error's `data.reason` says which refusal it is. Beside each operation's own, any request may meet
`UNKNOWN_ROUTE` (404), `METHOD_NOT_ALLOWED` (405), `EXPECTATION_FAILED` (417) and `MALFORMED_REQUEST` (400).
Times are unix seconds, 0 = unset. Enums are sent as value names; their lower-case tokens are taken too. In a
body, `null` is the same as leaving the field out. `traceparent` (W3C) is honoured and names the `trace_id`.
"""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "CreateCampaign": ("name",),
    "CreateGame": ("name", "campaign_id", "reward_handler", "handler_config"),
    "CreatePrize": ("name",),
    "CreateQuest": ("campaign_id", "name"),
    "CreateLeaderboard": ("name", "metric", "mode"),
    "CreateIntegration": ("type", "events"),
    "CreateTenant": ("name",),
    "CreateMerchant": ("name",),
    "Play": ("session_id",),
    "Redeem": ("milestone_id",),
    "AdjustBalance": ("player_id", "scope_key", "currency", "amount"),
    "DisqualifyPlayer": ("player_id", "reason"),
    "AdjustScore": ("player_id", "delta", "reason"),
    "EmitEvent": ("type",),
    "ImportCodes": ("codes",),
    "CompleteTask": ("status",),
    "ResolvePlayer": ("contact",),
    "LinkContact": ("contact",),
}
"""Fields without which a body is refused; a test asks the operations themselves."""

_PLAYER_OPTIONAL: Final = frozenset(
    {"Start", "Play", "GetEligibility", "ListRankings", "SearchRewards"} | {"AdjustBalance"}
)
"""Operations that have a `player_id` on Core and do without it (or have it in REQUIRED)."""

_ACTORS: Final[Mapping[str, str]] = {
    "Start": "Opens a session of the game. On a public game nobody needs a token: a guest is made, and "
    "`guest_token` makes the guest known later on. `drop_plan` is there for games that drop things.",
    "Play": "Plays a session, once, and answers what was won. `payload` is `{}` for a wheel or a scratch card, "
    "`{score, duration_ms}` for an egg catcher, `{caught_items}` for a gift catcher. `seed` with `client_seed` "
    "lets anyone check the draw against the `seed_hash` of the start.",
    "GetEligibility": "Whether the player may play now, and how often: -1 is without limit.",
    "ListMilestones": "The game's rungs, and how far the player is.",
    "Redeem": "Claims a rung that is reached, or exchanges balance for it. Once per player and rung.",
    "ClaimReward": "Claims a reward of one's own. `code` is there where the claim delivered it.",
}
"""What an actor's operations do; the others' functions say it themselves."""

_ENVELOPE: Final[Schema] = {
    "code": {"type": "string", "const": "OK"},
    "message": {"type": "string"},
    "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
}
_TRACE_ID: Final = examples.text("trace_id")

_RATES: Final = {
    "RateLimit": {"description": "What is left of each policy (IETF RateLimit)", "schema": {"type": "string"}},
    "RateLimit-Policy": {"description": "The policies", "schema": {"type": "string"}},
}
_REPLAYED: Final = {
    "Idempotency-Replayed": {"description": "`true`: this is the first answer again", "schema": {"type": "string"}}
}
_ETAG: Final = {"ETag": {"description": "The game's revision, for If-Match", "schema": {"type": "string"}}}


def document(surface: Surface, *, role_matrix: str = "any") -> dict[str, Any]:
    """A surface's whole document, as plain JSON values. role_matrix: the setting ROLE_MATRIX."""
    made = _Document(surface, role_matrix)
    made.add_operations()
    if surface == "consumer":
        made.add_login()
    made.add_health()
    return made.finished()


class _Document:
    def __init__(self, surface: Surface, role_matrix: str) -> None:
        self._surface: Surface = surface
        self._role_matrix = role_matrix
        self._core = surface == "core"
        self._schemas = Schemas("quoted" if self._core else "number")
        self._paths: dict[str, dict[str, Any]] = {}
        self._reasons: set[str] = set()
        self._tags: dict[str, None] = {}

    def finished(self) -> dict[str, Any]:
        links = _links(self._served())
        for path, verbs in self._paths.items():
            for verb, row in verbs.items():
                found = links.get(row["operationId"])
                if found:
                    self._paths[path][verb]["responses"]["200"]["links"] = found
        components: dict[str, Any] = {
            "schemas": dict(sorted((self._schemas.components | {"Error": _error()}).items())),
            "examples": {reason: {"value": _refused(reason)} for reason in sorted(self._reasons)},
        }
        if not self._core:
            components["securitySchemes"] = _SECURITY[self._surface]
        return {
            "openapi": "3.1.0",
            "info": {
                "title": f"Tombola {self._surface}",
                "version": __version__,
                "description": _ABOUT[self._surface] + _EVERYWHERE,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": name} for name in self._tags],
            "paths": self._paths,
            "components": components,
        }

    # -- the tables' operations --------------------------------------------------------------

    def add_operations(self) -> None:
        for path, operation in self._served().items():
            self._add(path, operation.verb, self._row(operation))

    def _served(self) -> dict[_Path, Operation]:
        """Each operation that the surface's tables serve, by its path (which carries its verb)."""
        if self._core:
            return {_Path(API + row.path, row.verb): row for row in OPERATIONS}
        if self._surface == "consumer":
            rows = [BY_NAME[row.operation] for row in consumer.ROWS]
            return {_Path(API + row.path, row.verb): row for row in rows}
        rows = [BY_NAME[row.operation] for row in admin.ROWS]
        served = {_Path(admin.PREFIX + row.path, row.verb): row for row in rows}
        callback = BY_NAME["CompleteTask"]
        return {**served, _Path(API + callback.path, callback.verb): callback}

    def _row(self, operation: Operation) -> dict[str, Any]:
        text = _ACTORS.get(operation.name) or inspect.getdoc(operation.run) or ""
        row: dict[str, Any] = {
            "operationId": operation.name,
            "tags": [self._tag(operation.service.removesuffix("Service"))],
            "summary": _summary(operation.name),
            "description": text + self._who(operation),
            "parameters": self._parameters(operation),
        }
        if operation.verb not in ("GET", "DELETE"):
            row["requestBody"] = self._request_body(operation)
        if not self._core:
            row["security"] = self._security(operation)
        row["responses"] = self._responses(operation)
        return row

    def _who(self, operation: Operation) -> str:
        if self._surface != "admin" or operation.name == "CompleteTask":
            return ""
        row = next(row for row in admin.ROWS if row.operation == operation.name)
        return f"\n\nRoles: {', '.join(sorted(allowed(row, self._role_matrix)))}."

    def _security(self, operation: Operation) -> list[dict[str, list[str]]]:
        if operation.name == "CompleteTask":
            return [{"signature": []}]
        either = self._surface == "consumer" and _consumer_row(operation).who is consumer.Who.EITHER
        return [{}, {"bearer": []}] if either else [{"bearer": []}]

    # -- what is sent ------------------------------------------------------------------------

    def _closed(self, operation: Operation) -> frozenset[str]:
        """Fields of the message that are not a client's to send in a body or query."""
        if self._core:
            return frozenset({"id", "idempotency_key"}) & fields_of(operation.request).keys()
        closed = consumer.CLOSED if self._surface == "consumer" else INTERNAL
        return closed | ({"callback_id"} if operation.name == "CompleteTask" else set())

    def _parameters(self, operation: Operation) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [_path_parameter(name) for name in re.findall(r"{(\w+)}", operation.path)]
        if operation.verb in ("GET", "DELETE"):
            found += self._query(operation)
        if self._keyed(operation):
            found.append(_header("Idempotency-Key", "The same key and body again: the same answer", 1, 200))
        if self._surface == "consumer":
            found.append(_header("X-Tenant-Id", "Whose data, where no token says it", 1, 100))
        if self._surface == "admin" and operation.name == "UpdateGame":
            found.append(_header("If-Match", "The ETag that the game was read with", 1, 100))
        if operation.name == "CompleteTask" and self._surface == "admin":
            found.append({"name": "tenant_id", "in": "query", "required": True, "schema": {"type": "string"}})
            found += [_header(name, "Standard Webhooks", 1, 2_000) for name in ("webhook-id", "webhook-timestamp")]
        return found

    def _query(self, operation: Operation) -> list[dict[str, Any]]:
        closed = self._closed(operation) | {"scope"}
        found: list[dict[str, Any]] = []
        if self._core:
            needed = operation.name not in SCOPELESS
            found.append(_query("scope.tenant_id", {"type": "string", "minLength": 1}, required=needed))
            found.append(_query("scope.merchant_id", {"type": "string"}))
        for name, field in fields_of(operation.request).items():
            if name not in closed:
                needed = self._core and name == "player_id" and operation.name not in _PLAYER_OPTIONAL
                found.append(_query(name, self._schemas.parameter(field), required=needed))
        return found

    def _keyed(self, operation: Operation) -> bool:
        if "idempotency_key" not in fields_of(operation.request):
            return False
        return self._core or self._surface == "consumer"

    def _request_body(self, operation: Operation) -> dict[str, Any]:
        schema = self._body_schema(operation)
        example = examples.core_body(operation) if self._core else examples.BODIES[operation.name]
        content: dict[str, Any] = {"application/json": {"schema": schema, "example": example}}
        if operation.name == "ImportCodes":
            for kind in READERS:
                content.setdefault(kind, {"schema": {"type": "string"}, "example": "CIDER-0007\nCIDER-0008\n"})
        required = bool(self._core and operation.name not in SCOPELESS) or bool(REQUIRED.get(operation.name))
        return {"required": required, "content": content}

    def _body_schema(self, operation: Operation) -> Schema:
        required = REQUIRED.get(operation.name, ())
        name = f"{operation.name}Body"
        if operation.name == "ImportCodes":
            own = {"codes": {"type": "array", "items": {"type": "string"}, "minItems": 1}}
            if self._core:
                own = {"scope": self._schemas.body(m.Scope, "ScopeInput", required=("tenant_id",)), **own}
            self._schemas.components[name] = _object(own, list(own))
            return ref(name)
        if not operation.resource:
            first: tuple[str, ...] = ("scope",) if self._core and operation.name not in SCOPELESS else ()
            player = self._core and "player_id" in fields_of(operation.request)
            first += ("player_id",) if player and operation.name not in _PLAYER_OPTIONAL | REQUIRED.keys() else ()
            if player and operation.name == "Redeem":
                first += ("player_id",)
            return self._schemas.body(
                operation.request, name, closed=self._closed(operation), required=(*first, *required)
            )
        holds = fields_of(operation.request)[operation.resource].type
        resource = self._schemas.body(holds, f"{name[:-4]}Fields" if self._core else name, required=required)
        if not self._core:
            schema = self._schemas.components[name]
            for alias, field in ALIASES.get(operation.resource, {}).items():
                schema["properties"] = {alias: schema["properties"][field], **schema["properties"]}
            return resource
        outer = [*(() if operation.name in SCOPELESS else ("scope",)), operation.resource]
        if "player_id" in fields_of(operation.request):
            outer.insert(1, "player_id")
        return self._schemas.body(
            operation.request, name, closed=self._closed(operation), required=outer, **{operation.resource: resource}
        )

    # -- what is answered --------------------------------------------------------------------

    def _responses(self, operation: Operation) -> dict[str, Any]:
        shape = AS_IT_IS if self._core else shape_of(operation)
        headers: dict[str, Any] = {}
        if self._surface == "consumer" and _consumer_row(operation).way is consumer.Way.RATED:
            headers |= _RATES
        if self._surface == "consumer" and self._keyed(operation):
            headers |= _REPLAYED
        if self._surface == "admin" and operation.reply is m.GameReply:
            headers |= _ETAG
        example = examples.answer(operation.reply, shape, "quoted" if self._core else "number")
        if "guest_token" in shape.added:
            example |= {"guest_token": "eyJhbGciOiJIUzI1NiIs..."}
        ok = self._answered(self._schemas.answer(operation.reply, shape), example, headers)
        return {"200": ok, **self._refusals([*refusals.reasons_of(operation), *self._of_surface(operation)])}

    def _of_surface(self, operation: Operation) -> Iterable[str]:
        """The reasons that the surface adds to Core's."""
        if self._core:
            return ("CONTENT_TYPE_UNSUPPORTED",) if operation.name == "ImportCodes" else ()
        if operation.name == "CompleteTask":
            return ("SIGNATURE_INVALID", "CORE_UNAVAILABLE")
        found = [*refusals.TOKENS, "CORE_UNAVAILABLE"]
        if self._surface == "admin":
            return [*found, "TOKEN_MISSING", "ROLE_REQUIRED"]
        row = _consumer_row(operation)
        found += ["TOKEN_MISSING", "ROLE_REQUIRED"]
        if row.way is consumer.Way.RATED:
            found.append("RATE_LIMITED")
        if self._keyed(operation):
            found.append("IDEMPOTENCY_IN_PROGRESS")
        return found

    def _answered(self, data: Schema, example: Any, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An answer with `data` in the envelope. Envelopes are components too, named after what they hold."""
        name = f"{data['$ref'].rpartition('/')[2]}Envelope"
        self._schemas.components[name] = _object({**_ENVELOPE, "data": data}, [*_ENVELOPE, "data"])
        shown = {"code": "OK", "message": "", "trace_id": _TRACE_ID, "data": example}
        answered = {
            "description": "OK",
            "content": {"application/json": {"schema": ref(name), "example": shown}},
        }
        return {**answered, "headers": dict(headers)} if headers else answered

    def _refusals(self, reasons: Iterable[str]) -> dict[str, Any]:
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
                    "schema": ref("Error"),
                    "examples": {reason: {"$ref": f"#/components/examples/{reason}"} for reason in reasons},
                }
            },
        }
        if http in (429, 503):
            made["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer", "minimum": 1}}}
        return made

    # -- what stands beside the tables -------------------------------------------------------

    def add_login(self) -> None:
        """The consumer edge's own routes (runtime.http.login.routes)."""
        moment: Schema = {"type": "integer", "format": "int64", "description": "Unix seconds."}
        text: Schema = {"type": "string"}
        components = self._schemas.components
        challenge = {"challenge_id": text, "expires_at": moment, "resend_at": moment}
        components["Challenge"] = _object(challenge, list(challenge))
        tokens = {"token": text, "refresh_token": text, "expires_at": moment, "player": self._schemas.answer(m.Player)}
        components["Tokens"] = _object(tokens, list(tokens))
        contact = self._schemas.answer(m.Contact)
        logged_in = {
            "token": "eyJhbGciOiJIUzI1NiIs...",
            "refresh_token": "rt_hq0V...",
            "expires_at": examples.LATER,
            "player": examples.answer(m.Player, AS_IT_IS, "number"),
        }
        asked = {"challenge_id": _CHALLENGE, "expires_at": 1_767_225_900, "resend_at": 1_767_225_660}
        linked = examples.answer(m.Contact, AS_IT_IS, "number")
        limited = ("RATE_LIMITED", "RESEND_TOO_SOON", "SENDER_UNAVAILABLE")
        coded = ("UNKNOWN_CHALLENGE", "CODE_WRONG", "CODE_EXPIRED", "CORE_UNAVAILABLE", "UNKNOWN_TENANT")
        for name, path, answer, example, reasons in (
            ("StartLogin", "/players/auth/start", ref("Challenge"), asked, limited),
            ("VerifyLogin", "/players/auth/verify", ref("Tokens"), logged_in, (*coded, "PLAYER_MERGED")),
            ("RefreshLogin", "/players/auth/refresh", ref("Tokens"), logged_in, ("CORE_UNAVAILABLE", "UNKNOWN_PLAYER")),
            (
                *("LinkContact", "/players/me/contacts", contact, linked),
                (*coded, "TOKEN_MISSING", "ROLE_REQUIRED", "CONTACT_TAKEN", "PLAYER_MERGED", "UNKNOWN_PLAYER"),
            ),
        ):
            properties = {field: _login_field(field) for field in LOGIN_FIELDS[path]}
            components[f"{name}Body"] = _object(properties, list(properties))
            body = {field: _LOGIN_EXAMPLES[field] for field in properties}
            every = (*refusals.ALWAYS, *refusals.WITH_BODY, *refusals.TOKENS, *reasons)
            row = {
                "operationId": name,
                "tags": [self._tag("Login")],
                "summary": _summary(name),
                "description": _LOGIN_TEXTS[name],
                "parameters": [_header("X-Tenant-Id", "Whose data, where no token says it", 1, 100)],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": ref(f"{name}Body"), "example": body}},
                },
                "security": [{"bearer": []}] if name == "LinkContact" else [{}, {"bearer": []}],
                "responses": {"200": self._answered(answer, example), **self._refusals(every)},
            }
            self._add(_Path(API + path, "POST"), "POST", row)

    def add_health(self) -> None:
        """/healthz and /readyz; Core's /metrics."""
        components = self._schemas.components
        components["Health"] = _object({"status": {"type": "string"}}, ["status"])
        checks: Schema = {"type": "array", "items": {"type": "string"}}
        components["Readiness"] = _object({"status": {"type": "string"}, "checks": checks}, ["status", "checks"])
        ready = {"status": "ready", "checks": ["database", "redis"]}
        not_ready = self._refusals(["NOT_READY"])
        not_ready["503"]["headers"]["X-Failed-Check"] = {"description": "Which", "schema": {"type": "string"}}
        rows: dict[str, dict[str, Any]] = {
            "/healthz": {
                "operationId": "GetHealth",
                "summary": "Alive",
                "responses": {"200": self._answered(ref("Health"), {"status": "alive"})},
            },
            "/readyz": {
                "operationId": "GetReadiness",
                "summary": "Ready to serve: every store answers",
                "responses": {"200": self._answered(ref("Readiness"), ready), **not_ready},
            },
        }
        if self._core:
            text = {"text/plain": {"schema": {"type": "string"}, "example": "tombola_operations_total 1.0\n"}}
            rows["/metrics"] = {
                "operationId": "GetMetrics",
                "summary": "Metrics as Prometheus reads them",
                "responses": {"200": {"description": "OK", "content": text}},
            }
        for path, row in rows.items():
            row |= {"tags": [self._tag("Operational")], "security": []}
            self._add(_Path(path, "GET"), "GET", row)

    def _add(self, path: _Path, verb: str, row: dict[str, Any]) -> None:
        self._paths.setdefault(path.text, {})[verb.lower()] = row

    def _tag(self, name: str) -> str:
        self._tags[name] = None
        return name


class _Path(tuple[str, str]):
    """A path and its verb."""

    __slots__ = ()

    def __new__(cls, path: str, verb: str) -> _Path:
        return super().__new__(cls, (path, verb))

    @property
    def text(self) -> str:
        return self[0]


# -- pieces ----------------------------------------------------------------------------------

_CHALLENGE: Final = "chal_0f1e2d3c4b5a69788796a5b4c3d2e1f00123456789abcdef"

_LOGIN_EXAMPLES: Final[Mapping[str, str]] = {
    "contact_type": "CONTACT_TYPE_EMAIL",
    "contact": "ada@example.com",
    "challenge_id": _CHALLENGE,
    "code": "123456",
    "refresh_token": "rt_hq0V...",
    "type": "CONTACT_TYPE_PHONE",
    "value": "+4915112345678",
}
_LOGIN_TEXTS: Final[Mapping[str, str]] = {
    "StartLogin": "Sends a code to a phone or an e-mail address. The answer is the same whether it is known or not.",
    "VerifyLogin": "Turns a right code into a player's tokens. A guest's token, sent along, hands over what the "
    "guest has won.",
    "RefreshLogin": "Turns a refresh token into new tokens. Each is good for one use.",
    "LinkContact": "Gives a player one more contact, proved by a challenge of its own.",
}

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
    "core": {},
}


def _error() -> Schema:
    violation = _object({"field": {"type": "string"}, "description": {"type": "string"}}, ["field", "description"])
    data = {
        "type": "object",
        "properties": {
            "reason": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
            "violations": {"type": "array", "items": violation},
        },
        "required": ["reason"],
        "additionalProperties": True,
    }
    names = [status.name for status in Status if status is not Status.OK]
    return _object({**_ENVELOPE, "code": {"type": "string", "enum": names}, "data": data}, [*_ENVELOPE, "data"])


def _refused(reason: str) -> dict[str, Any]:
    """An example of a refusal's envelope."""
    refusal = refusals.REFUSALS[reason]
    data = {"reason": reason, **refusal.facts}
    return {"code": refusal.status.name, "message": refusal.means, "trace_id": _TRACE_ID, "data": data}


def _object(properties: Mapping[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _login_field(name: str) -> Schema:
    if name in ("contact_type", "type"):
        return {"type": "string", "enum": ["CONTACT_TYPE_PHONE", "CONTACT_TYPE_EMAIL"]}
    return {"type": "string", "minLength": 1, "maxLength": 10_000}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _header(name: str, description: str, least: int, most: int) -> dict[str, Any]:
    schema = {"type": "string", "minLength": least, "maxLength": most}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def _consumer_row(operation: Operation) -> consumer.Row:
    return next(row for row in consumer.ROWS if row.operation == operation.name)


def _summary(name: str) -> str:
    """CreateGame -> Create game"""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join([words[0], *(word.lower() for word in words[1:])])


def _links(served: Mapping[_Path, Operation]) -> dict[str, dict[str, Any]]:
    """What can be asked next: of a thing that was made, every operation on its path; of a session, the play."""
    found: dict[str, dict[str, Any]] = {}
    core = any(operation.name == "ResolvePlayer" for operation in served.values())
    for (path, verb), maker in served.items():
        if verb != "POST" or not maker.name.startswith("Create"):
            continue
        made = f"$response.body#/data/{f'{maker.resource}/' if core else ''}id"
        links = found.setdefault(maker.name, {})
        for (other, _), operation in served.items():
            if other.startswith(f"{path}/{{id}}"):
                links[operation.name] = {"operationId": operation.name, "parameters": {"id": made}}
        if maker.name == "CreateCampaign":
            for name in ("CreateGame", "CreatePrize", "CreateQuest", "CreateLeaderboard"):
                body: dict[str, Any] = {"campaign_id": made}
                links[name] = {"operationId": name, "requestBody": {BY_NAME[name].resource: body} if core else body}
    if any(operation.name == "Play" for operation in served.values()):
        session = {"session_id": "$response.body#/data/session_id"}
        # The path is the same game's.
        found["Start"] = {
            "Play": {"operationId": "Play", "parameters": {"id": "$request.path.id"}, "requestBody": session}
        }
    return found
